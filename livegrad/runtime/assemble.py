"""From a plan to an executable: kernels by signature, argument blocks, native programs."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any
from weakref import WeakValueDictionary

from livegrad.compiler import debug
from livegrad.compiler.bind import Block
from livegrad.compiler.expand import Recorded
from livegrad.compiler.pipeline import Plan, Step
from livegrad.compiler.scan import generate_scan
from livegrad.compiler.scatter import generate_scatter
from livegrad.compiler.templates import generate
from livegrad.graph.events import COMPILED, tell_compiled
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import blas, jit
from livegrad.runtime.cpu.driver import MAY_FAULT, TAIL, Program
from livegrad.runtime.executable import Executable, HostProduct, HostStep, Segment


def assemble(plan: Plan, recorded: Recorded) -> Executable:
    """The executable of a plan: kernels found or compiled, native steps joined into programs."""
    segments: list[Segment | HostStep | HostProduct] = []
    inputs = plan.first_int + plan.ints
    native: list[Step] = []

    def end_native() -> None:
        if native:
            program, kernels = _build_program(native, inputs, plan.floats)
            segments.append(Segment(list(native), program, kernels))
            native.clear()

    for step in plan.steps:
        if step.kind == "host" or (step.kind == "product" and not blas.gemm_available()):
            end_native()
            segments.append(HostProduct(step) if step.product else HostStep(step, plan.first_int))
        else:
            native.append(step)
    end_native()
    return Executable(plan, recorded, segments)


# Kernels by signature, shared by all plans; they live as long as a plan that runs them does.
_kernels: WeakValueDictionary[tuple[Any, ...], jit.Kernel] = WeakValueDictionary()
# What makes their code, by the first item of the signature; `generate` for all kinds of loops.
_TEMPLATES: dict[str, Callable[..., str]] = {"scatter": generate_scatter, "scan": generate_scan}


def kernel_for(signature: tuple[Any, ...]) -> jit.Kernel:
    """The native code for `signature`, compiled if it is new."""
    kernel = _kernels.get(signature)
    if kernel is None:
        before, started = counters.compiles, perf_counter()
        make: Callable[..., str] = _TEMPLATES.get(signature[0], generate)
        ir = make(signature, "kernel")
        if debug.wants("ir"):
            debug.out(ir)
        kernel = _kernels[signature] = jit.load_kernel(ir, "kernel")
        counters.kernels_made += 1
        if COMPILED:
            tell_compiled(signature, counters.compiles == before, perf_counter() - started)
        if debug.wants("kernels"):
            debug.out(f"kernel {counters.kernels_made}: {signature}")
    return kernel


def _build_program(
    steps: list[Step], inputs: int, scalars: int
) -> tuple[Program, list[jit.Kernel]]:
    """The steps as one program, and the kernels it calls."""
    kernels = []
    slots: list[int] = []
    patches: list[tuple[int, int, int, int]] = []
    table = []
    scratch = 0
    has_product = False
    for step in steps:
        if step.kind == "product":
            address, blocks = _product(step)
            has_product = True
        else:
            kernel = kernel_for(step.signature)
            kernels.append(kernel)
            address, blocks = kernel.address, step.blocks
        start, stride = len(slots), len(blocks[0].slots)
        for block in blocks:
            base = len(slots)
            assert len(block.slots) == stride
            slots += block.slots
            patches += [(kind, base + dst, src, value) for kind, dst, src, value in block.patches]
            scratch = max(scratch, block.scratch)
        grain = blocks[0].grain
        flags = MAY_FAULT * step.may_fault | TAIL * step.tail
        table.append((address, start, len(blocks), stride, grain, flags))
    program = Program(
        patches,
        slots,
        table,
        inputs=inputs,
        scalars=scalars,
        scratch_bytes=scratch,
        blas_threads=blas.thread_control() if has_product else (0, 0),
    )
    return program, kernels


def _product(step: Step) -> tuple[int, list[Block]]:
    p = step.product
    assert p is not None
    dtype = p.dtype.storage
    slots = blas.gemm_block(
        dtype,
        p.sizes,
        p.leading,
        trans=p.trans,
        batch=p.batch,
        batch_strides=p.batch_strides,
    )
    patches = [(0, 2 + i, where.slot, where.offset) for i, where in enumerate(p.wheres)]
    patches += [(1, 2 + operand, slot, nbytes) for operand, slot, nbytes in p.moves]
    address, _ = blas.gemm_kernel(dtype)
    return address, [Block(slots, patches)]
