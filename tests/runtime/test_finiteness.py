"""Looking at values for what is not finite, outside of plans."""

import numpy as np
import pytest

import livegrad as lg
from livegrad.runtime.cpu.looking import are_finite

SIZES = [0, 1, 3, 8, 15, 16, 17, 63, 64, 65, 255, 1000]


def value(x: lg.Tensor) -> tuple[object, object]:
    x.sum().item()
    return x._node.meta, x._node.buffer


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_one_among_values_of_all_sizes_is_found_wherever_it_is(dtype: str) -> None:
    random = np.random.default_rng(0)
    kind = getattr(lg, dtype)
    clean = [value(lg.tensor(random.normal(size=n), dtype=kind)) for n in SIZES]
    assert are_finite(clean)
    assert are_finite([])
    for wrong in (float("nan"), float("inf"), float("-inf")):
        for number, n in enumerate(SIZES):
            if n:
                array = random.normal(size=n)
                array[random.integers(n)] = wrong
                there = value(lg.tensor(array, dtype=kind))
                assert not are_finite([*clean[:number], there, *clean[number:]])


def test_the_largest_and_the_smallest_are_finite() -> None:
    info = lg.finfo(lg.float32)
    assert are_finite([value(lg.tensor([info.max, info.min, info.tiny, 0.0, -0.0] * 7))])


def test_values_are_looked_at_where_they_are() -> None:
    meta, buffer = value(lg.ones(100) * 2)
    are_finite([(meta, buffer)])
    assert not buffer.exported
