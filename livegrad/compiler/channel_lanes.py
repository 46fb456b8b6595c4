"""Convolutions of images whose channels are by themselves (depthwise): channels are lanes.

    for each 16 channels
        weights ──► places, channels
        lines of images that windows lie in ──► places, channels     zeros on both sides of a line
        for each line of windows, 8 of them at a time
            sums of all channels = Σ weights * elements, over places on lines inside of the image
        sums, turned again ──► lines of windows, channel by channel

Each product is rounded, then each sum, in the order of places: as in loops over shifted images
(ops/windows/shifted_products.py), which have the same bits, of finite values.
"""

from __future__ import annotations

from collections.abc import Sequence

from livegrad.compiler.builder import Builder
from livegrad.compiler.values import Operand, Value
from livegrad.compiler.windows import Windowed
from livegrad.dtypes import DType
from livegrad.graph.symbol import least, most

# Channels that are multiplied at once, and windows whose sums are in registers.
CHANNELS, BESIDE = 16, 8


def generate_channel_lanes(b: Builder, rank: int, dtype: DType) -> None:
    """Writes products of rows, whose terms are neighbours, with windows of a channel each."""
    _ChannelLanes(b, dtype, ["left term"], rank).emit()


def elements_for_lanes(columns: int, dims: list[tuple[int, ...]]) -> int:
    """Elements of the thread's memory for so many windows, whole lines of them: for weights, sums,
    and lines of images, with some behind them."""
    (size, _, taps, stride, dilation, _), (*_, last_taps, last_stride, _, _) = dims
    count = dims[1][1]
    lines = most(-(-columns // count), 1)
    length = least(size, (lines - 1) * stride + (taps - 1) * dilation + 1)
    behind = CHANNELS + BESIDE * last_stride
    vectors = taps * last_taps + columns + 2 * CHANNELS + length * _pitch(dims[1]) + behind
    return vectors * CHANNELS


def _pitch(dim: tuple[int, ...]) -> int:
    """Elements from a line to the next, with zeros on both sides."""
    size, count, taps, stride, dilation, before = dim
    reach = (count - 1) * stride + (taps - 1) * dilation + 1 - before
    return most(before, 0) + most(size, reach)


class _ChannelLanes(Windowed):
    def emit(self) -> None:
        """All channels, as many at a time as there are lanes."""
        b = self.b
        self.down, self.along = self.dims
        self.count_lines = b.udiv(self.columns, self.along.count)
        first = self.job["first column"]
        self.first_line = b.udiv(first, self.along.count)
        self.low, self.length = self.reach(first, b.sub(b.add(first, self.columns), 1))
        self._divide_room()
        self._clear()
        with b.loop(0, self.rows, self.lanes) as row:
            self._bring_weights(row.index)
            self._bring_lines(row.index)
            with b.loop(0, self.count_lines) as line:
                self._multiply_line(line.index)
            self._hand_out(row.index)

    def _divide_room(self) -> None:
        """Places for weights, sums, and lines."""
        b, last = self.b, self.along
        self.lead = b.smax(last.before, 0)
        reach = b.add(b.mul(b.sub(last.count, 1), last.stride), 1)
        reach = b.sub(b.add(reach, b.mul(b.sub(last.taps, 1), last.dilation)), last.before)
        self.pitch = b.add(self.lead, b.smax(last.size, reach))
        self.weights = self.job["room"]
        self.totals = self._vector(self.weights, b.add(self.taps, CHANNELS))
        self.region = self._vector(self.totals, b.add(self.columns, CHANNELS))

    def _vector(self, base: Value, number: Operand) -> Value:
        """The address so many vectors of channels away."""
        if isinstance(number, int):
            return self.at(base, number * self.lanes)
        return self.at(base, self.b.mul(number, self.lanes))

    def _clear(self) -> None:
        """Zeros around lines, and everywhere between them."""
        b = self.b
        with b.loop(0, b.mul(self.length, self.pitch)) as at:
            b.store(b.const(self.kind, 0), self._vector(self.region, at.index))

    def _channel_lines(self, name: str, first: Value, distance: Value) -> list[Value]:
        """Where channels begin, from a row on; the last one stands for those that are not there."""
        b = self.b
        last = b.sub(self.rows, 1)
        numbers = [b.smin(b.add(first, i), last) for i in range(self.lanes)]
        return [b.gep(self.job[name], "i8", b.mul(number, distance)) for number in numbers]

    def _bring_weights(self, row: Value) -> None:
        b = self.b
        lines = self._channel_lines("left", row, self.job["left step"])
        with b.loop(0, self.taps, self.lanes) as tap:
            square = self.turned(lines, tap.index, b.sub(self.taps, tap.index))
            for i, x in enumerate(square):
                b.store(x, self._vector(self.weights, b.add(tap.index, i)))

    def _bring_lines(self, row: Value) -> None:
        """Line by line: what a square has beyond its line are zeros, where the next line's
        elements are not yet."""
        b, last = self.b, self.along
        bases = self._channel_lines("right", row, self.channel_step)
        moved = b.mul(self.job["first row"], self.channel_step)
        with b.loop(0, self.length) as line:
            distance = b.add(moved, b.mul(b.add(self.low, line.index), self.down.step))
            lines = [b.gep(base, "i8", distance) for base in bases]
            out = b.add(b.mul(line.index, self.pitch), self.lead)
            with b.loop(0, last.size, self.lanes) as place:
                square = self.turned(lines, place.index, b.sub(last.size, place.index))
                target = self._vector(self.region, b.add(out, place.index))
                for i, x in enumerate(square):
                    b.store(x, self._vector(target, i))

    # ------------------------------------------------------------------------------ multiplying

    def _multiply_line(self, line: Value) -> None:
        """The places of windows that lie on lines inside; neighbours have code of their own."""
        b, dim, last = self.b, self.down, self.along
        start = b.sub(b.mul(b.add(self.first_line, line), dim.stride), dim.before)
        low, high = self._steps_to(b.neg(start)), self._steps_to(b.sub(dim.size, start))
        begin = b.add(b.mul(b.sub(start, self.low), self.pitch), b.sub(self.lead, last.before))
        near = b.icmp("eq", last.stride, 1)
        with b.loop(0, last.count, BESIDE) as window:
            source = self._vector(self.region, b.add(begin, b.mul(window.index, last.stride)))
            target = self._vector(self.totals, b.add(b.mul(line, last.count), window.index))
            with b.if_(near):
                self._block(source, target, low, high, range(BESIDE))
            with b.if_(b.not_(near)):
                steps = [b.mul(last.stride, i) for i in range(BESIDE)]
                self._block(source, target, low, high, steps)

    def _steps_to(self, distance: Value) -> Value:
        """How many lines of places in a window come before one so far away: none to all."""
        b = self.b
        return b.smin(self.ceil(b.smax(distance, 0), self.down.dilation), self.down.taps)

    def _block(
        self, source: Value, target: Value, low: Value, high: Value, steps: Sequence[Operand]
    ) -> None:
        """Some windows beside each other, so many elements away: their sums are in registers. A sum
        begins with -0, which changes nothing that is added to it."""
        b, line, last = self.b, self.down, self.along
        is_float = self.element in ("float", "double")
        nothing = [b.const(self.kind, -0.0 if is_float else 0)] * BESIDE
        with b.loop(low, high, 1, nothing) as down:
            row = self._vector(source, b.mul(b.mul(down.index, line.dilation), self.pitch))
            weights = self._vector(self.weights, b.mul(down.index, last.taps))
            with b.loop(0, last.taps, 1, [row, weights, *down.carried]) as tap:
                place, weight, *sums = tap.carried
                factor = b.load(self.kind, weight)
                for i, step in enumerate(steps):
                    x = b.load(self.kind, self._vector(place, step))
                    sums[i] = self._plus(sums[i], factor, x)
                further = self._vector(place, last.dilation)
                tap.update(further, self._vector(weight, 1), *sums)
            down.update(*tap.results[2:])
        for i, total in enumerate(down.results):
            b.store(total, self._vector(target, i))

    def _plus(self, total: Value, x: Value, y: Value) -> Value:
        """total + x * y, each rounded."""
        b = self.b
        if self.element in ("float", "double"):
            return b.fadd(total, b.fmul(x, y))
        return b.add(total, b.mul(x, y))

    def _hand_out(self, row: Value) -> None:
        """Sums, turned again: a line of windows per channel."""
        b = self.b
        with b.loop(0, self.columns, self.lanes) as window:
            places = [self._vector(self.totals, b.add(window.index, i)) for i in range(self.lanes)]
            left = b.sub(self.columns, window.index)
            for i, x in enumerate(self.turned(places, b.const("i64", 0), None)):
                channel = b.add(row, i)
                line = self.at(self.job["sums"], b.mul(channel, self.job["line"]), window.index)
                stored = b.select(b.icmp("slt", channel, self.rows), left, 0)
                b.store(x, line, b.lane_mask(stored))
