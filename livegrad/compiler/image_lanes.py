"""Convolutions of many images: as many of these as there are lanes are multiplied at once.

    images (N, C, *S)  ──►  places, channels, images        brought together: each element once,
                            of some channels                however many windows it is in
    for each 14 output channels, or fewer, by the host's registers
        weights ──► a strip
        for each window: which places in it lie inside of the image was noted before
            sums of all images += strip * images at these places

Places outside are skipped, not multiplied with 0. Terms come in the order of other convolutions
(compiler/windows.py), and what is skipped would add nothing: a sum has the same bits, whichever way
it is made.
"""

from __future__ import annotations

from livegrad.compiler.builder import Builder
from livegrad.compiler.products import BLOCK, STRIP, tile_for
from livegrad.compiler.values import Value
from livegrad.compiler.windows import Windowed
from livegrad.dtypes import DType
from livegrad.graph.symbol import least, most

# Images that are multiplied at once, at most.
MOST_IMAGES = 32
# What is noted of a window: how many of its places lie inside, where the first one is, and its
# number. Then of each place: how far it is to the next one, also in numbers, and where that is
# noted; the last one's next is the first, a channel further. So all terms are one loop.
_NOTED = 3


def generate_image_lanes(b: Builder, rank: int, dtype: DType, quads: str = "") -> None:
    """Writes products of rows, whose terms are neighbours, with windows of many images."""
    _ImageLanes(b, dtype, ["left term"], rank, quads).emit()


