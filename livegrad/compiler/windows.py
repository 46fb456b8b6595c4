"""Products with the windows of an image: convolutions, without their columns in memory.

Windows are brought together where they are multiplied (compiler/products.py), panel by panel:

    conv      left: weights, a row per output channel
              right: a column per window, a term per channel and place in the window
    slopes    left: a row per channel and place in the window, a term per window
              right: gradients, a column per output channel

Element k of window l is element stride * l + dilation * k - before of a dim, and 0 outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from livegrad.compiler.builder import Builder
from livegrad.compiler.products import APART, BLOCK, STRIP, Many
from livegrad.compiler.values import Operand, Value, bytes_of
from livegrad.dtypes import DType

# What is told about windows: numbers for all dims, then for each. Steps are in bytes.
ALL_DIMS = ("channels", "image step", "channel step", "gradient step")
EACH_DIM = ("size", "step", "count", "taps", "stride", "dilation", "before")


class Dim(NamedTuple):
    """A dim in which windows lie: elements, bytes to the next, windows, and how these lie."""

    size: Value
    step: Value
    count: Value  # type: ignore[assignment]  # hides tuple.count, which nobody calls
    taps: Value
    stride: Value
    dilation: Value
    before: Value


def generate_conv(b: Builder, rank: int, dtype: DType, quads: str = "") -> None:
    """Writes products of rows, whose terms are neighbours, with windows as columns."""
    _Conv(b, dtype, ["left term"], rank, quads).emit()


def generate_slopes(b: Builder, rank: int, dtype: DType) -> None:
    """Writes products of windows as rows with columns whose terms are neighbours, per image."""
    Slopes(b, dtype, ["right term"], rank).emit()


class Windowed(Many):
    """What all ways have in common: the dims."""

    def __init__(
        self, b: Builder, dtype: DType, units: Sequence[str], rank: int, quads: str = ""
    ) -> None:
        super().__init__(b, dtype, units, quads)
        count = len(ALL_DIMS) + rank * len(EACH_DIM)
        told = [b.load("i64", b.gep(self.job["geometry"], "i64", i)) for i in range(count)]
        self.channels, self.image_step, self.channel_step, self.gradient_step = told[:4]
        each = [told[4 + i * len(EACH_DIM) :][: len(EACH_DIM)] for i in range(rank)]
        self.dims = [Dim(*numbers) for numbers in each]
        # Elements of the last dim are neighbours; of a single one nothing is told.
        near = b.const("i64", bytes_of(self.element))
        self.dims[-1] = self.dims[-1]._replace(step=near)
        self.taps = self.product([dim.taps for dim in self.dims])
        self.windows = self.product([dim.count for dim in self.dims])
        self.size = bytes_of(self.element)

    def product(self, numbers: list[Value]) -> Value:
        """Of sizes."""
        total = self.b.const("i64", 1)
        for number in numbers:
            total = self.b.mul(total, number)
        return total

    def ask_for_columns(self, row: Value, column: Value) -> None:
        """Nothing: what windows lie in is read more than once."""

    def whole_channels(self) -> Value:
        """How many terms of whole channels are multiplied at a time, about `BLOCK`."""
        b = self.b
        return b.mul(b.smax(b.udiv(b.const("i64", BLOCK), self.taps), 1), self.taps)

    def places(self, number: Value, sizes: Sequence[Value]) -> list[Value]:
        """A number taken apart into counters, the last of which runs fastest; the first has no
        bound."""
        b, found = self.b, []
        for size in reversed(sizes):
            found.append(b.urem(number, size))
            number = b.udiv(number, size)
        return [number, *reversed(found)]

    def flat(self, places: Sequence[Value]) -> Value:
        """The number of an element in a channel, by its places in all dims."""
        number = places[0]
        for place, dim in zip(places[1:], self.dims[1:], strict=True):
            number = self.b.add(self.b.mul(number, dim.size), place)
        return number

    def ceil(self, number: Value, size: Value) -> Value:
        """How many times `size` a number is, or more."""
        return self.b.udiv(self.b.add(number, self.b.sub(size, 1)), size)

    def reach(self, first: Value, last: Value) -> tuple[Value, Value]:
        """Where windows of an image lie in the first dim: from which element on, and how many."""
        b, dim = self.b, self.dims[0]
        inner = self.product([x.count for x in self.dims[1:]])
        begin, end = [
            b.sub(b.mul(b.udiv(number, inner), dim.stride), dim.before) for number in (first, last)
        ]
        end = b.add(b.add(end, b.mul(b.sub(dim.taps, 1), dim.dilation)), 1)
        low, high = [b.smax(b.smin(x, dim.size), 0) for x in (begin, end)]
        return low, b.smax(b.sub(high, low), 0)

    def line(self, length: Value) -> Value:
        """Elements that follow each other in memory, of such a part: one line of the last dim, or
        all of them."""
        b = self.b
        dense = b.const("i1", 1)
        for outer, dim in zip(self.dims, self.dims[1:], strict=False):
            dense = b.and_(dense, b.icmp("eq", outer.step, b.mul(dim.size, dim.step)))
        last = length if len(self.dims) == 1 else self.dims[-1].size
        whole = b.mul(length, self.product([x.size for x in self.dims[1:]]))
        return b.smax(b.select(dense, whole, last), 1)

    def line_place(self, number: Value) -> Value:
        """How far such a line is from the first one, in bytes."""
        b, distance = self.b, self.b.const("i64", 0)
        places = self.places(number, [dim.size for dim in self.dims[1:-1]])
        for place, dim in zip(places, self.dims[:-1], strict=False):
            distance = b.add(distance, b.mul(place, dim.step))
        return distance

    def each_run(
        self, start: Value, count: Value, length: Value, body: Callable[..., None]
    ) -> None:
        """`body(run, first, end)` for all runs of `length` that so many numbers lie in."""
        b = self.b
        end = b.add(start, count)
        first = b.udiv(start, length)
        last = b.udiv(b.add(end, b.sub(length, 1)), length)
        with b.loop(first, last) as run:
            low = b.mul(run.index, length)
            body(run.index, b.smax(low, start), b.smin(b.add(low, length), end))

    def masks(self, start: Value, size: Value, left: Value, span: int) -> list[Value]:
        """Which of `span` vectors of elements from `start` on are there, and not after `left`."""
        b = self.b
        end = b.smin(b.sub(size, start), left)
        found = []
        for i in range(span):
            below = b.lane_mask(b.sub(end, i * self.lanes))
            found.append(b.and_(below, b.not_(b.lane_mask(b.sub(b.neg(start), i * self.lanes)))))
        return found

    def each_way(
        self, start: Value, size: Value, left: Value, body: Callable[[Load], None]
    ) -> None:
        """`body`, given a function that loads elements of the last dim: by the stride's code.

        As many as there are lanes from `start` on, `left` of them at most; 0 where there are none.
        """
        b, stride = self.b, self.dims[-1].stride
        near, other = b.icmp("eq", stride, 1), b.icmp("eq", stride, 2)
        with b.if_(near):
            (mask,) = self.masks(start, size, left, 1)
            body(lambda place: b.load(self.kind, place, mask))
        with b.if_(other):
            pair = self.masks(start, size, b.sub(b.mul(left, 2), 1), 2)
            body(lambda place: self._every_other(place, pair))
        with b.if_(b.not_(b.or_(near, other))):
            steps = b.mul(b.iota(), b.splat(stride))
            there = b.icmp("ult", b.add(b.splat(start), steps), b.splat(size))
            mask = b.and_(there, b.lane_mask(left))
            body(lambda place: b.gather(self.kind, place, steps, mask))

    def _every_other(self, place: Value, masks: list[Value]) -> Value:
        b = self.b
        first, second = [
            b.load(self.kind, self.at(place, i * self.lanes), mask) for i, mask in enumerate(masks)
        ]
        return b.shuffle(first, range(0, 2 * self.lanes, 2), second)


# What loads elements from an address on.
Load = Callable[[Value], Value]


# ------------------------------------------------------------------------------------------- conv


class _Conv(Windowed):
    def depth(self) -> Operand:
        """Whole channels."""
        return self.whole_channels()

    def bring_columns(self) -> None:
        """Panel by panel, run by run: windows beside each other in the last dim."""
        b = self.b
        self.here = b.udiv(self.count, self.taps)  # channels
        channel = b.udiv(self.start, self.taps)
        self.base = b.gep(self.job["right"], "i8", b.mul(channel, self.channel_step))
        with b.loop(0, self.columns, self.width) as panel:
            count = b.smin(b.sub(self.columns, panel.index), self.width)
            self.out = self.panel(panel.index)
            self.first = b.add(self.job["first column"], panel.index)
            self.each_run(self.first, count, self.dims[-1].count, self._bring_run)

    def _bring_run(self, run: Value, first: Value, end: Value) -> None:
        """For each place in a window: neighbours, or every other element, of all channels."""
        b, last = self.b, self.dims[-1]
        image, *lines = self.places(run, [dim.count for dim in self.dims[:-1]])
        base = b.gep(self.base, "i8", b.mul(image, self.image_step))
        window = b.sub(first, b.mul(run, last.count))
        start = b.sub(b.mul(window, last.stride), last.before)
        out = self.at(self.out, b.sub(first, self.first))
        zero, true = b.const("i64", 0), b.const("i1", 1)
        self._each_tap(0, lines, base, true, zero, start, out, b.sub(end, first))

    def _each_tap(
        self,
        d: int,
        lines: list[Value],
        base: Value,
        inside: Value,
        tap: Value,
        start: Value,
        out: Value,
        length: Value,
    ) -> None:
        """Loops over the places in a window, from dim `d` on."""
        b, dim = self.b, self.dims[d]
        with b.loop(0, dim.taps) as k:
            number = b.add(b.mul(tap, dim.taps), k.index)
            spread = b.mul(k.index, dim.dilation)
            if d == len(self.dims) - 1:
                place = self.at(out, b.mul(number, self.width))
                self._move(base, inside, b.add(start, spread), place, length)
            else:
                at = b.add(b.sub(b.mul(lines[d], dim.stride), dim.before), spread)
                there = b.and_(inside, b.icmp("ult", at, dim.size))
                moved = b.gep(base, "i8", b.mul(at, dim.step))
                self._each_tap(d + 1, lines, moved, there, number, start, out, length)

    def _move(self, line: Value, inside: Value, start: Value, out: Value, length: Value) -> None:
        """Elements from `start` on, of all channels, to as many columns."""
        b, dim = self.b, self.dims[-1]
        size = b.select(inside, dim.size, 0)
        apart = b.mul(self.taps, self.width)
        for v in range(self.tile.vectors):
            left = b.sub(length, v * self.lanes)
            first = b.add(start, b.mul(dim.stride, v * self.lanes))
            with b.if_(b.icmp("sgt", left, 0)):
                stored = b.lane_mask(left)
                source = b.gep(line, "i8", b.mul(first, self.size))
                target = self.at(out, v * self.lanes)

                def copy(load: Load, source=source, target=target, stored=stored) -> None:  # type: ignore[no-untyped-def]
                    with b.loop(0, self.here, 1, [source, target]) as channel:
                        place, to = channel.carried
                        b.store(load(place), to, stored)
                        channel.update(b.gep(place, "i8", self.channel_step), self.at(to, apart))

                self.each_way(first, size, left, copy)


# ----------------------------------------------------------------------------------------- slopes

# What is noted of each run of windows beside each other in the last dim: the first one's number and
# how many there are, how far they are from the first image in bytes, and where they begin in each
# dim.
_NOTED = 3


def room_for_notes(rank: int) -> int:
    """Bytes of the thread's memory for what slopes note about windows."""
    return (_NOTED + rank) * BLOCK * 8


