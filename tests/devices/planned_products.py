"""Products of plans, with NumPy: what tests/devices/planned.py reads from an argument block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from livegrad.compiler.windows import ALL_DIMS, EACH_DIM
from livegrad.dtypes import DType
from livegrad.ops.windows.window_products import Lie, seen
from livegrad.runtime.values import to_compute

Array = np.ndarray[Any, Any]
Place = tuple[int, tuple[int, ...]]


class Product:
    """Sums (…outer, rows, columns) of a product whose operands' places are known."""

    def __init__(
        self,
        memory: Any,
        dtype: DType,
        shape: tuple[int, ...],
        told: list[int],
        places: list[Place],
        quads: str = "",
    ) -> None:
        self.quads = quads
        self.memory, self.dtype, self.shape = memory, dtype, shape
        *self.outer, self.rows, self.columns = shape
        _, self.terms, self.left_term, self.right_term, *_ = told
        (self.left, (*self.lefts, self.row_step, _)), (self.right, (*self.rights, _, step)) = places
        self.column_step = step

    def plain(self) -> Array:
        view, outer, terms = self.memory.view, self.outer, self.terms
        strides = (*self.lefts, self.row_step, self.left_term)
        a = view(self.left, self.dtype, (*outer, self.rows, terms), strides)
        strides = (*self.rights, self.right_term, self.column_step)
        return self._times(a, view(self.right, self.dtype, (*outer, terms, self.columns), strides))

    def _times(self, a: Array, b: Array) -> Array:
        if not self.quads:
            return np.asarray(to_compute(a, self.dtype) @ to_compute(b, self.dtype))
        kinds = (np.uint8, np.int8) if self.quads == "left" else (np.int8, np.uint8)
        left, right = [
            np.ascontiguousarray(x)[..., None].view(kind).astype(np.int64)
            for x, kind in zip((a, b), kinds, strict=True)
        ]
        return np.asarray(np.einsum("...mkj,...knj->...mn", left, right).astype(np.int32))

    def conv(self, geometry: list[int]) -> Array:
        def each(left: int, right: int) -> Array:
            shape, strides = (self.rows, self.terms), (self.row_step, self.dtype.itemsize)
            weights: Array = self.memory.view(left, self.dtype, shape, strides)
            return self._times(weights, self._windows(right, geometry, 1)[0])

        return self._all(each)

    def alone(self, geometry: list[int]) -> Array:
        """Each row has a channel of its own."""

        def each(left: int, right: int) -> Array:
            shape, strides = (self.rows, self.terms), (self.row_step, self.dtype.itemsize)
            weights: Array = self.memory.view(left, self.dtype, shape, strides)
            windows = self._windows(right, geometry, 1).reshape(self.rows, self.terms, -1)
            return np.asarray(np.einsum("rk,rkp->rp", weights, windows))

        return self._all(each)

    def slopes(self, geometry: list[int]) -> Array:
        def each(left: int, right: int) -> Array:
            counts = geometry[len(ALL_DIMS) + 2 :: len(EACH_DIM)]
            images = self._windows(left, geometry, self.terms // prod(counts))
            shape = (self.columns, len(images), prod(counts))
            strides = (self.column_step, geometry[3], self.dtype.itemsize)
            g = self.memory.view(right, self.dtype, shape, strides)
            return np.asarray(np.einsum("nkp,onp->ko", images, g))

        return self._all(each)

    def _all(self, each: Callable[[int, int], Array]) -> Array:
        found = np.zeros(self.shape, self.dtype.storage)
        for index, left, right in self._places():
            found[index] = each(left, right)
        return found

    def _places(self) -> Iterator[tuple[tuple[int, ...], int, int]]:
        for index in np.ndindex(*self.outer):
            pairs = ((self.left, self.lefts), (self.right, self.rights))
            left, right = [base + int(np.dot(index, steps)) for base, steps in pairs]
            yield index, left, right

    def _windows(self, base: int, geometry: list[int], images: int) -> Array:
        """(images, channels and places, windows)."""
        channels, image_step, channel_step, _ = geometry[: len(ALL_DIMS)]
        told, width = geometry[len(ALL_DIMS) :], len(EACH_DIM)
        dims = [told[i : i + width] for i in range(0, len(told), width)]
        sizes, steps, counts, taps, stride, dilation, before = zip(*dims, strict=True)
        strides = (image_step, 0, channel_step, *steps)
        x = self.memory.view(base, self.dtype, (images, 1, channels, *sizes), strides)
        found = seen(x, Lie(stride, before, dilation), taps, counts)
        return found.reshape(images, channels * prod(taps), prod(counts))
