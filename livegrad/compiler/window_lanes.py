"""Gradients of weights of few channels: windows beside each other in the last dim are lanes.

    for each 64 steps, of as many windows as there are lanes
        where each step's windows and gradients lie is noted; for each line of places in a window,
        those that lie inside of the image
        for each 5 output channels, or so, for each line of places in a window
            sums of lanes += elements at its places * gradients, for all steps that were noted

Images and gradients are read where they are: nothing is brought together. Lanes are added up at the
end, so a sum is made in another order than those of many channels: by lanes, each in blocks of 64
terms. It depends on how windows lie alone.
"""

from __future__ import annotations

from livegrad.compiler.builder import Builder
from livegrad.compiler.channel_slopes import has_many_channels
from livegrad.compiler.describe import Windows
from livegrad.compiler.values import Value, bytes_of
from livegrad.compiler.windows import Windowed
from livegrad.dtypes import DType

# Steps whose sums are in registers: what they read stays in the first cache.
STEPS = 64
# Places in a window that are multiplied at once, at most, and output channels.
MOST_PLACES, MOST_OUTPUTS = 5, 8
# How many windows a line has at least, for most lanes, and at most.
LEAST_BESIDE, MOST_BESIDE = 8, 4096
# What is noted of a step: how far its windows and its gradients are, in bytes, and where masks of
# lanes are: of windows, then of each place's elements. For each step, also where its windows begin
# in each dim but the last.
_NOTED = 3


def lanes_are_windows(windows: Windows) -> bool:
    """Whether gradients are those of few channels, whose windows lie side by side."""
    _, count, _, stride, *_ = windows.dims[-1]
    few = windows.by_rows and not has_many_channels(windows)
    return few and stride == 1 and LEAST_BESIDE <= count <= MOST_BESIDE


def generate_window_lanes(b: Builder, rank: int, height: int, dtype: DType) -> None:
    """Writes products of windows as rows with columns whose terms are neighbours, per image.

    Rows are whole lines of places in a window, which are taken by `height`, or one less.
    """
    _WindowLanes(b, dtype, rank, height).emit()


