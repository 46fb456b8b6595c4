"""Random choices made at once, without recording: samplers draw while a graph may be pending.

The numbers are those of `livegrad.randperm` and `livegrad.randint` with the same generator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad.ops.making.philox import philox
from livegrad.random import Generator, default_generator

Array = np.ndarray[Any, Any]


def _words(count: int, generator: Generator | None) -> tuple[Array, Array]:
    """The next `count` draws: two 32-bit words each."""
    source = default_generator if generator is None else generator
    seed, offset = source.draw(count)
    return philox(seed, np.arange(count) + offset)[:2]


def permutation(count: int, generator: Generator | None) -> Array:
    """0 … count-1 in random order."""
    high, low = _words(count, generator)
    return np.argsort((high << np.uint64(32)) | low, kind="stable")


def integers(bound: int, count: int, generator: Generator | None) -> Array:
    """`count` integers from 0 up to, and without, `bound`."""
    low, high = _words(count, generator)
    if bound <= 1 << 32:
        drawn: Array = (low * np.uint64(bound)) >> np.uint64(32)
    else:
        drawn = ((low | (high << np.uint64(32))) >> np.uint64(1)) % np.uint64(bound)
    return drawn.astype(np.int64)


def draw_seed(generator: Generator | None) -> int:
    """A seed of 63 bits."""
    low, high = _words(1, generator)
    return int(low[0] | (high[0] << np.uint64(32))) >> 1


def own_generator(generator: Generator | None) -> Generator:
    """`generator`, or one of one's own whose seed the default generator gives."""
    return Generator().manual_seed(draw_seed(None)) if generator is None else generator
