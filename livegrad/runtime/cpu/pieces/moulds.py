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
from livegrad.dtypes import by_name
from livegrad.graph.meta import Meta
from livegrad.graph.written import Written, text_of
from livegrad.runtime.cpu import blas
from livegrad.runtime.cpu.assemble import gemm_kernel, kernel_for
from livegrad.runtime.cpu.driver import HEADER_SLOTS, STEP_SLOTS
from livegrad.runtime.cpu.jit import Kernel
from livegrad.runtime.cpu.pieces.layout import STEPS_WORD


class Unfit(Exception):
    """Something that cannot be listed: NumPy runs it, or its plan is for its numbers only."""


def numbered(metas: list[Meta]) -> tuple[list[int], list[int]]:
    """For each dim 0, 1, or 2 + the number of its size; and the sizes: see PATTERN in layout.py."""
    numbers: dict[int, int] = {}
    pattern = [
        size if size < 2 else 2 + numbers.setdefault(size, len(numbers))
        for meta in metas
        for size in meta.shape
    ]
    return pattern, list(numbers)


class Told(NamedTuple):
    """A step: what `explain()` calls it, the kernel (or the dtype of a product), and the ops."""

    kind: str
    signature: Signature
    product: str
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
            if step.product:
                dtype = by_name(step.product).storage
                image[at] = gemm_kernel(dtype)
                image[self._place_of_blas(at)] = blas.gemm_function(dtype)
            else:
                kernels.append(kernel_for(step.signature))
                image[at] = kernels[-1].address
        return image, kernels

    def _place_of_blas(self, step: int) -> int:
        """Where the argument block of a product has the address of what multiplies."""
        return HEADER_SLOTS + self.image[step + 1] + 1

    def unlink(self) -> None:
        """Takes addresses, which the next process has others of, from the image."""
        for number, step in enumerate(self.steps):
            if step.product:
                at = self.image[STEPS_WORD] + STEP_SLOTS * number
                self.image[self._place_of_blas(at)] = 0

    @property
    def can_be_linked(self) -> bool:
        """Whether there is what its products need."""
        return blas.gemm_available() or not any([step.product for step in self.steps])

    def plain(self) -> list[Any]:
        """What JSON can say, for `read_mould`."""
        steps = [[x.kind, _text(x.signature), x.product, x.ops] for x in self.steps]
        return [self.writes, steps, *self[:-2]]

    def is_like(self, other: Mould) -> bool:
        """Whether both have the same words, also if one of them was read."""
        return json.dumps(self.plain()) == json.dumps(other.plain())


def read_mould(told: list[Any]) -> Mould:
    """The mould that was `plain` in some process."""
    writes, steps, *fields = told
    read = [Told(kind, Written(text) if text else (), p, ops) for kind, text, p, ops in steps]
    return Mould._make([*fields, read, writes])


def _text(signature: Signature) -> str:
    return text_of(signature) if signature else ""
