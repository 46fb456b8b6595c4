"""Convolutions of images of which output channels are lanes, and windows beside each other rows.

    for some channels
        weights ──► panels: terms, 32 output channels
        for each image
            its lines ──► the same, with zeros around them: each element once
            for each 14 windows of a line, or fewer, for each panel
                sums += elements at the place of a term, one per window, * weights of that term
    sums, turned ──► lines of windows, output channel by output channel

Nothing is laid out window by window: what a term reads of neighbours are neighbours. Terms come in
the order of other convolutions (compiler/windows.py), so a sum has the same bits.
"""

from __future__ import annotations

from livegrad.compiler.builder import Builder
from livegrad.compiler.describe import Windows
from livegrad.compiler.products import BLOCK, WIDEST, room_for_sums, tile_for
from livegrad.compiler.values import Operand, Value
from livegrad.compiler.windows import Windowed
from livegrad.dtypes import DType
from livegrad.graph.symbol import least, most

# Windows of a line at least, terms of a sum, and output channels.
LEAST_BESIDE, LEAST_TAPS, LEAST_OUTPUTS = 14, 4, 24
# Elements of the part of an image that is multiplied at a time, of all its channels, at most.
MOST_ELEMENTS = 1 << 17
# Elements that notes of terms take, eight bytes each.
_NOTES = 2 * BLOCK


def generate_output_lanes(b: Builder, rank: int, stride: int, dtype: DType) -> None:
    """Writes products of rows, whose terms are neighbours, with windows of two dims, which are so
    many elements apart in the last one."""
    _OutputLanes(b, dtype, ["left term"], rank, stride).emit()


def outputs_are_lanes(windows: Windows, outputs: int, columns: int) -> bool:
    """Whether it is worth it: lines of several windows, of several places, for several outputs."""
    if len(windows.dims) != 2 or windows.by_rows or windows.alone:
        return False
    (_, _, taps, *_), (_, count, last_taps, stride, *_) = windows.dims
    enough = count >= LEAST_BESIDE and taps * last_taps >= LEAST_TAPS and outputs >= LEAST_OUTPUTS
    return enough and stride <= 2 and _elements(windows, columns) <= MOST_ELEMENTS


def elements_for_outputs(rows: int, columns: int, windows: Windows) -> int:
    """Elements of the thread's memory for weights, sums, notes, and a part of an image."""
    totals = room_for_sums(columns, rows)
    return room_for_sums(BLOCK, rows) + totals + _NOTES + _elements(windows, columns)


