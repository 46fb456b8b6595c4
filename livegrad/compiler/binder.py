"""Argument blocks of rows and columns kernels: sizes, strides, patches for what a run brings."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from livegrad.compiler.access import axis_strides, contiguous_strides
from livegrad.compiler.describe import Description
from livegrad.compiler.plan import (
    ADD_INPUT,
    SET_CONSTANT,
    SET_INPUT,
    SET_SCALAR,
    Block,
    Patch,
    Signature,
    Where,
)
from livegrad.compiler.templates import HEADER, RECORD
from livegrad.graph.index import Index
from livegrad.graph.node import Node
from livegrad.graph.numbers import FloatArg, IntArg
from livegrad.graph.op import REGISTRY
from livegrad.graph.symbol import Session, Symbol, SymbolicFloat, least, most

# Elements of one work item, about: small enough to share out, large enough to hide the overhead.
ITEM_ELEMENTS = 4096
INNER_BLOCK = 16384
COLUMN_BLOCK = 64
# Element operations that are worth waking a thread for.
THREAD_WORK = 65536

Axis = tuple[int, list[int]]  # size, and bytes per step for each stream


def patched(where: Callable[[Node], Where], *nodes: Node) -> list[Patch]:
    """Patches that write the addresses of `nodes` into the slots from 1 on."""
    places = [where(x) for x in nodes]
    return [(SET_INPUT, slot, at.slot, at.offset) for slot, at in enumerate(places, 1)]


def bits_of_double(number: float) -> int:
    """The int64 with the bits of a double."""
    session = Session.current
    if session is not None and isinstance(number, SymbolicFloat) and number.term:
        plain: int = bits_of_double(float.__add__(number, 0.0))
        return session.symbol(plain, session.term("bits_of_double", f"({number.term})"))
    value: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return value


def put_numbers(
    numbers: Sequence[Any], slots: list[int], patches: list[Patch], first_int: int
) -> None:
    """Appends a slot for each number: its bits, or a patch if a run brings it."""
    for number in numbers:
        at = len(slots)
        if isinstance(number, FloatArg):
            patches.append((SET_SCALAR, at, number.slot, 0))
            slots.append(0)
        elif isinstance(number, IntArg):
            patches.append((SET_INPUT, at, first_int + number.slot, 0))
            slots.append(0)
        elif isinstance(number, float):
            slots.append(bits_of_double(number))
        else:
            slots.append(number if isinstance(number, Symbol) else int(number))


class Binder:
    """Fills one argument block for a rows or columns kernel."""

    def __init__(self, d: Description, where: Callable[[Node], Where], first_int: int) -> None:
        self.d = d
        self.where = where
        self.first_int = first_int
        self.patches: list[Patch] = []
        self.calls: list[tuple[int, Signature]] = []
        self.axes = len(d.shape)

    def run(self, spills: int) -> Block:
        """The block. `spills` is how many rows of scratch memory the kernel keeps."""
        axes = self.loop_axes()
        inner, middle, outer = self.arrange(axes)
        slots = self._header(inner, middle, outer, spills)
        scratch = slots[8] * spills
        slots += [size for size, _ in outer]
        for k in range(len(self.d.streams)):
            self._record(slots, k, inner, middle, outer)
        put_numbers(self.d.numbers, slots, self.patches, self.first_int)
        for node, dim in self.d.gathers:
            stride = contiguous_strides(node.meta.shape)[dim] * node.meta.dtype.itemsize
            slots += [stride, node.meta.shape[dim]]
        elements = self.elements(slots, prod([size for size, _ in outer]))
        grain = most(1, THREAD_WORK // most(1, elements * self.weight()))
        scratch += self.more(slots, inner, outer)
        return Block(slots, self.patches, grain, scratch)

    def elements(self, slots: list[int], around: int) -> int:
        """How many a work item computes, or folds."""
        return slots[6] * slots[4] if self.d.kind == "rows" else slots[3] * slots[4]

    def more(self, slots: list[int], inner: Axis, outer: list[Axis]) -> int:
        """What else is told, and bytes of scratch memory for it."""
        return 0

    def weight(self) -> int:
        """Roughly how many cheap operations each element takes."""
        weight = 0
        for instr in self.d.instrs:
            if instr.what == "op":
                weight += 1 if REGISTRY[instr.payload[0]].cheap else 8
            elif instr.what == "generate":
                weight += 1 if REGISTRY[instr.payload].cheap else 40
        return max(1, weight)

    # --------------------------------------------------------------------------- loop axes

    def loop_axes(self) -> list[Axis]:
        per_stream = []
        for stream, (node, index) in zip(self.d.streams, self.d.places, strict=True):
            unit = 1 if stream.kind == "position" else node.meta.dtype.itemsize
            strides = axis_strides(index, node.meta.shape, self.axes)
            per_stream.append([s * unit for s in strides])
        return [(size, [s[a] for s in per_stream]) for a, size in enumerate(self.d.shape)]

    def arrange(self, axes: list[Axis]) -> tuple[Axis, Axis, list[Axis]]:
        """Inner, middle and outer loops; neighbours that every stream walks alike become one."""
        none: Axis = (1, [0] * len(self.d.streams))
        dims = self.d.dims
        others = [a for d, a in enumerate(axes) if d not in dims and a[0] != 1]
        folded = [axes[d] for d in dims]
        if self.d.kind == "columns":
            middle = (prod([size for size, _ in folded]), folded[-1][1])
            after = [a for d, a in enumerate(axes) if d > dims[-1] and a[0] != 1]
            before = others[: len(others) - len(after)]
            kept = collapsed(after)
            return kept[-1], middle, collapsed(before) + kept[:-1]
        if dims:
            inner = (prod([size for size, _ in folded]), folded[-1][1])
            loops = collapsed(others)
        else:
            loops = collapsed(others)
            inner = loops.pop() if loops else none
        return inner, loops.pop() if loops else none, loops

    def _header(self, inner: Axis, middle: Axis, outer: list[Axis], spills: int) -> list[int]:
        n, m = inner[0], middle[0]
        folds = bool(self.d.dims)
        around = prod([size for size, _ in outer])
        if self.d.kind == "columns":
            block = least(n, COLUMN_BLOCK) or 1
            count, blocks = around * -(-n // block), -(-n // block) or 1
            return [count, len(outer), n, m, block, blocks, 1, 1, 0, 0]
        block, rows = self.item(n, m, around)
        inner_blocks = 1 if folds else -(-n // (block or 1))
        middle_blocks = -(-m // (rows or 1))
        scratch_row = (n * 8 + 63) // 64 * 64 if spills else 0
        count = self.blocks_around(around) * middle_blocks * inner_blocks
        return [
            count, len(outer), n, m, block, inner_blocks or 1, rows, middle_blocks or 1,
            scratch_row, around * m,
        ]  # fmt: skip

    def item(self, n: int, m: int, around: int) -> tuple[int, int]:
        """Elements of the inner and of the middle loop that a work item takes."""
        block = n if self.d.dims else least(n, INNER_BLOCK)
        return block, least(m, most(1, ITEM_ELEMENTS // most(block, 1)))

    def blocks_around(self, around: int) -> int:
        """How many items there are along the outer loops."""
        return around

    # ------------------------------------------------------------------- streams and numbers

    def _record(
        self, slots: list[int], k: int, inner: Axis, middle: Axis, outer: list[Axis]
    ) -> None:
        node, index = self.d.places[k]
        at = len(slots)
        assert at == HEADER + len(outer) + k * (RECORD + len(outer))
        unit = 1 if self.d.streams[k].kind == "position" else node.meta.dtype.itemsize
        fixed = self._offset(at, node, index, unit)
        # Set before anything is added: a block is used again and again.
        if self.d.streams[k].kind == "position":
            self.patches.insert(0, (SET_CONSTANT, at, 0, fixed))
        else:
            where = self.where(node)
            self.patches.insert(0, (SET_INPUT, at, where.slot, where.offset + fixed))
        slots.append(0)
        slots += [inner[1][k], middle[1][k], *[strides[k] for _, strides in outer]]

    def _offset(self, at: int, node: Node, index: Index, unit: int) -> int:
        """Bytes from the start of the buffer, with patches for what is known only at run time."""
        fixed = 0
        for along, stride in zip(index, contiguous_strides(node.meta.shape), strict=True):
            fixed += along.offset * stride * unit
            for slot, mult in along.args:
                self.patches.append((ADD_INPUT, at, self.first_int + slot, mult * stride * unit))
        return fixed


def collapsed(axes: list[Axis]) -> list[Axis]:
    """Joins neighbouring loops that every stream walks as one."""
    joined: list[Axis] = []
    for size, strides in axes:
        if joined:
            outer_size, outer = joined[-1]
            if all(o == s * size for o, s in zip(outer, strides, strict=True)):
                joined[-1] = (outer_size * size, strides)
                continue
        joined.append((size, strides))
    return joined
