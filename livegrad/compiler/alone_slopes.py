"""Gradients of weights of channels by themselves (depthwise): channels are lanes.

    for each part of the images, for each 16 channels, a vector of them at a time
        for each image
            image ──► places, channels       zeros around it
            gradients ──► windows, channels
            for each block of lines, of about 256 windows
                sums of all channels += elements * gradients, for each place in a window
        sums, turned again ──► places, channel by channel

A sum is made by fused multiply-adds in blocks of whole lines, then of parts: by how windows lie and
how many images there are alone.

Argument block: 0 work items   1 result   2 gradients   3 images   4 parts   5 images of a part
6 channels   then of either dim: size, windows, stride, dilation, places before the first
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from livegrad.compiler.builder import Builder
from livegrad.compiler.emitter import memory_element
from livegrad.compiler.panels import turned_square
from livegrad.compiler.products import BLOCK
from livegrad.compiler.values import Operand, Value, bytes_of
from livegrad.dtypes import DType
from livegrad.graph.symbol import most

# Of an item: as many as hosts' vectors have at most.
CHANNELS = 16


class Dim(NamedTuple):
    """How windows lie in a dim; see the argument block."""

    size: Value
    windows: Value
    stride: Value
    dilation: Value
    before: Value


def scratch_bytes(dims: list[tuple[int, ...]], taps: int, itemsize: int) -> int:
    """Bytes of the thread's memory: vectors of an image with what is around it, of gradients and of
    sums; and where each place of an image goes. Of a dim: size, windows, places, stride, dilation,
    before."""
    (height, lines, *_), (width, windows, *_) = dims
    places = -(-(height * width) // CHANNELS) * CHANNELS
    vectors = _extent(dims[0]) * _extent(dims[1]) + 1
    vectors += -(-(lines * windows) // CHANNELS) * CHANNELS + -(-taps // CHANNELS) * CHANNELS
    return places * 8 + vectors * CHANNELS * itemsize


def _extent(dim: tuple[int, ...]) -> int:
    """Places that windows see, and those of the image."""
    size, windows, taps, stride, dilation, before = dim
    reach = (windows - 1) * stride + (taps - 1) * dilation + 1 - before
    return most(before, 0) + most(size, reach)


def generate_alone_slopes(b: Builder, taps: tuple[int, int], beside: bool, dtype: DType) -> None:
    """Writes the kernel of windows of so many places, neighbours in a line if `beside`."""
    _AloneSlopes(b, taps, beside, dtype).emit()


class _AloneSlopes:
    def __init__(self, b: Builder, taps: tuple[int, int], beside: bool, dtype: DType) -> None:
        self.b, self.taps, self.beside, self.lanes = b, taps, beside, b.lanes
        self.element = memory_element(dtype)
        self.kind, self.size = b.vector(self.element), bytes_of(self.element)
        args, self.begin, self.end, ctx = b.params
        self.result, self.gradients, self.images = [
            b.load("ptr", b.gep(args, "i64", slot)) for slot in (1, 2, 3)
        ]
        self.parts, self.each, self.channels, *told = [
            b.load("i64", b.gep(args, "i64", slot)) for slot in range(4, 7 + 2 * len(Dim._fields))
        ]
        self.down, self.along = Dim(*told[: len(Dim._fields)]), Dim(*told[len(Dim._fields) :])
        self.places = b.mul(self.down.size, self.along.size)
        self.windows = b.mul(self.down.windows, self.along.windows)
        self.groups = b.udiv(b.add(self.channels, CHANNELS - 1), CHANNELS)
        lines, self.pitch = [
            self._extent(*x) for x in zip((self.down, self.along), taps, strict=True)
        ]
        self.around = b.mul(lines, self.pitch)
        self.table = b.load("ptr", b.gep(ctx, "i64", 3))
        self.region = b.gep(self.table, "i64", self._whole(self.places))
        self.turned = self._vector(self.region, b.add(self.around, 1))
        self.totals = self._vector(self.turned, self._whole(self.windows))

    def _extent(self, dim: Dim, taps: int) -> Value:
        """See the function of this name."""
        b = self.b
        reach = b.mul(b.sub(dim.windows, 1), dim.stride)
        reach = b.sub(b.add(b.add(reach, b.mul(dim.dilation, taps - 1)), 1), dim.before)
        return b.add(b.smax(dim.before, 0), b.smax(dim.size, reach))

    def _whole(self, count: Value) -> Value:
        """As many in whole vectors."""
        return self.b.and_(self.b.add(count, self.lanes - 1), -self.lanes)

    def _vector(self, base: Value, number: Operand) -> Value:
        """The address so many vectors away."""
        return self.b.gep(
            base, "i8", self.b.mul(self.b.const("i64", self.lanes * self.size), number)
        )

    def emit(self) -> None:
        """All items."""
        b = self.b
        self._note_places()
        with b.loop(0, b.add(self.around, 1)) as place:
            b.store(b.const(self.kind, 0), self._vector(self.region, place.index))
        with b.loop(self.begin, self.end) as item:
            part = b.udiv(item.index, self.groups)
            first = b.mul(b.urem(item.index, self.groups), CHANNELS)
            end = b.smin(b.add(first, CHANNELS), self.channels)
            with b.loop(first, end, self.lanes) as channel:
                self.channel = channel.index
                self._vector_of_channels(part)

    def _vector_of_channels(self, part: Value) -> None:
        b = self.b
        for tap in range(self.taps[0] * self.taps[1]):
            b.store(b.const(self.kind, 0), self._vector(self.totals, tap))
        first = b.mul(part, self.each)
        with b.loop(first, b.add(first, self.each)) as image:
            self._bring(image.index)
            with b.loop(0, self.down.windows, self._lines()) as line:
                self._block(line.index)
        self._hand_out(part)

    def _lines(self) -> Value:
        """Lines of windows of a block."""
        b = self.b
        return b.smax(b.udiv(b.const("i64", BLOCK), b.smax(self.along.windows, 1)), 1)

    def _note_places(self) -> None:
        """Where each place of an image goes; what the last vector has behind them goes to a place
        that nobody reads."""
        b = self.b
        before = [b.smax(dim.before, 0) for dim in (self.down, self.along)]
        with b.loop(0, self._whole(self.places)) as place:
            line, column = [
                b.add(x, first)
                for x, first in zip(
                    (b.udiv(place.index, self.along.size), b.urem(place.index, self.along.size)),
                    before,
                    strict=True,
                )
            ]
            there = b.icmp("slt", place.index, self.places)
            at = b.select(there, b.add(b.mul(line, self.pitch), column), self.around)
            b.store(b.mul(at, self.lanes * self.size), b.gep(self.table, "i64", place.index))

    # --------------------------------------------------------------------------- what is brought

    def _bring(self, image: Value) -> None:
        """An image and its gradients, turned."""
        b = self.b

        def placed(place: Value) -> Value:
            return b.gep(self.region, "i8", b.load("i64", b.gep(self.table, "i64", place)))

        self._turn(self.images, self.places, image, placed)
        self._turn(
            self.gradients, self.windows, image, lambda place: self._vector(self.turned, place)
        )

    def _turn(self, base: Value, count: Value, image: Value, out: Callable[[Value], Value]) -> None:
        """So many elements of each channel; the last one stands for those that are not there."""
        b = self.b
        last = b.sub(self.channels, 1)
        first = b.mul(image, self.channels)
        numbers = [b.smin(b.add(self.channel, i), last) for i in range(self.lanes)]
        lines = [
            b.gep(base, self.element, b.mul(b.add(first, number), count)) for number in numbers
        ]
        with b.loop(0, count, self.lanes) as place:
            mask = b.lane_mask(b.sub(count, place.index))
            square = [b.load(self.kind, b.gep(x, self.element, place.index), mask) for x in lines]
            for i, x in enumerate(turned_square(b, square)):
                b.store(x, out(b.add(place.index, i)))

    # ------------------------------------------------------------------------------ multiplying

    def _block(self, first: Value) -> None:
        """Some lines of windows, with as many lines of places at a time as there are registers."""
        b, (lines, places) = self.b, self.taps
        last = b.smin(b.add(first, self._lines()), self.down.windows)
        fit = b.vectors * 4 // self.size - 4
        parts = -(-lines // max(1, fit // places))
        low = 0
        for part in range(parts):
            high = low + -(-(lines - low) // (parts - part))
            self._lines_of_places(first, last, range(low, high))
            low = high

    def _lines_of_places(self, first: Value, last: Value, lines: range) -> None:
        b, along = self.b, self.along
        taps = [(k, j) for k in lines for j in range(self.taps[1])]
        line = b.sub(b.mul(first, self.down.stride), self.down.before)
        line = b.add(line, b.smax(self.down.before, 0))
        start = b.sub(b.smax(along.before, 0), along.before)
        step = b.mul(self.down.stride, self.pitch)
        apart = [b.mul(b.mul(self.down.dilation, k), self.pitch) for k in lines]
        zeros = [b.const(self.kind, 0)] * len(taps)
        begin = self._vector(self.region, b.add(b.mul(line, self.pitch), start))
        gradient = self._vector(self.turned, b.mul(first, along.windows))
        with b.loop(first, last, 1, [begin, gradient, *zeros]) as down:
            with b.loop(0, along.windows, 1, down.carried) as window:
                at, gradient, *sums = window.carried
                y = b.load(self.kind, gradient)
                for number, (k, j) in enumerate(taps):
                    place = self._vector(at, apart[k - lines.start])
                    place = self._vector(place, j if self.beside else b.mul(along.dilation, j))
                    sums[number] = b.fma(b.load(self.kind, place), y, sums[number])
                window.update(self._vector(at, along.stride), self._vector(gradient, 1), *sums)
            down.update(self._vector(down.carried[0], step), *window.results[1:])
        for (k, j), total in zip(taps, down.results[2:], strict=True):
            at = self._vector(self.totals, k * self.taps[1] + j)
            b.store(b.fadd(b.load(self.kind, at), total), at)

    def _hand_out(self, part: Value) -> None:
        """Sums, turned again: a line of places per channel."""
        b, count = self.b, self.taps[0] * self.taps[1]
        for first in range(0, count, self.lanes):
            square = [
                b.load(self.kind, self._vector(self.totals, first + i)) for i in range(self.lanes)
            ]
            for i, x in enumerate(turned_square(b, square)):
                channel = b.add(self.channel, i)
                line = b.mul(b.add(b.mul(part, self.channels), channel), count)
                place = b.gep(self.result, self.element, b.add(line, first))
                left = b.const("i64", min(count - first, self.lanes))
                left = b.select(b.icmp("slt", channel, self.channels), left, 0)
                b.store(x, place, b.lane_mask(left))