def elements_for(rows: int, windows: int, positions: int, channels: int, taps: int) -> int:
    """Elements of the thread's memory for so many windows and rows of all images: for places of
    images and some behind them, sums, a strip, and notes."""
    channels = least(channels, most(BLOCK // taps, 1))
    images = (positions + 16) * channels * MOST_IMAGES
    notes = (windows * (taps + 1) * _NOTED + 8) * 2  # eight bytes each
    return images + rows * windows * MOST_IMAGES + STRIP + notes


class _ImageLanes(Windowed):
    rest = (8, 4, 2, 1)

    def emit(self) -> None:
        """All terms, so many at a time."""
        b = self.b
        self.tile = tile_for(b.vectors, self.element)
        self.width = self.tile.vectors * self.lanes
        self.images = self.job["images"]
        self.apart = b.and_(b.add(self.images, self.lanes - 1), -self.lanes)
        self.here = b.udiv(self.columns, self.images)  # windows of each image
        depth = self.whole_channels()
        # From a place to the next one: as many channels as are brought together, or all.
        most = b.smin(b.udiv(depth, self.taps), self.channels)
        self.next_place = b.mul(most, self.apart)
        self._find_region()
        self._divide_room()
        with b.loop(0, self.here) as window:
            self._note(window.index)
        with b.loop(0, b.smax(self.terms, 1), depth) as part:
            self.start = part.index
            self.count = b.smin(b.sub(self.terms, part.index), depth)
            self._bring_images()
            self.strips()
        self._hand_out()

    # ------------------------------------------------------------------- what is read and noted

    def _find_region(self) -> None:
        """The part of the first dim that windows lie in; of the others, everything."""
        b, first = self.b, self.job["first column"]
        self.low, length = self.reach(first, b.sub(b.add(first, self.here), 1))
        self.positions = b.mul(length, self.product([x.size for x in self.dims[1:]]))
        self.run = self.line(length)

    def _divide_room(self) -> None:
        """Places for notes, a strip, sums and images."""
        b = self.b
        self.notes = self.job["room"]
        size = b.and_(b.add(b.mul(self.here, self._note_size()), 7), -8)
        self.strip = b.gep(self.notes, "i64", size)
        self.totals = self.at(self.strip, STRIP)
        self.next_row = b.mul(self.here, self.apart)
        self.region = self.at(self.totals, b.mul(self.rows, self.next_row))

    def _note_size(self) -> Value:
        return self.b.mul(self.b.add(self.taps, 1), _NOTED)

    def _notes_of(self, window: Value) -> Value:
        """Where it is noted which places of a window are inside."""
        return self.b.gep(self.notes, "i64", self.b.mul(window, self._note_size()))

    def _noted(self, at: Value) -> list[Value]:
        return [self.b.load("i64", self.b.gep(at, "i64", i)) for i in range(_NOTED)]

    def _write(self, at: Value, *values: Value) -> None:
        for i, value in enumerate(values):
            self.b.store(value, self.b.gep(at, "i64", i))

    def _note(self, window: Value) -> None:
        b = self.b
        number = b.add(self.job["first column"], window)
        places = self.places(number, [dim.count for dim in self.dims[1:]])
        starts = [
            b.sub(b.mul(place, dim.stride), dim.before)
            for place, dim in zip(places, self.dims, strict=True)
        ]
        at = self._notes_of(window)
        self.entries = b.gep(at, "i64", _NOTED)
        zero, true = b.const("i64", 0), b.const("i1", 1)
        inside = self._note_taps(0, starts, true, zero, zero, zero)
        first = self._noted(self.entries)[:2]
        self._write(at, inside, *first)
        last = b.sub(inside, 1)
        with b.loop(0, last) as k:
            entry, after = self._entry(k.index), self._entry(b.add(k.index, 1))
            self._link(entry, after, self._noted(after)[:2])
        round_again = [b.add(first[0], self.apart), b.add(first[1], self.taps)]
        with b.if_(b.icmp("sgt", inside, 0)):
            self._link(self._entry(last), self.entries, round_again)

    def _entry(self, number: Value) -> Value:
        return self.b.gep(self.entries, "i64", self.b.mul(number, _NOTED))

    def _link(self, entry: Value, after: Value, next: list[Value]) -> None:
        b = self.b
        here = self._noted(entry)[:2]
        self._write(entry, *[b.sub(y, x) for x, y in zip(here, next, strict=True)], after)

    def _note_taps(
        self, d: int, starts: list[Value], inside: Value, place: Value, tap: Value, noted: Value
    ) -> Value:
        """Loops over the places in a window, from dim `d` on: how many were noted until then.

        What does not count is overwritten by the next one."""
        b, dim = self.b, self.dims[d]
        with b.loop(0, dim.taps, 1, [noted]) as k:
            at = b.add(starts[d], b.mul(k.index, dim.dilation))
            there = b.and_(inside, b.icmp("ult", at, dim.size))
            number = b.add(b.mul(tap, dim.taps), k.index)
            at = b.sub(at, self.low) if d == 0 else b.add(b.mul(place, dim.size), at)
            if d < len(self.dims) - 1:
                k.update(self._note_taps(d + 1, starts, there, at, number, k.carried[0]))
            else:
                self._write(self._entry(k.carried[0]), b.mul(at, self.next_place), number)
                k.update(b.add(k.carried[0], b.select(there, b.const("i64", 1), 0)))
        return k.results[0]

    # ------------------------------------------------------------------------------- images

    def _bring_images(self) -> None:
        """Squares of images and neighbouring places, turned in registers."""
        b = self.b
        self.channels_here = b.udiv(self.count, self.taps)
        first = b.mul(b.udiv(self.start, self.taps), self.channel_step)
        base = b.gep(self.job["right"], "i8", b.add(first, b.mul(self.low, self.dims[0].step)))
        runs = b.udiv(self.positions, self.run)
        last = b.sub(self.images, 1)
        with b.loop(0, self.apart, self.lanes) as lane:
            numbers = [b.smin(b.add(lane.index, i), last) for i in range(self.lanes)]
            bases = [b.gep(base, "i8", b.mul(number, self.image_step)) for number in numbers]
            with b.loop(0, runs) as run:
                self._bring_run(bases, run.index, lane.index)

    def _bring_run(self, bases: list[Value], run: Value, lane: Value) -> None:
        """The last square goes on into what comes next, which is written later."""
        b = self.b
        distance = self.line_place(run)
        first = b.mul(run, self.run)
        with b.loop(0, self.run, self.lanes) as position:
            moved = b.add(distance, b.mul(position.index, self.size))
            left = b.sub(self.run, position.index)
            out = self.at(self.region, b.mul(b.add(first, position.index), self.next_place), lane)
            with b.loop(0, self.channels_here, 1, [moved, out]) as channel:
                at, target = channel.carried
                lines = [b.gep(base, "i8", at) for base in bases]
                for i, x in enumerate(self.turned(lines, b.const("i64", 0), left)):
                    b.store(x, self.at(target, b.mul(self.next_place, i)))
                channel.update(b.add(at, self.channel_step), self.at(target, self.apart))

    # ----------------------------------------------------------------------------- multiplying

    def multiply_strip(self, row: Value, rows: int) -> None:
        """Some rows with all windows."""
        b, vectors = self.b, self.tile.vectors
        strip = self.bring_rows(row, rows)
        with b.loop(0, self.here) as window, b.loop(0, self.apart, self.width) as lane:
            where = (row, rows, window.index, lane.index)
            narrow = b.icmp("sle", b.sub(self.apart, lane.index), self.lanes)
            if vectors == 1:
                self._windows_tile(*where, 1, *strip)
            else:
                with b.if_(narrow):
                    self._windows_tile(*where, 1, *strip)
                with b.if_(b.not_(narrow)):
                    self._windows_tile(*where, vectors, *strip)

    def _windows_tile(
        self,
        row: Value,
        rows: int,
        window: Value,
        lane: Value,
        vectors: int,
        along: int,
        across: int,
    ) -> None:
        """Some rows with a window of some images: the sums of a block are in registers."""
        b = self.b
        noted = self._notes_of(window)
        inside, place, number = self._noted(noted)
        image = self.at(self.region, lane, place)
        strip = self.at(self.strip, b.mul(number, along))
        zeros = [b.const(self.kind, 0)] * (rows * vectors)
        start = [b.gep(noted, "i64", _NOTED), image, strip, *zeros]
        with b.loop(0, b.mul(self.channels_here, inside), 1, start) as term:
            entry, image, strip, *sums = term.carried
            columns = [b.load(self.kind, self.at(image, v * self.lanes)) for v in range(vectors)]
            for i in range(rows):
                x = self.spread(self.at(strip, i * across))
                for v, y in enumerate(columns):
                    sums[i * vectors + v] = self.times(x, y, sums[i * vectors + v])
            further = self.at(image, b.load("i64", entry))
            step = b.mul(b.load("i64", b.gep(entry, "i64", 1)), along)
            after = b.load("ptr", b.gep(entry, "i64", 2))
            term.update(after, further, self.at(strip, step), *sums)
        self._add(term.results[3:], row, rows, window, lane)

    def _total(self, row: Value, window: Value) -> Value:
        """Where the sums of all images are."""
        b = self.b
        return self.at(self.totals, b.mul(b.add(b.mul(row, self.here), window), self.apart))

    def _add(self, sums: list[Value], row: Value, rows: int, window: Value, lane: Value) -> None:
        """Adds the sums of a block to those of the blocks before it, as `put` does."""
        b = self.b
        add = b.fadd if self.element in ("float", "double") else b.add
        there = b.splat(b.icmp("ne", self.start, 0))
        vectors = len(sums) // rows
        place = self.at(self._total(row, window), lane)
        for i in range(rows):
            for v in range(vectors):
                at = self.at(place, v * self.lanes)
                b.store(add(b.load(self.kind, at, there), sums[i * vectors + v]), at)
            place = self.at(place, self.next_row)

    def _hand_out(self) -> None:
        """Sums, turned again: lines of windows, image by image."""
        b = self.b
        last = b.sub(self.here, 1)
        with (
            b.loop(0, self.rows) as row,
            b.loop(0, self.here, self.lanes) as window,
            b.loop(0, self.apart, self.lanes) as lane,
        ):
            numbers = [b.smin(b.add(window.index, i), last) for i in range(self.lanes)]
            places = [self.at(self._total(row.index, x), lane.index) for x in numbers]
            square = self.turned_places(places)
            line = self.at(self.job["sums"], b.mul(row.index, self.job["line"]), window.index)
            left = b.sub(self.here, window.index)
            for i, x in enumerate(square):
                image = b.add(lane.index, i)
                stored = b.select(b.icmp("slt", image, self.images), left, 0)
                b.store(x, self.at(line, b.mul(image, self.here)), b.lane_mask(stored))

    def turned_places(self, places: list[Value]) -> list[Value]:
        """A square whose vectors lie there, turned."""
        return self.turned(places, self.b.const("i64", 0), None)