def _elements(windows: Windows, columns: int) -> int:
    (_, count, taps, stride, dilation, _), (_, beside, last_taps, step, spread, _) = windows.dims
    channels = least(windows.channels, most(BLOCK // (taps * last_taps), 1))
    lines = least(count, (columns - 1) // beside + 2)
    length = (lines - 1) * stride + (taps - 1) * dilation + 1
    return channels * length * ((beside - 1) * step + (last_taps - 1) * spread + 1) + 2 * WIDEST


class _OutputLanes(Windowed):
    rest = (8, 4, 2, 1)

    def __init__(self, b: Builder, dtype: DType, units: list[str], rank: int, stride: int) -> None:
        super().__init__(b, dtype, units, rank)
        self.beside = stride

    def emit(self) -> None:
        """Some channels at a time, image by image."""
        b = self.b
        self.down, self.along = self.dims
        self.tile = tile_for(b.vectors, self.element)
        self.width = self.tile.vectors * self.lanes
        self.panels = b.udiv(b.add(self.rows, self.width - 1), self.width)
        self.apart = b.mul(self.panels, self.width)
        images = self.job["images"]
        self.here = b.udiv(self.columns, b.smax(images, 1))
        self._find_lines()
        self._divide_room()
        depth = self.whole_channels()
        self._clear(b.smin(b.udiv(depth, self.taps), self.channels))
        self._note(b.smin(depth, self.terms))
        with b.loop(0, b.smax(self.terms, 1), depth) as part:
            self.start = part.index
            self.count = b.smin(b.sub(self.terms, part.index), depth)
            self._bring_weights()
            with b.loop(0, b.smax(images, 1)) as image:
                self._bring_image(image.index)
                self._each_line(image.index)
        self._hand_out()

    def _find_lines(self) -> None:
        """Which lines of windows an item has, and how large the part is that they lie in."""
        b, line, place = self.b, self.down, self.along
        first = self.job["first column"]
        self.first_line = b.udiv(first, place.count)
        last = b.udiv(b.sub(b.add(first, self.here), 1), place.count)
        self.begin = b.sub(b.mul(self.first_line, line.stride), line.before)
        steps = b.mul(b.sub(last, self.first_line), line.stride)
        self.length = b.add(b.add(steps, b.mul(b.sub(line.taps, 1), line.dilation)), 1)
        steps = b.mul(b.sub(place.count, 1), place.stride)
        self.pitch = b.add(b.add(steps, b.mul(b.sub(place.taps, 1), place.dilation)), 1)
        self.plane = b.mul(self.length, self.pitch)

    def _divide_room(self) -> None:
        """Places for panels of weights, sums, notes and a part of an image."""
        b = self.b
        self.totals = self.at(self.job["room"], b.mul(self.apart, BLOCK))
        self.notes = self.at(self.totals, b.mul(self.columns, self.apart))
        self.region = self.at(self.notes, _NOTES)

    def _clear(self, channels: Value) -> None:
        """Zeros, which stay around lines."""
        b = self.b
        with b.loop(0, b.mul(channels, self.plane), self.lanes) as at:
            b.store(b.const(self.kind, 0), self.at(self.region, at.index))

    def _note(self, terms: Value) -> None:
        """How far the place of each term is from the first, in elements."""
        b, line, place = self.b, self.down, self.along
        with b.loop(0, terms) as term:
            channel, down, along = self.places(term.index, [line.taps, place.taps])
            distance = b.mul(b.mul(down, line.dilation), self.pitch)
            distance = b.add(distance, b.mul(along, place.dilation))
            distance = b.add(distance, b.mul(channel, self.plane))
            b.store(distance, b.gep(self.notes, "i64", term.index))

    def _bring_weights(self) -> None:
        """Rows, term by term, to their places in panels; the last stands for those not there."""
        b = self.b
        last = b.sub(self.rows, 1)
        with b.loop(0, self.apart, self.lanes) as row:
            numbers = [b.smin(b.add(row.index, i), last) for i in range(self.lanes)]
            lines = [self.operand("left", number, self.start) for number in numbers]
            inside = b.and_(row.index, self.width - 1)
            out = self.at(self.panel(b.sub(row.index, inside)), inside)
            self.bring_turned(lines, out, self.width)

    def _bring_image(self, image: Value) -> None:
        """Lines that are inside, channel by channel."""
        b, line, place = self.b, self.down, self.along
        first = b.mul(b.udiv(self.start, self.taps), self.channel_step)
        base = b.add(first, b.mul(image, self.image_step))
        low = b.smin(b.smax(b.neg(self.begin), 0), self.length)
        high = b.smax(b.smin(b.sub(line.size, self.begin), self.length), low)
        skipped, lead = b.smax(b.neg(place.before), 0), b.smax(place.before, 0)
        count = b.smin(b.sub(place.size, skipped), b.sub(self.pitch, lead))
        with b.loop(0, b.udiv(self.count, self.taps)) as channel:
            moved = b.add(base, b.mul(channel.index, self.channel_step))
            out = self.at(self.region, b.mul(channel.index, self.plane), lead)
            with b.loop(low, high) as down:
                number = b.add(self.begin, down.index)
                distance = b.add(moved, b.mul(number, line.step))
                source = self.at(b.gep(self.job["right"], "i8", distance), skipped)
                self._copy(source, self.at(out, b.mul(down.index, self.pitch)), count)

    def _copy(self, source: Value, target: Value, count: Value) -> None:
        b = self.b
        with b.loop(0, count, self.lanes) as at:
            mask = b.lane_mask(b.sub(count, at.index))
            x = b.load(self.kind, self.at(source, at.index), mask)
            b.store(x, self.at(target, at.index), mask)

    # ----------------------------------------------------------------------------- multiplying

    def _each_line(self, image: Value) -> None:
        """Lines of windows, or parts of them, some windows at a time."""
        b, place = self.b, self.along
        first = self.job["first column"]

        def multiply(run: Value, low: Value, end: Value) -> None:
            down = b.mul(b.sub(run, self.first_line), self.down.stride)
            line = self.at(self.region, b.mul(down, self.pitch))
            before = b.sub(low, b.mul(run, place.count))
            number = b.add(b.mul(image, self.here), b.sub(low, first))
            count, start = b.sub(end, low), b.const("i64", 0)
            for rows in [self.tile.rows, *[x for x in self.rest if x < self.tile.rows]]:
                whole = b.sub(count, b.urem(b.sub(count, start), rows))
                with b.loop(start, whole, rows) as window:
                    at = b.mul(b.add(before, window.index), self.beside)
                    self._panels(self.at(line, at), b.add(number, window.index), rows)
                start = whole

        self.each_run(first, self.here, place.count, multiply)

    def _panels(self, source: Value, window: Value, rows: int) -> None:
        """Some windows with all panels; the last may be a narrow one."""
        b, vectors = self.b, self.tile.vectors
        with b.loop(0, self.panels) as panel:
            column = b.mul(panel.index, self.width)
            narrow = b.icmp("sle", b.sub(self.rows, column), self.lanes)
            if vectors == 1:
                self._windows_tile(source, window, column, rows, 1)
            else:
                with b.if_(narrow):
                    self._windows_tile(source, window, column, rows, 1)
                with b.if_(b.not_(narrow)):
                    self._windows_tile(source, window, column, rows, vectors)

    def _windows_tile(
        self, source: Value, window: Value, column: Value, rows: int, vectors: int
    ) -> None:
        """Some windows with a panel: the sums of a block are in registers."""
        b = self.b
        zeros = [b.const(self.kind, 0)] * (rows * vectors)
        with b.loop(0, self.count, 1, [self.notes, self.panel(column), *zeros]) as term:
            note, weights, *sums = term.carried
            at = self.at(source, b.load("i64", note))
            columns = [b.load(self.kind, self.at(weights, v * self.lanes)) for v in range(vectors)]
            for i in range(rows):
                x = self.spread(self.at(at, i * self.beside))
                for v, y in enumerate(columns):
                    sums[i * vectors + v] = self.times(x, y, sums[i * vectors + v])
            term.update(b.gep(note, "i64", 1), self.at(weights, self.width), *sums)
        self._add(term.results[2:], window, column, vectors)

    def _total(self, window: Value, column: Operand) -> Value:
        return self.at(self.totals, self.b.mul(window, self.apart), column)

    def _add(self, sums: list[Value], window: Value, column: Value, vectors: int) -> None:
        """Adds the sums of a block to those of the blocks before it, as `put` does."""
        b = self.b
        add = b.fadd if self.element in ("float", "double") else b.add
        there = b.splat(b.icmp("ne", self.start, 0))
        place = self._total(window, column)
        for i in range(0, len(sums), vectors):
            for v in range(vectors):
                at = self.at(place, v * self.lanes)
                b.store(add(b.load(self.kind, at, there), sums[i + v]), at)
            place = self.at(place, self.apart)

    def _hand_out(self) -> None:
        """Sums, turned: a line of windows per output channel."""
        b = self.b
        last = b.sub(self.columns, 1)
        with (
            b.loop(0, self.rows, self.lanes) as row,
            b.loop(0, self.columns, self.lanes) as window,
        ):
            numbers = [b.smin(b.add(window.index, i), last) for i in range(self.lanes)]
            places = [self._total(x, row.index) for x in numbers]
            left = b.sub(self.columns, window.index)
            for i, x in enumerate(self.turned(places, b.const("i64", 0), None)):
                output = b.add(row.index, i)
                line = self.at(self.job["sums"], b.mul(output, self.job["line"]), window.index)
                stored = b.select(b.icmp("slt", output, self.rows), left, 0)
                b.store(x, line, b.lane_mask(stored))