class Slopes(Windowed):
    """Of few channels."""

    def bring_columns(self) -> None:
        """Gradients, turned image by image; and where the windows of these terms are."""
        self.notes = self.at(self.strip, STRIP)
        self._note_runs()
        self.bring_gradients()

    def ask_for_rows(self, row: Value, panel: Value) -> None:
        """Nothing: windows of rows lie in each other."""

    def bring_gradients(self) -> None:
        """Turned, image by image, to their places in panels."""
        b = self.b
        with b.loop(0, self.columns, self.lanes) as column:
            inside = b.and_(column.index, self.width - 1)
            self.out = self.at(self.panel(b.sub(column.index, inside)), inside)
            self.lines = self.column_lines(column.index, b.const("i64", 0))
            self.each_run(self.start, self.count, self.windows, self._turn_run)

    def _turn_run(self, image: Value, first: Value, end: Value) -> None:
        b = self.b
        moved = b.mul(image, self.gradient_step)
        lines = [b.gep(line, "i8", moved) for line in self.lines]
        before = b.mul(image, self.windows)
        with b.loop(first, end, self.lanes) as term:
            square = self.turned(lines, b.sub(term.index, before), b.sub(end, term.index))
            target = self.at(self.out, b.mul(b.sub(term.index, self.start), self.width))
            for i, x in enumerate(square):
                b.store(x, self.at(target, i * self.width))

    def _note_runs(self) -> None:
        b, last = self.b, self.dims[-1]
        counts = [dim.count for dim in self.dims[:-1]]
        self.first_run = b.udiv(self.start, last.count)
        end = b.add(self.start, self.count)
        self.runs = b.sub(b.udiv(b.add(end, b.sub(last.count, 1)), last.count), self.first_run)

        def note(run: Value, first: Value, end: Value) -> None:
            image, *lines = self.places(run, counts)
            distance = b.mul(image, self.image_step)
            starts = []
            for line, dim in zip(
                [*lines, b.sub(first, b.mul(run, last.count))], self.dims, strict=True
            ):
                starts.append(b.sub(b.mul(line, dim.stride), dim.before))
                distance = b.add(distance, b.mul(starts[-1], dim.step))
            noted = [b.sub(first, self.start), b.sub(end, first), distance, *starts]
            for number, value in enumerate(noted):
                b.store(value, self.note(number, b.sub(run, self.first_run)))

        self.each_run(self.start, self.count, last.count, note)

    def note(self, number: int, run: Value) -> Value:
        """Where a number is noted of a run of windows."""
        return self.b.gep(self.notes, "i64", self.b.add(run, number * BLOCK))

    def bring_rows(self, row: Value, rows: int) -> tuple[int, int]:
        """A strip: of each channel and place in a window, one element per window."""
        b = self.b
        with b.loop(0, rows) as i:
            out = self.at(self.strip, b.mul(i.index, APART))
            self._bring_row(b.add(row, i.index), out)
        return 1, APART

    def _bring_row(self, row: Value, out: Value) -> None:
        b = self.b
        number = b.add(self.job["first row"], row)
        channel, *taps = self.places(number, [dim.taps for dim in self.dims])
        place = b.gep(self.job["left"], "i8", b.mul(channel, self.channel_step))
        shifts = [b.mul(tap, dim.dilation) for tap, dim in zip(taps, self.dims, strict=True)]
        for shift, dim in zip(shifts, self.dims, strict=True):
            place = b.gep(place, "i8", b.mul(shift, dim.step))
        with b.loop(0, self.runs) as run:
            self._bring_run(run.index, place, shifts, out)

    def _bring_run(self, run: Value, place: Value, shifts: list[Value], out: Value) -> None:
        """Neighbours, or every other element; zeros where there are none."""
        b, last = self.b, self.dims[-1]
        count = _NOTED + len(self.dims)
        first, length, distance, *starts = [b.load("i64", self.note(i, run)) for i in range(count)]
        starts = [b.add(start, shift) for start, shift in zip(starts, shifts, strict=True)]
        inside = b.const("i1", 1)
        for start, dim in zip(starts[:-1], self.dims[:-1], strict=True):
            inside = b.and_(inside, b.icmp("ult", start, dim.size))
        size = b.select(inside, last.size, 0)
        line, target = b.gep(place, "i8", distance), self.at(out, first)
        step = b.mul(last.stride, self.size)
        with b.loop(0, length, self.lanes) as term:
            start = b.add(starts[-1], b.mul(term.index, last.stride))
            source = b.gep(line, "i8", b.mul(term.index, step))
            to = self.at(target, term.index)
            left = b.sub(length, term.index)
            self.each_way(start, size, left, lambda load: b.store(load(source), to))
