"""From a plan to an executable: kernels by signature, argument blocks, native programs."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from itertools import groupby
from time import perf_counter
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from livegrad.compiler import debug
from livegrad.compiler.plan import (
    ADD_INPUT,
    SET_INPUT,
    BlasCall,
    Block,
    Patch,
    Plan,
    Signature,
    Step,
    signature_text,
)
from livegrad.graph.events import COMPILED, tell_compiled
from livegrad.graph.symbol import most
from livegrad.graph.written import text_or_none, value_of, written_call
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import blas, jit
from livegrad.runtime.cpu.driver import MAY_FAULT, TAIL, Program
from livegrad.runtime.cpu.known import key_of
from livegrad.runtime.cpu.segments import HostProduct, HostStep, Segment, Segments


def assemble(plan: Plan) -> Segments:
    """A plan with its kernels found or compiled, and native steps joined into programs."""
    segments: list[Segment | HostStep | HostProduct] = []
    for native, run in groupby(enumerate(plan.steps), lambda step: _is_native(step[1])):
        numbered = list(run)
        if native:
            segments.append(_segment(plan, numbered[0][0], [step for _, step in numbered]))
        else:
            segments += [_on_host(plan, number, step) for number, step in numbered]
    return Segments(plan, segments)


def _is_native(step: Step) -> bool:
    return step.host is None and (step.product is None or blas.gemm_available())


def _segment(plan: Plan, first: int, steps: list[Step]) -> Segment:
    program, kernels = _build_program(steps, plan.first_int + plan.ints, plan.floats)
    return Segment(first, steps, program, kernels)


def _on_host(plan: Plan, number: int, step: Step) -> HostStep | HostProduct:
    if step.product is not None:
        return HostProduct(step.product)
    assert step.host is not None
    return HostStep(number, step.host, plan.first_int)


# Kernels by the texts of signatures, shared by all plans; they live as long as a plan that runs
# them does.
_kernels: WeakValueDictionary[Any, jit.Kernel] = WeakValueDictionary()


def kernel_for(signature: Signature) -> jit.Kernel:
    """The native code for `signature`: loaded before, from disk, or compiled."""
    text = text_or_none(signature)
    name = signature if text is None else text
    kernel = _kernels.get(name)
    if kernel is None:
        before, started = counters.compiles, perf_counter()
        kernel = _kernels[name] = _loaded(signature, text)
        counters.kernels_made += 1
        if COMPILED:
            tell_compiled(signature, counters.compiles == before, perf_counter() - started)
        if debug.wants("kernels"):
            debug.show(f"kernel {counters.kernels_made}", signature_text(value_of(signature)))
    return kernel


def _loaded(signature: Signature, text: str | None) -> jit.Kernel:
    if debug.wants("ir"):
        debug.out(_ir(signature))
    # What is not the package's own may change though it has the same name.
    known_as = _ir(signature) if text is None else key_of("kernel", text)
    return jit.Kernel(jit.code_known_as(known_as, lambda: _ir(signature)), "kernel")


def _ir(signature: Signature) -> str:
    from livegrad.runtime.cpu.generating import generated  # with the compiler

    return generated(signature)


@functools.cache
def gemm_kernel(dtype: npt.DTypeLike) -> int:
    """The address of the kernel that multiplies matrices of float32 or float64."""
    element = "float" if np.dtype(dtype).itemsize == 4 else "double"
    integer = "i64" if blas.has_wide_integers() else "i32"
    # By its name: what generates it is imported with the compiler.
    signature = written_call("livegrad.runtime.cpu.gemm:generate_gemm", element, integer)
    kernel = _loaded(signature, signature.text)
    jit.keep_for_good(kernel)
    return kernel.address


@dataclass
class Parts:
    """What a program consists of, and the kernels it calls."""

    slots: list[int] = field(default_factory=list)
    patches: list[Patch] = field(default_factory=list)
    steps: list[tuple[int, ...]] = field(default_factory=list)
    kernels: list[jit.Kernel] = field(default_factory=list)
    # Of one thread, in bytes.
    scratch: int = 0
    has_product: bool = False


def parts_of(steps: list[Step], with_code: bool = True) -> Parts:
    """The argument blocks of steps one after the other, their patches, and which code they call.

    Without code, addresses are 0.
    """
    parts = Parts()
    for step in steps:
        blocks = step.blocks if step.product is None else [_product_block(step.product)]
        address = _link(parts, step) if with_code else 0
        start, stride = len(parts.slots), len(blocks[0].slots)
        for block in blocks:
            base = len(parts.slots)
            assert len(block.slots) == stride
            parts.slots += block.slots
            parts.patches += [(kind, base + dst, src, x) for kind, dst, src, x in block.patches]
            parts.scratch = most(parts.scratch, block.scratch)
        flags = MAY_FAULT * step.may_fault | TAIL * step.tail
        parts.steps.append((address, start, len(blocks), stride, blocks[0].grain, flags))
    return parts


def _link(parts: Parts, step: Step) -> int:
    """The address of a step's code, which the program keeps."""
    if step.product is not None:
        parts.has_product = True
        return gemm_kernel(step.product.dtype.storage)
    kernel = kernel_for(step.signature)
    parts.kernels.append(kernel)
    return kernel.address


def _build_program(
    steps: list[Step], inputs: int, scalars: int
) -> tuple[Program, list[jit.Kernel]]:
    """The steps as one program, and the kernels it calls."""
    parts = parts_of(steps)
    program = Program(
        parts.patches,
        parts.slots,
        parts.steps,
        inputs=inputs,
        scalars=scalars,
        scratch_bytes=parts.scratch,
        blas_threads=blas.thread_control() if parts.has_product else (0, 0),
    )
    return program, parts.kernels


def _product_block(p: BlasCall) -> Block:
    slots = blas.gemm_block(
        p.dtype.storage,
        p.sizes,
        p.leading,
        trans=p.trans,
        batch=p.batch,
        batch_strides=p.batch_strides,
    )
    patches = [(SET_INPUT, 2 + i, where.slot, where.offset) for i, where in enumerate(p.wheres)]
    patches += [(ADD_INPUT, 2 + operand, slot, nbytes) for operand, slot, nbytes in p.moves]
    return Block(slots, patches)
