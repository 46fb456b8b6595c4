"""Runs products with windows on operands between pages that nobody may touch.

A process of its own, since a read or write out of bounds ends it: tests/compiler/test_products.py
"""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.compiler.alone_slopes import generate_alone_slopes, scratch_bytes
from livegrad.compiler.bind_products import _height, _places, _positions
from livegrad.compiler.channel_lanes import elements_for_lanes, generate_channel_lanes
from livegrad.compiler.channel_slopes import (
    bytes_for_windows,
    elements_for_channels,
    generate_channel_slopes,
)
from livegrad.compiler.describe import Windows
from livegrad.compiler.image_lanes import elements_for, generate_image_lanes
from livegrad.compiler.output_lanes import elements_for_outputs, generate_output_lanes
from livegrad.compiler.products import JOB, room_for
from livegrad.compiler.window_lanes import (
    bytes_for_lanes,
    elements_for_sums,
    generate_window_lanes,
)
from livegrad.compiler.windows import generate_conv, generate_slopes, room_for_notes
from livegrad.ops.windows.window_products import Lie, seen
from tests.compiler.guarded import Pages, kernel, run

Array = np.ndarray[Any, Any]


class Case:
    """Random images, windows and output channels."""

    def __init__(self, chance: random.Random) -> None:
        self.dtype = np.dtype(chance.choice(["float32", "float64"]))
        self.rank = rank = chance.choice([1, 2, 2, 2, 3])

        def drawn(*of: int) -> tuple[int, ...]:
            return tuple([chance.choice(of) for _ in range(rank)])

        self.taps = drawn(1, 2, 3, 5)
        self.lie = Lie(drawn(1, 1, 2, 3), drawn(0, 1, 2, -1), drawn(1, 1, 2))
        self.counts = (*drawn(1, 2, 4, 7)[1:], chance.choice([1, 4, 17, 35]))
        self.sizes = drawn(1, 3, 8, 40)
        self.images, self.channels = (
            chance.choice([1, 2, 5, 17, 32]),
            chance.choice([1, 3, 8, 15, 30]),
        )
        self.outputs = chance.choice([1, 2, 5, 14, 17, 33])
        self.rng = np.random.default_rng(chance.randrange(1 << 30))
        self.x = self.values(self.images, 1, self.channels, *self.sizes)
        self.weight = self.values(self.outputs, self.channels * prod(self.taps))
        self.g = self.values(self.images, self.outputs, prod(self.counts))
        found = seen(self.x, self.lie, self.taps, self.counts)
        self.columns = found.reshape(self.images, -1, prod(self.counts))

    def values(self, *shape: int) -> Array:
        return self.rng.standard_normal(shape).astype(self.dtype)

    def geometry(self) -> Array:
        size = self.dtype.itemsize
        image, _, channel, *steps = self.x.strides
        told = [self.channels, image, channel, self.outputs * prod(self.counts) * size]
        for i in range(self.rank):
            lie = [numbers[i] for numbers in (self.lie.stride, self.lie.dilation, self.lie.before)]
            told += [self.sizes[i], steps[i], self.counts[i], self.taps[i], *lie]
        return np.array(told, np.int64)

    def run(
        self, pages: Pages, generate: Any, told: dict[str, int], rows: int, columns: int
    ) -> Array:
        line = -(-columns // 32) * 32
        sums = np.full((rows, line), 77, self.dtype)
        room = room_for(0, columns) * self.dtype.itemsize + room_for_notes(self.rank)
        if generate is generate_channel_slopes:
            room += bytes_for_windows(self.rank)
            elements = elements_for_channels(rows // prod(self.taps) + 2, _places(self.seen()))
            room += elements * self.dtype.itemsize
        if generate is generate_image_lanes:
            room = self.room_for_lanes(rows, columns // self.images) * self.dtype.itemsize
        if generate is generate_channel_lanes:
            room = elements_for_lanes(columns, self.seen().dims) * self.dtype.itemsize
        kinds: list[Any] = [self.rank]
        if generate is generate_output_lanes:
            room = elements_for_outputs(rows, columns, self.seen()) * self.dtype.itemsize
            kinds.append(self.lie.stride[1])
        if generate is generate_window_lanes:
            lines, taps = prod(self.taps[:-1]), self.taps[-1]
            kinds.append(_height(taps))
            room = elements_for_sums(rows, columns) * self.dtype.itemsize
            room += bytes_for_lanes(self.rank, self.counts[-1], lines, taps)
        given = dict.fromkeys(JOB, 0) | told
        given |= {"rows": rows, "columns": columns, "line": line, "sums": pages.address(sums)}
        given["room"] = pages.address(np.full(room, 55, np.uint8))
        given["geometry"] = pages.address(self.geometry())
        named = dtypes.by_name(str(self.dtype))
        run(kernel(generate, *kinds, named), [given[name] for name in JOB])
        return pages.read(given["sums"], sums)[:, :columns]

    def seen(self) -> Windows:
        lie = zip(self.lie.stride, self.lie.dilation, self.lie.before, strict=True)
        dims = list(zip(self.sizes, self.counts, self.taps, strict=True))
        return Windows(False, self.channels, [(*d, *x) for d, x in zip(dims, lie, strict=True)])

    def room_for_lanes(self, rows: int, windows: int) -> int:
        positions = _positions(self.seen(), windows)
        return elements_for(rows, windows, positions, self.channels, prod(self.taps))

    def conv(self, pages: Pages) -> None:
        """All images at once; some windows of the first have the same bits, and some windows of
        all images, as lanes."""
        rows, terms = self.weight.shape
        size = self.dtype.itemsize
        told = {"left": pages.address(self.weight), "left step": terms * size, "left term": size}
        told |= {"right": pages.address(self.x), "terms": terms}
        wanted = np.concatenate(list(self.weight @ self.columns), 1)
        found = self.run(pages, generate_conv, told, rows, wanted.shape[1])
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        first, end = prod(self.counts) // 2, prod(self.counts)
        told["first column"] = first
        some = self.run(pages, generate_conv, told, rows, end - first)
        assert some.tobytes() == found[:, first:end].tobytes()
        if self.rank == 2 and self.lie.stride[1] < 3:
            outputs = self.run(pages, generate_output_lanes, told, rows, end - first)
            assert outputs.tobytes() == some.tobytes()
            told |= {"first column": 0, "images": self.images}
            outputs = self.run(pages, generate_output_lanes, told, *found.shape)
            assert outputs.tobytes() == found.tobytes()
            told["first column"] = first
        told["images"] = self.images
        lanes = self.run(pages, generate_image_lanes, told, rows, self.images * (end - first))
        wanted = found.reshape(rows, self.images, end)[:, :, first:]
        assert lanes.tobytes() == wanted.tobytes()

    def alone(self, pages: Pages) -> None:
        """Channels by themselves, of an image; the last lines of windows of the last channels
        have the same bits by themselves."""
        taps, size, lines = prod(self.taps), self.dtype.itemsize, self.counts[0]
        weight = np.ascontiguousarray(self.weight[0].reshape(self.channels, taps))
        told = {"left": pages.address(weight), "left step": taps * size, "left term": size}
        told |= {"right": pages.address(self.x), "terms": taps}
        columns = self.columns[0].reshape(self.channels, taps, prod(self.counts))
        wanted = np.zeros((self.channels, columns.shape[2]), self.dtype)
        for k in range(taps):
            wanted += weight[:, k, None] * columns[:, k]
        found = self.run(pages, generate_channel_lanes, told, *wanted.shape)
        np.testing.assert_array_equal(found, wanted)
        told["first row"], told["first column"] = self.channels // 2, lines // 2 * self.counts[1]
        told["left"] += self.channels // 2 * told["left step"]
        first, column = told["first row"], told["first column"]
        rest = self.channels - first, wanted.shape[1] - column
        some = self.run(pages, generate_channel_lanes, told, *rest)
        assert some.tobytes() == found[first:, column:].tobytes()

    def alone_slopes(self, pages: Pages) -> None:
        """Channels by themselves; a sum for each image if these are a few."""
        taps, windows, dims = prod(self.taps), prod(self.counts), self.seen().dims
        parts = self.images if self.images <= 5 else 1
        g, found = [
            self.values(n, self.channels, k) for n, k in ((self.images, windows), (parts, taps))
        ]
        given = [pages.address(x) for x in (found, g, self.x)]
        told = [-(-self.channels // 16) * parts, *given, parts, self.images // parts, self.channels]
        for size, count, _, *lie in dims:
            told += [size, count, *lie]
        room = np.full(scratch_bytes(dims, taps, self.dtype.itemsize), 55, np.uint8)
        named, beside = dtypes.by_name(str(self.dtype)), self.lie.dilation[1] == 1
        code = kernel(generate_alone_slopes, self.taps, beside, named)
        run(code, told, pages.address(room))
        columns = self.columns.reshape(parts, -1, self.channels, taps, windows)
        lines = g.reshape(parts, -1, self.channels, windows)
        wanted = np.einsum("pnckl,pncl->pck", columns, lines)
        np.testing.assert_allclose(pages.read(given[0], found), wanted, rtol=1e-4, atol=1e-4)

    def slopes(self, pages: Pages) -> None:
        """All rows; the last ones have the same bits by themselves."""
        size, windows = self.dtype.itemsize, prod(self.counts)
        told = {"left": pages.address(self.x), "right": pages.address(self.g)}
        told |= {"right step": windows * size, "right term": size}
        told["terms"] = self.images * windows
        wanted = np.einsum("nkp,nop->ko", self.columns, self.g)
        found = self.run(pages, generate_slopes, told, *wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        told["first row"] = first = len(wanted) // 2
        some = self.run(pages, generate_slopes, told, len(wanted) - first, wanted.shape[1])
        assert some.tobytes() == found[first:].tobytes()
        rows = len(wanted) - first
        channels = self.run(pages, generate_channel_slopes, told, rows, wanted.shape[1])
        assert channels.tobytes() == some.tobytes()
        if self.lie.stride[-1] == 1:
            self.window_lanes(pages, told, wanted)

    def window_lanes(self, pages: Pages, told: dict[str, int], wanted: Array) -> None:
        """All rows; the last lines and columns have the same bits by themselves."""
        rows, columns = wanted.shape
        told["first row"] = 0
        found = self.run(pages, generate_window_lanes, told, rows, columns)
        scale = np.einsum("nkp,nop->ko", np.abs(self.columns), np.abs(self.g))
        # A lane's block, its blocks, and lanes by halves.
        steps = self.images * prod(self.counts[:-1]) * -(-self.counts[-1] // 16)
        bound = (min(steps, 64) + steps // 64 + 6) * np.finfo(self.dtype).eps / 2 * scale
        exact = np.einsum(
            "nkp,nop->ko", self.columns.astype(np.longdouble), self.g.astype(np.longdouble)
        )
        assert (np.abs(found - exact) <= bound).all()
        told["first row"] = first = rows // self.taps[-1] // 2 * self.taps[-1]
        other = columns // 2
        told["right"] += other * told["right step"]
        some = self.run(pages, generate_window_lanes, told, rows - first, columns - other)
        assert some.tobytes() == found[first:, other:].tobytes()


def main() -> None:
    chance = random.Random(0)
    pages = Pages(chance)
    for _ in range(200):
        case = Case(chance)
        case.conv(pages)
        case.slopes(pages)
        if case.rank == 2:
            case.alone(pages)
            case.alone_slopes(pages)
        pages.free()
    print("within bounds")


if __name__ == "__main__":
    main()
