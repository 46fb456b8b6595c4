"""Gradients of weights of many channels: as many of these as a tile has rows are taken at once.

    images (N, C, *S)  ──►  channels by 14: places, channels    brought together: each element once,
                            where windows of a block lie        however many windows it is in
    for each place in a window: windows whose element there lies inside of the image are noted
        for each 14 channels, for each panel of gradients
            sums += elements of the channels * gradients, for all windows that were noted

Terms come in the order of other gradients of weights (compiler/windows.py): windows of images, one
after the other. What is skipped would add nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from livegrad.compiler.builder import Builder
from livegrad.compiler.control import Loop
from livegrad.compiler.describe import Windows
from livegrad.compiler.products import BLOCK, STRIP
from livegrad.compiler.values import Value
from livegrad.compiler.windows import Slopes
from livegrad.dtypes import DType

# So many channels are many. They are taken by so many, in lines of as many elements as there are
# lanes.
LEAST_CHANNELS, CHANNELS = 12, 14
# What is noted of a run of windows: the first one's number, how many there are, where the first
# one begins among what is brought together, and in each dim. And of a window at some place: where
# its element is, and where its gradients are.
_RUN, _WINDOW = 3, 2


def has_many_channels(windows: Windows) -> bool:
    """Whether they are taken together."""
    return windows.channels >= LEAST_CHANNELS


def generate_channel_slopes(b: Builder, rank: int, dtype: DType) -> None:
    """Writes products of windows as rows with columns whose terms are neighbours, per image."""
    _ChannelSlopes(b, dtype, ["right term"], rank).emit()


def elements_for_channels(channels: int, places: int) -> int:
    """Elements of the thread's memory for so many places, and some behind them."""
    return -(-channels // CHANNELS) * (places + 16) * 16


def bytes_for_windows(rank: int) -> int:
    """Bytes of the thread's memory for notes."""
    return (_RUN + rank + _WINDOW) * BLOCK * 8


class _ChannelSlopes(Slopes):
    rest = (8, 4, 2, 1)

    def bring_columns(self) -> None:
        """Gradients; which windows there are; and what of images these lie in."""
        b = self.b
        self.notes = self.at(self.strip, STRIP)
        self.entries = b.gep(self.notes, "i64", (_RUN + len(self.dims)) * BLOCK)
        self.region = b.gep(self.entries, "i64", _WINDOW * BLOCK)
        self.inner = self.product([dim.size for dim in self.dims[1:]])
        first = self.job["first row"]
        self.first_channel = b.udiv(first, self.taps)
        self.after_channels = self.ceil(b.add(first, self.rows), self.taps)
        self.bring_gradients()
        zero = b.const("i64", 0)
        with self._each_image([zero, zero]) as (image, first, last, loop):
            places, runs = loop.carried
            low, length = self.reach(first, b.sub(last, 1))
            self._note_runs_of(image, first, last, b.sub(places, b.mul(low, self.inner)), runs)
            width = self.dims[-1].count
            noted = b.sub(self.ceil(last, width), b.udiv(first, width))
            loop.update(b.add(places, b.mul(length, self.inner)), b.add(runs, noted))
        places, self.runs = loop.results
        self.next_group = b.mul(b.add(places, self.lanes), self.lanes)
        with self._each_image([self.region]) as (image, first, last, loop):
            low, length = self.reach(first, b.sub(last, 1))
            self._bring_image(image, low, length, loop.carried[0])
            moved = b.mul(b.mul(length, self.inner), self.lanes)
            loop.update(self.at(loop.carried[0], moved))

    @contextmanager
    def _each_image(self, carried: Sequence[Value]) -> Iterator[tuple[Value, Value, Value, Loop]]:
        """Images that have windows among the terms: from which window on, and up to which."""
        b, windows = self.b, self.windows
        end = b.add(self.start, self.count)
        with b.loop(b.udiv(self.start, windows), self.ceil(end, windows), 1, carried) as image:
            before = b.mul(image.index, windows)
            first = b.sub(b.smax(before, self.start), before)
            last = b.sub(b.smin(b.add(before, windows), end), before)
            yield image.index, first, last, image

    def _note_runs_of(
        self, image: Value, first: Value, last: Value, origin: Value, runs: Value
    ) -> None:
        """Notes the runs of windows of an image, whose element 0 would be at `origin`."""
        b, dims = self.b, self.dims
        before = b.sub(b.mul(image, self.windows), self.start)
        first_run = b.udiv(first, dims[-1].count)

        def note(run: Value, low: Value, high: Value) -> None:
            lines = self.places(run, [dim.count for dim in dims[1:-1]])[: len(dims) - 1]
            numbers = [*lines, b.sub(low, b.mul(run, dims[-1].count))]
            starts = [
                b.sub(b.mul(number, dim.stride), dim.before)
                for number, dim in zip(numbers, dims, strict=True)
            ]
            place = b.add(origin, self.flat(starts))
            noted = [b.add(before, low), b.sub(high, low), place, *starts]
            for number, value in enumerate(noted):
                b.store(value, self.note(number, b.add(runs, b.sub(run, first_run))))

        self.each_run(first, b.sub(last, first), dims[-1].count, note)

    def _bring_image(self, image: Value, low: Value, length: Value, out: Value) -> None:
        """Squares of channels and neighbouring places, turned in registers; the last one goes on
        into what comes next, which is written later."""
        b = self.b
        run = self.line(length)
        runs = b.udiv(b.mul(length, self.inner), run)
        distance = b.add(b.mul(image, self.image_step), b.mul(low, self.dims[0].step))
        base = b.gep(self.job["left"], "i8", distance)
        last = b.sub(self.after_channels, 1)
        with self._each_group() as (channel, group), b.loop(0, runs) as line:
            numbers = [b.smin(b.add(channel, min(i, CHANNELS - 1)), last) for i in range(16)]
            place = b.gep(base, "i8", self.line_place(line.index))
            lines = [b.gep(place, "i8", b.mul(number, self.channel_step)) for number in numbers]
            first = b.mul(b.mul(line.index, run), self.lanes)
            target = self.at(out, b.mul(group, self.next_group), first)
            with b.loop(0, run, self.lanes) as position:
                square = self.turned(lines, position.index, b.sub(run, position.index))
                to = self.at(target, b.mul(position.index, self.lanes))
                for i, x in enumerate(square):
                    b.store(x, self.at(to, i * self.lanes))

    @contextmanager
    def _each_group(self) -> Iterator[tuple[Value, Value]]:
        """The first channel of each group, and the group's number."""
        b = self.b
        count = b.sub(self.after_channels, self.first_channel)
        with b.loop(0, self.ceil(count, b.const("i64", CHANNELS))) as group:
            yield b.add(self.first_channel, b.mul(group.index, CHANNELS)), group.index

    # ----------------------------------------------------------------------------- multiplying

    def strips(self) -> None:
        """Each place in a window with all channels and panels."""
        b, first = self.b, self.job["first row"]
        heights = [self.tile.rows, *[x for x in self.rest if x < self.tile.rows]]
        with b.loop(0, self.taps) as tap:
            count = self._note_windows(tap.index)
            low, high = [
                self.ceil(b.sub(b.add(x, self.taps), tap.index), self.taps)
                for x in (first, b.add(first, self.rows))
            ]
            with self._each_group() as (channel, group):
                start = b.smax(b.sub(low, 1), channel)
                end = b.smin(b.sub(high, 1), b.add(channel, CHANNELS))
                base = self.at(self.region, b.mul(group, self.next_group))
                for rows in heights:
                    whole = b.sub(end, b.urem(b.sub(end, start), rows))
                    with b.loop(start, whole, rows) as row:
                        place = self.at(base, b.sub(row.index, channel))
                        number = b.sub(b.add(b.mul(row.index, self.taps), tap.index), first)
                        self._panels(number, rows, place, count)
                    start = whole

    def _note_windows(self, tap: Value) -> Value:
        """Notes the windows whose element at a place is there; how many these are."""
        b, last = self.b, self.dims[-1]
        taps = self.places(tap, [dim.taps for dim in self.dims[1:]])
        shifts = [b.mul(k, dim.dilation) for k, dim in zip(taps, self.dims, strict=True)]
        moved = self.flat(shifts)
        with b.loop(0, self.runs, 1, [b.const("i64", 0)]) as run:
            noted = [b.load("i64", self.note(i, run.index)) for i in range(_RUN + len(shifts))]
            first, length, place = noted[:_RUN]
            starts = [b.add(x, shift) for x, shift in zip(noted[_RUN:], shifts, strict=True)]
            inside = b.const("i1", 1)
            for start, dim in zip(starts[:-1], self.dims[:-1], strict=True):
                inside = b.and_(inside, b.icmp("ult", start, dim.size))
            skipped = self.ceil(b.smax(b.neg(starts[-1]), 0), last.stride)
            end = self.ceil(b.smax(b.sub(last.size, starts[-1]), 0), last.stride)
            end = b.select(inside, b.smin(length, end), 0)
            place = b.add(place, moved)
            with b.loop(skipped, end, 1, [run.carried[0]]) as window:
                at = b.add(place, b.mul(window.index, last.stride))
                entry = b.gep(self.entries, "i64", b.mul(window.carried[0], _WINDOW))
                b.store(b.mul(at, self.lanes), entry)
                gradient = b.mul(b.add(first, window.index), self.width)
                b.store(gradient, b.gep(entry, "i64", 1))
                window.update(b.add(window.carried[0], 1))
            run.update(window.results[0])
        return run.results[0]

    def _panels(self, row: Value, rows: int, place: Value, count: Value) -> None:
        """Some channels with all panels."""
        b, vectors = self.b, self.tile.vectors
        with b.loop(0, self.panels) as panel:
            column = b.mul(panel.index, self.width)
            narrow = b.icmp("sle", b.sub(self.columns, column), self.lanes)
            if vectors == 1:
                self._windows_tile(row, rows, column, 1, place, count)
            else:
                with b.if_(narrow):
                    self._windows_tile(row, rows, column, 1, place, count)
                with b.if_(b.not_(narrow)):
                    self._windows_tile(row, rows, column, vectors, place, count)

    def _windows_tile(
        self, row: Value, rows: int, column: Value, vectors: int, place: Value, count: Value
    ) -> None:
        """Some channels with a panel: the sums of a block are in registers."""
        b, panel = self.b, self.panel(column)
        zeros = [b.const(self.kind, 0)] * (rows * vectors)
        with b.loop(0, count, 1, [self.entries, *zeros]) as term:
            entry, *sums = term.carried
            at = self.at(place, b.load("i64", entry))
            line = self.at(panel, b.load("i64", b.gep(entry, "i64", 1)))
            columns = [b.load(self.kind, self.at(line, v * self.lanes)) for v in range(vectors)]
            for i in range(rows):
                x = self.spread(self.at(at, i))
                for v, y in enumerate(columns):
                    sums[i * vectors + v] = self.times(x, y, sums[i * vectors + v])
            term.update(b.gep(entry, "i64", _WINDOW), *sums)
        found = term.results[1:]
        lines = [found[i * vectors : (i + 1) * vectors] for i in range(rows)]
        self.put(lines, row, column, b.icmp("eq", self.start, 0), self.taps)