def bytes_for_lanes(rank: int, windows: int, lines: int, taps: int) -> int:
    """Bytes of the thread's memory for notes: of so many windows in a line, and lines of so many
    places in each."""
    notes = STEPS * (_NOTED + rank) + lines * (STEPS * _NOTED + 1)
    return notes * 8 + (-(-windows // 16) * (taps + 1) * 2 + 7) // 8 * 8


def elements_for_sums(rows: int, columns: int) -> int:
    """Elements of the thread's memory for sums of lanes."""
    return rows * columns * 16


class _WindowLanes(Windowed):
    def __init__(self, b: Builder, dtype: DType, rank: int, height: int) -> None:
        super().__init__(b, dtype, ["right term"], rank)
        self.height = height
        self.last = self.dims[-1]
        self.vectors = self.ceil(self.last.count, b.const("i64", self.lanes))
        self.runs = self.product([dim.count for dim in self.dims[:-1]])  # of an image
        self.lines = self.product([dim.taps for dim in self.dims[:-1]])  # of a window

    def emit(self) -> None:
        """All steps, so many at a time."""
        b = self.b
        self._divide_room()
        self._note_masks()
        first = self.job["first row"]
        self.first_line = b.udiv(first, self.last.taps)
        self.count = b.udiv(self.rows, self.last.taps)
        steps = b.mul(b.udiv(self.terms, self.last.count), self.vectors)
        with b.loop(0, b.smax(steps, 1), STEPS) as block:
            self.start = block.index
            self.here = b.smax(b.smin(b.sub(steps, block.index), STEPS), 0)
            self._note_steps()
            with b.loop(0, b.smin(self.count, self.lines)) as line:
                self._note_line(b.urem(b.add(self.first_line, line.index), self.lines))
            self._multiply()
        self._hand_out()

    def _divide_room(self) -> None:
        """Places for sums, and for notes."""
        b = self.b
        self.totals = self.job["room"]
        size = b.mul(b.mul(self.rows, self.columns), self.lanes)
        self.notes = self.at(self.totals, size)
        self.entries = b.gep(self.notes, "i64", STEPS * (_NOTED + len(self.dims)))
        size = b.mul(self.lines, STEPS * _NOTED + 1)
        self.masks_at = b.gep(self.entries, "i64", size)
        self.mask_kind = b.vector("i1")
        self.mask_bytes = self.lanes // 8

    # --------------------------------------------------------------------------- what is noted

    def _mask(self, vector: Value, number: Value | int) -> Value:
        """Where a mask of a vector of windows is: of those that are there, or of a place's."""
        b = self.b
        place = b.add(b.mul(vector, b.add(self.last.taps, 1)), number)
        return b.gep(self.masks_at, "i8", b.mul(place, self.mask_bytes))

    def _note_masks(self) -> None:
        b, last = self.b, self.last
        with b.loop(0, self.vectors) as vector:
            before = b.mul(vector.index, self.lanes)
            left = b.sub(last.count, before)
            b.store(b.lane_mask(left), self._mask(vector.index, 0))
            with b.loop(0, last.taps) as tap:
                start = b.add(b.sub(before, last.before), b.mul(tap.index, last.dilation))
                (mask,) = self.masks(start, last.size, left, 1)
                b.store(mask, self._mask(vector.index, b.add(tap.index, 1)))

    def _step(self, number: Value) -> Value:
        """Where it is noted what a step of the block is."""
        return self.b.gep(self.notes, "i64", self.b.mul(number, _NOTED + len(self.dims)))

    def _line(self, line: Value) -> Value:
        """Where it is noted how many steps lie inside for a line of places, and which."""
        return self.b.gep(self.entries, "i64", self.b.mul(line, STEPS * _NOTED + 1))

    def _write(self, at: Value, *values: Value) -> None:
        for i, value in enumerate(values):
            self.b.store(value, self.b.gep(at, "i64", i))

    def _note_steps(self) -> None:
        """Counts vectors of a run of windows, runs of an image, and images."""
        b, last, outer = self.b, self.last, self.dims[:-1]
        run, vector = b.udiv(self.start, self.vectors), b.urem(self.start, self.vectors)
        image, run = b.udiv(run, self.runs), b.urem(run, self.runs)
        places = self.places(run, [dim.count for dim in outer[1:]])[: len(outer)]
        with b.loop(0, self.here, 1, [vector, run, image, *places]) as step:
            vector, run, image, *places = step.carried
            window = b.mul(vector, self.lanes)
            starts = [
                b.sub(b.mul(place, dim.stride), dim.before)
                for place, dim in zip(places, outer, strict=True)
            ]
            distance = b.mul(b.sub(window, last.before), self.size)
            for start, dim in zip(starts, outer, strict=True):
                distance = b.add(distance, b.mul(start, dim.step))
            distance = b.add(distance, b.mul(image, self.image_step))
            gradient = b.mul(b.add(b.mul(run, last.count), window), self.size)
            gradient = b.add(gradient, b.mul(image, self.gradient_step))
            at = self._step(step.index)
            self._write(at, distance, gradient)
            b.store(self._mask(vector, 0), b.gep(at, "i64", 2))
            self._write(b.gep(at, "i64", _NOTED), *starts)
            step.update(self._after(vector, run, image, places))

    def _after(self, vector: Value, run: Value, image: Value, places: list[Value]) -> list[Value]:
        """The counters of the step after one."""
        b, zero = self.b, self.b.const("i64", 0)

        def counted(number: Value, more: Value, size: Value) -> tuple[Value, Value]:
            """A counter, one further if there is `more`, and whether it begins again."""
            number = b.add(number, b.zext(more, "i64"))
            full = b.icmp("eq", number, size)
            return b.select(full, zero, number), full

        vector, more = counted(vector, b.const("i1", 1), self.vectors)
        moved = []
        again = more
        for place, dim in zip(reversed(places), reversed(self.dims[:-1]), strict=True):
            place, again = counted(place, again, dim.count)
            moved.append(place)
        run, full = counted(run, more, self.runs)
        return [vector, run, b.add(image, b.zext(full, "i64")), *reversed(moved)]

    def _note_line(self, line: Value) -> None:
        """Notes the steps whose elements at the places of a line are there."""
        b, outer = self.b, self.dims[:-1]
        taps = self.places(line, [dim.taps for dim in outer[1:]])[: len(outer)]
        shifts = [b.mul(k, dim.dilation) for k, dim in zip(taps, outer, strict=True)]
        moved = b.const("i64", 0)
        for shift, dim in zip(shifts, outer, strict=True):
            moved = b.add(moved, b.mul(shift, dim.step))
        first = b.gep(self._line(line), "i64", 1)
        with b.loop(0, self.here, 1, [b.const("i64", 0)]) as step:
            at, number = self._step(step.index), step.carried[0]
            inside = b.const("i1", 1)
            for d, (shift, dim) in enumerate(zip(shifts, outer, strict=True)):
                start = b.load("i64", b.gep(at, "i64", _NOTED + d))
                inside = b.and_(inside, b.icmp("ult", b.add(start, shift), dim.size))
            distance, gradient, mask = [b.load("i64", b.gep(at, "i64", i)) for i in range(_NOTED)]
            entry = b.gep(first, "i64", b.mul(number, _NOTED))
            self._write(entry, b.add(distance, moved), gradient, mask)
            step.update(b.add(number, b.zext(inside, "i64")))
        b.store(step.results[0], self._line(line))

    # ----------------------------------------------------------------------------- multiplying

    def _multiply(self) -> None:
        """Parts of the output channels, as equal as can be, with all rows."""
        b = self.b
        fit = b.vectors * 4 // bytes_of(self.element) - self.height - 2
        most = max(1, min(fit // self.height, MOST_OUTPUTS))
        parts = self.ceil(self.columns, b.const("i64", most))
        with b.loop(0, parts, 1, [b.const("i64", 0)]) as part:
            column = part.carried[0]
            wide = self.ceil(b.sub(self.columns, column), b.sub(parts, part.index))
            for width in range(1, most + 1):
                with b.if_(b.icmp("eq", wide, width)), b.loop(0, self.count) as line:
                    self._places_of(line.index, column, width)
            part.update(b.add(column, wide))

    def _places_of(self, line: Value, column: Value, width: int) -> None:
        """Parts of a line of places, as equal as can be."""
        b, taps = self.b, self.last.taps
        number = b.add(self.first_line, line)
        channel, outer = b.udiv(number, self.lines), b.urem(number, self.lines)
        noted = self._line(outer)
        image = b.gep(self.job["left"], "i8", b.mul(channel, self.channel_step))
        parts = self.ceil(taps, b.const("i64", self.height))
        with b.loop(0, parts, 1, [b.const("i64", 0)]) as part:
            place = part.carried[0]
            high = self.ceil(b.sub(taps, place), b.sub(parts, part.index))
            row = b.add(b.mul(line, taps), place)
            for height in range(max(self.height - 1, 1), self.height + 1):
                with b.if_(b.icmp("eq", high, height)):
                    self._lanes_tile(noted, image, place, row, height, column, width)
            part.update(b.add(place, high))

    def _lanes_tile(
        self,
        noted: Value,
        image: Value,
        place: Value,
        row: Value,
        height: int,
        column: Value,
        width: int,
    ) -> None:
        """Some places with some output channels: the sums of a block are in registers."""
        b = self.b
        apart = b.mul(self.last.dilation, self.size)
        image = b.gep(image, "i8", b.mul(place, apart))
        gradients = b.gep(self.job["right"], "i8", b.mul(column, self.job["right step"]))
        first_mask = b.mul(b.add(place, 1), self.mask_bytes)
        zeros = [b.const(self.kind, 0)] * (height * width)
        with b.loop(0, b.load("i64", noted), 1, [b.gep(noted, "i64", 1), *zeros]) as step:
            entry, *sums = step.carried
            distance, further = [b.load("i64", b.gep(entry, "i64", i)) for i in range(2)]
            masks = b.load("ptr", b.gep(entry, "i64", 2))
            elements = []
            for i in range(height):
                at = b.gep(b.gep(image, "i8", distance), "i8", b.mul(apart, i))
                mask = b.gep(b.gep(masks, "i8", first_mask), "i8", i * self.mask_bytes)
                elements.append(b.load(self.kind, at, b.load(self.mask_kind, mask)))
            there = b.load(self.mask_kind, masks)
            for j in range(width):
                at = b.gep(b.gep(gradients, "i8", further), "i8", b.mul(self.job["right step"], j))
                y = b.load(self.kind, at, there)
                for i, x in enumerate(elements):
                    sums[i * width + j] = self.times(x, y, sums[i * width + j])
            step.update(b.gep(entry, "i64", _NOTED), *sums)
        self._add(step.results[1:], row, height, column, width)

    def _total(self, row: Value, column: Value) -> Value:
        """Where the lanes of a sum are."""
        number = self.b.add(self.b.mul(row, self.columns), column)
        return self.at(self.totals, self.b.mul(number, self.lanes))

    def _add(self, sums: list[Value], row: Value, height: int, column: Value, width: int) -> None:
        """Adds the sums of a block to those of the blocks before it."""
        b = self.b
        there = b.splat(b.icmp("ne", self.start, 0))
        for i in range(height):
            line = self._total(b.add(row, i), column)
            for j in range(width):
                at = self.at(line, j * self.lanes)
                b.store(b.fadd(b.load(self.kind, at, there), sums[i * width + j]), at)

    def _hand_out(self) -> None:
        """Lanes added up."""
        b = self.b
        with b.loop(0, self.rows) as row, b.loop(0, self.columns) as column:
            lanes = b.load(self.kind, self._total(row.index, column.index))
            line = self.at(self.job["sums"], b.mul(row.index, self.job["line"]))
            b.store(b.reduce_lanes(lanes, b.fadd), self.at(line, column.index))
