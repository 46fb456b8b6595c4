"""Runs what multiplies on operands between pages that nobody may touch.

A process of its own, since a read or write out of bounds ends it: tests/compiler/test_products.py
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.compiler.few_rows import generate_product
from livegrad.compiler.products import BLOCK, JOB, room_for, summed_as
from livegrad.dtypes import DType
from tests.compiler.guarded import Pages, kernel, run

SIZES = [1, 2, 3, 4, 5, 8, 13, 14, 15, 16, 17, 28, 31, 32, 33, 47, 64, 65]
WIDE = [511, 512, 530]  # columns that a few rows read line by line
# With 1024 terms, the rows of a tile would meet in the first cache.
TERMS = [0, 1, 2, 15, 16, 17, 100, 255, 256, 257, 511, 512, 513, 600, 1024, 2321]

Array = np.ndarray[Any, Any]


def multiplied(pages: Pages, left: Array, right: Array, ways: tuple[str, str]) -> Array:
    """left @ right.T: what a job of all rows and columns gives, operands lying as `ways` says.

    Some rows are a job of their own if columns need not be brought together again for them.
    """
    rows, terms = left.shape
    columns, dtype = len(right), left.dtype
    wide = np.dtype(summed_as(_named(dtype)).name)
    told = dict.fromkeys(JOB, 0) | {"rows": rows, "terms": terms, "columns": columns}
    size = dtype.itemsize
    for name, x, way in zip(("left", "right"), (left, right), ways, strict=True):
        own, gap = x if way == "terms" else x.T, random.Random(terms).randrange(3)
        padded = np.zeros((own.shape[0], own.shape[1] + gap), dtype)
        padded[:, : own.shape[1]] = own
        trimmed = padded.ravel()[: padded.size - gap]  # nothing lies behind the last row
        line = padded.shape[1] * size
        told[name] = pages.address(np.ascontiguousarray(trimmed))
        told[f"{name} step"], told[f"{name} term"] = (
            (line, size) if way == "terms" else (size, line)
        )
    told["line"] = -(-columns // 32) * 32
    sums = np.full((rows, told["line"]), 77, wide)
    told["sums"] = pages.address(sums)
    told["room"] = pages.address(np.full(room_for(0, columns), 55, wide))
    code = kernel(generate_product, *ways, _named(dtype))
    cut = random.Random(rows).randrange(5, rows) if rows > 5 and terms <= BLOCK else rows
    first = told | {"rows": cut}
    run(code, [first[name] for name in JOB])
    if cut < rows:
        told |= {"rows": rows - cut, "brought": 1}
        told["left"] += cut * told["left step"]
        told["sums"] += cut * told["line"] * wide.itemsize
        run(code, [told[name] for name in JOB])
        told["sums"] -= cut * told["line"] * wide.itemsize
    return pages.read(told["sums"], sums)[:, :columns]


def _named(dtype: Any) -> DType:
    return dtypes.by_name(str(dtype))


def run_product(chance: random.Random, pages: Pages) -> None:
    """A random product, against float64; a row of it alone has the same bits."""
    rows, columns, terms = chance.choice(SIZES), chance.choice(SIZES), chance.choice(TERMS)
    if rows <= 4 and chance.random() < 0.3:
        columns = chance.choice(WIDE)
    ways = chance.choice(["terms", "lines"]), chance.choice(["terms", "lines"])
    dtype = np.dtype(chance.choice(["float16", "float32", "float64", "int32", "int64"]))
    rng = np.random.default_rng(chance.randrange(1 << 30))
    left, right = [
        (rng.standard_normal((count, terms)) * (1 if dtype.kind == "f" else 9)).astype(dtype)
        for count in (rows, columns)
    ]
    found = multiplied(pages, left, right, ways)
    if dtype.kind == "i":
        np.testing.assert_array_equal(found, left @ right.T)
    else:
        exact = left.astype(np.longdouble) @ right.T.astype(np.longdouble)
        scale = np.abs(left).astype(np.longdouble) @ np.abs(right.T)
        # Each term takes part in as many roundings as there are terms in a block, and blocks.
        bound = (min(terms, 256) + terms // 256 + 1) * np.finfo(found.dtype).eps / 2 * scale
        assert (np.abs(found - exact) <= bound).all()
    row, column = chance.randrange(rows), chance.randrange(columns)
    others = chance.choice(["terms", "lines"]), chance.choice(["terms", "lines"])
    alone = multiplied(pages, left[row : row + 1], right[column : column + 1], others)
    assert alone.tobytes() == found[row, column].tobytes()
    some = multiplied(pages, left[row:], right[column:], others)
    assert some.tobytes() == found[row:, column:].tobytes()


def main() -> None:
    chance = random.Random(0)
    pages = Pages(chance)
    for _ in range(500):
        run_product(chance, pages)
        pages.free()
    print("within bounds")


if __name__ == "__main__":
    main()
