"""Sorting kernels: the indices that put the values along a dim in order, or the first of them.

Seen from the sorted dim a tensor is (outer, dim, inner). A work item owns one column of one outer
entry. Its values become keys, unsigned integers in the same order, which are sorted with their
indices by one byte after the other, from the last to the first:

    values ──► keys │ indices ──► counts of each byte ──► moved to their places, once per byte
                                                          unless all keys have the same one

Each move keeps the order of equals, so all of them do. Of a few values, each is compared with all
others instead. Where few are wanted of many, only those are sorted whose first bits are among the
foremost; bits that all of them share are not looked at.

Argument block: 0 work items   1 result   2 values   3 size of the dim   4 inner size   5 wanted
Scratch memory: keys, twice; indices, twice; counts.
"""

from __future__ import annotations

from math import prod

from livegrad.compiler.binder import THREAD_WORK, patched
from livegrad.compiler.builder import Builder
from livegrad.compiler.draft import Draft
from livegrad.compiler.lowerings.base import Kernel
from livegrad.compiler.plan import Block, Step
from livegrad.compiler.values import Value
from livegrad.dtypes import FLOAT, DType
from livegrad.graph.node import Node
from livegrad.graph.symbol import most

# Values of a byte; bits by which the foremost are found.
BYTE, FOREMOST_BITS = 256, 11
# From how many values per wanted one on the foremost are looked for; so many values are a few.
MANY, FEW = 8, 96
# Bits of exponents: what is not less than their largest is infinite or NaN.
_EXPONENTS = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}
_INDEX_BYTES = 4


