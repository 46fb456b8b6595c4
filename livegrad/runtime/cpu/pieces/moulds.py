"""Moulds: the programs of pieces without their sizes.

                       image with holes ──────────────┐
    sizes of a node ──► code ──► registers ──► holes ─┴─► program        natively: filling.py

So a piece serves every size, and what a new size costs is filling in its words. A mould is learnt
once (learning.py), and is plain data: the next process finds it on disk, without addresses.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from livegrad.compiler.plan import Signature
from livegrad.graph.written import Written, text_of
from livegrad.runtime.cpu.assemble import kernel_for
from livegrad.runtime.cpu.driver import HEADER_SLOTS, STEP_SLOTS
from livegrad.runtime.cpu.jit import Kernel
from livegrad.runtime.cpu.pieces.layout import STEPS_WORD


class Unfit(Exception):
    """Something that cannot be listed: NumPy runs it, or its plan is for its numbers only."""


class Told(NamedTuple):
    """A step: what `explain()` calls it, the kernel, those that this calls, and the ops."""

    kind: str
    signature: Signature
    calls: list[tuple[int, Signature]]
    ops: list[str]


class Mould(NamedTuple):
    """A program whose words are numbers or, as far as they depend on sizes, registers."""

    leaves: int  # how many tensors are read
    code: list[tuple[int, int, int]]
    image: list[int]
    fills: list[tuple[int, int]]
    # Registers with the bytes of new tensors.
    outs: list[int]
    # Results: the new tensor that each is, or -1 - one read or made before; registers with bytes.
    sources: list[int]
    results: list[int]
    # Registers with bytes of scratch memory, and of that of a thread.
    scratch: int
    thread_scratch: int
    steps: list[Told]
    writes: bool  # it changes a part of what it reads, if that is nobody else's

    def linked(self) -> tuple[list[int], list[Kernel]]:
        """The image with the addresses of code, and the kernels that these are of."""
        image, kernels = list(self.image), []
        for number, step in enumerate(self.steps):
            at = self.image[STEPS_WORD] + STEP_SLOTS * number
            first, repeat, stride = self.image[at + 1 : at + 4]
            starts = [HEADER_SLOTS + first + i * stride for i in range(repeat)]
            for place, signature in [(at, step.signature), *_placed(starts, step.calls)]:
                kernels.append(kernel_for(signature))
                image[place] = kernels[-1].address
        return image, kernels

    def plain(self) -> list[Any]:
        """What JSON can say, for `read_mould`."""
        steps = [
            [x.kind, text_of(x.signature), [[at, text_of(y)] for at, y in x.calls], x.ops]
            for x in self.steps
        ]
        return [self.writes, steps, *self[:-2]]

    def is_like(self, other: Mould) -> bool:
        """Whether both have the same words, also if one of them was read."""
        return json.dumps(self.plain()) == json.dumps(other.plain())


def read_mould(told: list[Any]) -> Mould:
    """The mould that was `plain` in some process."""
    writes, steps, *fields = told
    read = [
        Told(kind, Written(text), [(at, Written(x)) for at, x in calls], ops)
        for kind, text, calls, ops in steps
    ]
    return Mould._make([*fields, read, writes])


def _placed(blocks: list[int], calls: list[tuple[int, Signature]]) -> list[tuple[int, Signature]]:
    """Kernels that are called, by the places of their addresses in all blocks of the image."""
    return [(block + slot, signature) for block in blocks for slot, signature in calls]
