"""From a plan to an executable: kernels by signature, argument blocks, native programs."""

from __future__ import annotations

from itertools import groupby
from time import perf_counter
from typing import Any
from weakref import WeakValueDictionary

from livegrad.compiler import debug
from livegrad.compiler.plan import Block, Patch, Plan, Signature, Step, signature_text
from livegrad.graph.events import COMPILED, tell_compiled
from livegrad.graph.symbol import most
from livegrad.graph.written import text_or_none, value_of
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import jit
from livegrad.runtime.cpu.driver import MAY_FAULT, TAIL, Program
from livegrad.runtime.cpu.host_steps import HostStep
from livegrad.runtime.cpu.known import key_of
from livegrad.runtime.cpu.segments import Segment, Segments


def assemble(plan: Plan) -> Segments:
    """A plan with its kernels found or compiled, and native steps joined into programs."""
    segments: list[Segment | HostStep] = []
    for native, run in groupby(enumerate(plan.steps), lambda step: step[1].host is None):
        numbered = list(run)
        if native:
            segments.append(_segment(plan, numbered[0][0], [step for _, step in numbered]))
        else:
            segments += [_on_host(plan, number, step) for number, step in numbered]
    return Segments(plan, segments)


def _segment(plan: Plan, first: int, steps: list[Step]) -> Segment:
    program, kernels = _build_program(steps, plan.first_int + plan.ints, plan.floats)
    return Segment(first, steps, program, kernels)


def _on_host(plan: Plan, number: int, step: Step) -> HostStep:
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


class Parts:
    """What a program consists of, and the kernels it calls."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.patches: list[Patch] = []
        self.steps: list[tuple[int, ...]] = []
        self.kernels: list[jit.Kernel] = []
        # Of one thread, in bytes.
        self.scratch = 0


def parts_of(steps: list[Step], with_code: bool = True) -> Parts:
    """The argument blocks of steps one after the other, their patches, and which code they call.

    Without code, addresses are 0.
    """
    parts = Parts()
    for step in steps:
        blocks = step.blocks
        address = _link(parts, step.signature) if with_code else 0
        called = [(slot, _link(parts, x)) for slot, x in step.calls] if with_code else []
        start, stride = len(parts.slots), len(blocks[0].slots)
        for block in blocks:
            base = len(parts.slots)
            assert len(block.slots) == stride
            parts.slots += block.slots
            for slot, callee in called:
                parts.slots[base + slot] = callee
            parts.patches += [(kind, base + dst, src, x) for kind, dst, src, x in block.patches]
            parts.scratch = most(parts.scratch, block.scratch)
        flags = MAY_FAULT * step.may_fault | TAIL * step.tail
        parts.steps.append((address, start, len(blocks), stride, _grain(blocks), flags))
    return parts


def _grain(blocks: list[Block]) -> int:
    """Items that are worth a thread: as many as come to it on average, if blocks differ."""
    if len(blocks) == 1:
        return blocks[0].grain
    items = sum([block.slots[0] for block in blocks])
    worth = sum([block.slots[0] * 1024 // block.grain for block in blocks])
    return most(1, items * 1024 // most(1, worth))


def _link(parts: Parts, signature: Signature) -> int:
    """The address of code, which the program keeps."""
    kernel = kernel_for(signature)
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
    )
    return program, parts.kernels