class Sort(Kernel):
    """attrs (dim, descending): as many indices as the result has along the dim."""

    label = "sort"

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """A step of the template below."""
        (x,), (dim, descending) = node.inputs, node.attrs
        shape, wanted = x.meta.shape or (1,), (node.meta.shape or (1,))[dim]
        outer, size, inner = prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])
        if size >= 1 << 31:
            return super().bind(draft, node)
        dtype = x.meta.dtype
        few = 0 < wanted * MANY <= size
        slots = [outer * inner, 0, 0, size, inner, wanted]
        scratch = 2 * (_whole(size * dtype.itemsize) + _whole(size * _INDEX_BYTES))
        scratch = scratch + 8 * (dtype.itemsize * BYTE + (1 << FOREMOST_BITS))
        grain = most(1, THREAD_WORK // most(1, size * 4 * dtype.itemsize))
        block = Block(slots, patched(draft.where, node, x), grain, scratch)
        return [Step("sort", node.meta.shape, [block], (generate_sort, dtype, descending, few))]


def _whole(nbytes: int) -> int:
    """Bytes of whole cache lines."""
    return (nbytes + 63) // 64 * 64


def generate_sort(b: Builder, dtype: DType, descending: bool, few: bool) -> None:
    """Writes the kernel; `few` if the foremost are found first."""
    _Template(b, dtype, descending).emit(few)


class _Template:
    def __init__(self, b: Builder, dtype: DType, descending: bool) -> None:
        self.b, self.dtype, self.descending = b, dtype, descending
        self.bits = 8 * dtype.itemsize
        self.key = f"i{self.bits}"
        self.size, self.inner, self.wanted = [self._arg(slot) for slot in (3, 4, 5)]
        scratch = b.load("ptr", b.gep(b.params[3], "i64", 3))
        keys, indices = [
            b.and_(b.add(b.mul(self.size, nbytes), 63), -64)
            for nbytes in (dtype.itemsize, _INDEX_BYTES)
        ]
        self.keys, scratch = self._two(scratch, keys)
        self.indices, scratch = self._two(scratch, indices)
        self.counts = scratch
        self.foremost = b.gep(scratch, "i64", dtype.itemsize * BYTE)

    def _two(self, place: Value, nbytes: Value) -> tuple[list[Value], Value]:
        second = self.b.gep(place, "i8", nbytes)
        return [place, second], self.b.gep(second, "i8", nbytes)

    def _arg(self, slot: int, type: str = "i64") -> Value:
        return self.b.load(type, self.b.gep(self.b.params[0], "i64", slot))

    def emit(self, few: bool) -> None:
        """Keys of a column, sorted, and the first of their indices stored."""
        b = self.b
        _, begin, end, _ = b.params
        result, values = self._arg(1, "ptr"), self._arg(2, "ptr")
        with b.loop(begin, end) as item:
            outer, column = b.udiv(item.index, self.inner), b.urem(item.index, self.inner)
            start = b.add(b.mul(outer, b.mul(self.size, self.inner)), column)
            self.values = b.gep(values, self.key, start)
            count = self._take_foremost() if few else self._take_all()
            is_short = b.icmp("sle", count, FEW)
            (order,) = b.either(is_short, lambda: self._rank(count), lambda: self._sort(count))
            place = b.add(b.mul(outer, b.mul(self.wanted, self.inner)), column)
            out = b.gep(result, "i64", place)
            with b.loop(0, self.wanted) as each:
                index = b.zext(b.load("i32", b.gep(order, "i32", each.index)), "i64")
                b.store(index, b.gep(out, "i64", b.mul(each.index, self.inner)))

    # ------------------------------------------------------------------------------------- keys

    def _key_of(self, number: Value) -> Value:
        """The key of a value."""
        b = self.b
        place = b.gep(self.values, self.key, b.mul(number, self.inner))
        return self._keys(b.load(self.key, place))

    def _keys(self, x: Value) -> Value:
        """Less than others' if the values come before theirs."""
        b, kind = self.b, x.type
        sign = b.const(kind, -(1 << (self.bits - 1)))
        if self.dtype.category == FLOAT:
            x = b.select(b.icmp("eq", x, sign), b.const(kind, 0), x)  # -0 equals 0
            size = b.and_(x, (1 << (self.bits - 1)) - 1)
            flipped = b.select(b.icmp("slt", x, 0), b.xor(x, -1), b.xor(x, sign))
            key = b.select(b.icmp("ugt", size, self._infinity()), b.const(kind, -1), flipped)
        else:
            key = b.xor(x, sign) if self.dtype.signed else x
        return b.xor(key, -1) if self.descending else key

    def _infinity(self) -> int:
        exponent = _EXPONENTS[self.dtype.name]
        return ((1 << exponent) - 1) << (self.bits - 1 - exponent)

    def _put(self, at: Value, key: Value, number: Value) -> None:
        b = self.b
        b.store(key, b.gep(self.keys[0], self.key, at))
        b.store(b.trunc_int(number, "i32"), b.gep(self.indices[0], "i32", at))

    def _take_all(self) -> Value:
        """All keys, in the order of their indices; their number."""
        with self.b.loop(0, self.size) as each:
            self._put(each.index, self._key_of(each.index), each.index)
        return self.size

    def _take_foremost(self) -> Value:
        """The keys whose first bits are among those of the wanted ones; their number."""
        b = self.b
        plain = b.icmp("eq", self.inner, 1)
        (differing,) = b.either(plain, self._read_together, self._read_apart)
        self.shift = self._shared_bits(differing)
        self._clear(self.foremost, 1 << FOREMOST_BITS)
        with b.loop(0, self.size) as each:
            key = b.load(self.key, b.gep(self.keys[1], self.key, each.index))
            self._count(self.foremost, b.zext(self._first_bits(key), "i64"))
        last = b.trunc_int(self._last_wanted(), self.key)
        with b.loop(0, self.size, b.lanes, [b.const("i64", 0)]) as part:
            found = part.carried[0]
            end = b.smin(b.add(part.index, b.lanes), self.size)
            there = b.lane_mask(b.sub(self.size, part.index))
            keys = b.load(b.vector(self.key), b.gep(self.keys[1], self.key, part.index), there)
            taken = b.and_(there, b.icmp("ule", self._first_bits(keys), b.splat(last)))
            part.update(
                b.either(
                    b.any_lane(taken),
                    lambda: self._take_some(part.index, end, found, last),
                    lambda: [found],
                )
            )
        return part.results[0]

    def _take_some(self, start: Value, end: Value, found: Value, last: Value) -> list[Value]:
        """Those of some keys that are among the foremost; how many there are with them."""
        b = self.b
        with b.loop(start, end, 1, [found]) as each:
            key = b.load(self.key, b.gep(self.keys[1], self.key, each.index))
            (at,) = each.carried
            self._put(at, key, each.index)  # over the last one, unless that was taken
            taken = b.icmp("ule", self._first_bits(key), last)
            each.update(b.add(at, b.zext(taken, "i64")))
        return each.results

    def _read_together(self) -> list[Value]:
        """Keys of values that are neighbours, and the bits in which some of them differ."""
        b, kind = self.b, self.b.vector(self.key)
        first = b.splat(self._key_of(b.const("i64", 0)))
        with b.loop(0, self.size, b.lanes, [b.const(kind, 0)]) as part:
            there = b.lane_mask(b.sub(self.size, part.index))
            keys = self._keys(b.load(kind, b.gep(self.values, self.key, part.index), there))
            b.store(keys, b.gep(self.keys[1], self.key, part.index), there)
            bits = b.select(there, b.xor(keys, first), b.const(kind, 0))
            part.update(b.or_(part.carried[0], bits))
        return [b.reduce_lanes(part.results[0], b.or_)]

    def _read_apart(self) -> list[Value]:
        """The same, of values that lie apart."""
        b, first = self.b, self._key_of(self.b.const("i64", 0))
        with b.loop(0, self.size, 1, [b.const(self.key, 0)]) as each:
            key = self._key_of(each.index)
            b.store(key, b.gep(self.keys[1], self.key, each.index))
            each.update(b.or_(each.carried[0], b.xor(key, first)))
        return each.results

    def _shared_bits(self, differing: Value) -> Value:
        """How far keys are shifted for the first bits in which some of them differ."""
        b = self.b
        wide = b.zext(differing, "i64")
        with b.loop(0, self.bits, 1, [b.const("i64", 0)]) as each:
            (shift,) = each.carried
            more = b.icmp("uge", b.lshr(wide, shift), 1 << FOREMOST_BITS)
            each.update(b.add(shift, b.zext(more, "i64")))
        return each.results[0]

    def _first_bits(self, key: Value) -> Value:
        """The first bits of keys that are not the same in all."""
        b, shift = self.b, self.b.trunc_int(self.shift, self.key)
        moved = b.lshr(key, shift if key.type == self.key else b.splat(shift))
        return b.and_(moved, (1 << FOREMOST_BITS) - 1)

    def _last_wanted(self) -> Value:
        """The first bits up to which there are as many keys as are wanted."""
        b = self.b
        start = [b.const("i64", 0), b.const("i64", 0)]
        with b.loop(0, 1 << FOREMOST_BITS, 1, start) as each:
            before, last = each.carried
            more = b.icmp("slt", before, self.wanted)
            here = b.load("i64", b.gep(self.foremost, "i64", each.index))
            each.update(b.add(before, here), b.select(more, each.index, last))
        return each.results[1]

    # ------------------------------------------------------------------------------------ moves

    def _clear(self, counts: Value, number: int) -> None:
        b = self.b
        zeros = b.const(b.vector("i64"), 0)
        with b.loop(0, number, b.lanes) as each:
            b.store(zeros, b.gep(counts, "i64", each.index))

    def _count(self, counts: Value, number: Value) -> Value:
        """Counts one more; how many there were."""
        b = self.b
        place = b.gep(counts, "i64", number)
        before = b.load("i64", place)
        b.store(b.add(before, 1), place)
        return before

    def _rank(self, count: Value) -> list[Value]:
        """Each index at the place of its key: after lesser ones, and equal ones before it."""
        b = self.b
        keys, order = self.keys[0], self.indices[1]
        with b.loop(0, count) as each:
            key = b.splat(b.load(self.key, b.gep(keys, self.key, each.index)))
            with b.loop(0, count, b.lanes, [b.const(b.vector("i32"), 0)]) as part:
                there = b.lane_mask(b.sub(count, part.index))
                earlier = b.lane_mask(b.sub(each.index, part.index))
                others = b.load(b.vector(self.key), b.gep(keys, self.key, part.index), there)
                before = b.or_(
                    b.and_(there, b.icmp("ult", others, key)),
                    b.and_(earlier, b.icmp("eq", others, key)),
                )
                part.update(b.add(part.carried[0], b.zext(before, "i32")))
            rank = b.sext(b.reduce_lanes(part.results[0], b.add), "i64")
            index = b.load("i32", b.gep(self.indices[0], "i32", each.index))
            b.store(index, b.gep(order, "i32", rank))
        return [order]

    def _byte(self, key: Value, number: int) -> Value:
        return self.b.and_(self.b.lshr(self.b.zext(key, "i64"), 8 * number), BYTE - 1)

    def _sort(self, count: Value) -> list[Value]:
        """Where the indices are in the order of the keys."""
        b = self.b
        self._clear(self.counts, self.dtype.itemsize * BYTE)
        with b.loop(0, count) as each:
            key = b.load(self.key, b.gep(self.keys[0], self.key, each.index))
            for number in range(self.dtype.itemsize):
                self._count(self._counts_of(number), self._byte(key, number))
        held = [self.keys[0], self.indices[0], self.keys[1], self.indices[1]]
        for number in range(self.dtype.itemsize):
            first = self._byte(b.load(self.key, held[0]), number)
            same = b.load("i64", b.gep(self._counts_of(number), "i64", first))
            held = self._moved(held, number, count, b.icmp("eq", same, count))
        return held[1:2]

    def _counts_of(self, number: int) -> Value:
        return self.b.gep(self.counts, "i64", number * BYTE)

    def _moved(self, held: list[Value], number: int, count: Value, alike: Value) -> list[Value]:
        """Keys and indices in the order of a byte, and where to the next are moved."""

        def move() -> list[Value]:
            self._move(held, number, count)
            return held[2:] + held[:2]

        return self.b.either(alike, lambda: held, move)

    def _move(self, held: list[Value], number: int, count: Value) -> None:
        b = self.b
        counts = self._counts_of(number)
        with b.loop(0, BYTE, 1, [b.const("i64", 0)]) as each:
            place = b.gep(counts, "i64", each.index)
            here = b.load("i64", place)
            b.store(each.carried[0], place)
            each.update(b.add(each.carried[0], here))
        keys, indices, to_keys, to_indices = held
        with b.loop(0, count) as each:
            key = b.load(self.key, b.gep(keys, self.key, each.index))
            index = b.load("i32", b.gep(indices, "i32", each.index))
            place = self._count(counts, self._byte(key, number))
            b.store(key, b.gep(to_keys, self.key, place))
            b.store(index, b.gep(to_indices, "i32", place))
