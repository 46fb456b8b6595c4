"""Strides: what is dense, what overlaps, what a view can show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from livegrad.graph import layout
from livegrad.graph.geometry import places, rounds_of

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(shapes)
def test_contiguous_strides_are_numpys(shape: tuple[int, ...]) -> None:
    strides = layout.contiguous_strides(shape)
    if 0 not in shape:
        assert strides == tuple([s // 8 for s in np.zeros(shape).strides])
    assert layout.is_contiguous(shape, strides)
    assert layout.is_dense(shape, strides)
    assert not layout.may_overlap(shape, strides)


@given(shapes, st.data())
def test_views_show_what_numpy_shows_without_copying(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    base = np.arange(int(np.prod(shape))).reshape(shape).transpose(order)
    steps = tuple([s // base.itemsize for s in base.strides])
    count = base.size
    wanted = data.draw(st.sampled_from([(count,), (1, count), (count, 1), base.shape[::-1]]))
    found = layout.viewed_strides(base.shape, steps, wanted)
    copies = not np.shares_memory(base.reshape(wanted), base)
    if count:
        assert (found is None) == copies
    if found is not None and count:
        assert (places(wanted, found, 0) == base.reshape(wanted)).all()


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=3))
def test_overlap(dims: list[tuple[int, int]]) -> None:
    shape, strides = zip(*dims, strict=True)
    grid = places(shape, strides, 0)
    if len(np.unique(grid)) < grid.size:
        assert layout.may_overlap(shape, strides)
    if layout.is_dense(shape, strides):
        assert sorted(grid.reshape(-1)) == list(range(grid.size))
    rounds = rounds_of(grid, [strides])
    for elements, at in rounds:
        assert len(np.unique(at)) == len(at)
        assert (grid.reshape(-1)[elements] == at).all()
    assert sorted([e for elements, _ in rounds for e in elements]) == list(range(grid.size))


@pytest.mark.parametrize(
    ("shape", "operands", "strides"),
    [
        ((2, 3), [((2, 3), (1, 2))], (1, 2)),
        ((2, 3), [((2, 3), (6, 2))], (3, 1)),
        ((2, 3), [((2, 3), (3, 1)), ((2, 3), (1, 2))], (3, 1)),
        ((2, 3), [((3,), (1,)), ((2, 3), (1, 2))], (1, 2)),
        ((2, 3, 4, 5), [((2, 3, 4, 5), (60, 1, 15, 3))], (60, 1, 15, 3)),
        ((4, 1), [((4, 1), (1, 4))], (1, 1)),
    ],
)
def test_results(
    shape: tuple[int, ...],
    operands: list[tuple[tuple[int, ...], tuple[int, ...]]],
    strides: tuple[int, ...],
) -> None:
    assert layout.elementwise_strides(shape, operands) == strides
