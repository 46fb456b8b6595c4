"""Keys of ints, slices and one `...`, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import livegrad as lg
from livegrad.ops.picking.plain_keys import parse_plainly

bounds = st.none() | st.integers(-7, 7)
parts = st.integers(-4, 4) | st.builds(slice, bounds, bounds, st.sampled_from([None, None, 1, 2]))
few = st.lists(parts, max_size=3).map(tuple)
dotted = st.tuples(few, few).map(lambda both: (*both[0], ..., *both[1]))
shapes = st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=3).map(tuple)


@given(shapes, parts | few | dotted)
def test_views_are_those_of_numpy(shape, key):
    values = np.arange(np.prod(shape), dtype="f").reshape(shape)
    x = lg.tensor(values)
    try:
        wanted = values[key]
    except IndexError:
        with pytest.raises(IndexError):
            x[key]
    else:
        assert x[key].shape == wanted.shape
        np.testing.assert_array_equal(x[key].numpy(), wanted)


@given(shapes, parts | few | dotted)
def test_what_is_written_is_what_numpy_writes(shape, key):
    wanted = np.zeros(shape, "f")
    x = lg.tensor(wanted)
    try:
        wanted[key] += 1
        wanted[key] = wanted[key] * 3
    except IndexError:
        return
    x[key] += 1
    x[key] = x[key] * 3
    np.testing.assert_array_equal(x.numpy(), wanted)


OTHERS = [True, None, [0], (0, None), slice(0, 2, 1), slice("a", 2)]
OTHERS += [(..., ...), (..., 0, 0, 0), (0, 0, ..., 0), (..., None)]


@pytest.mark.parametrize("key", OTHERS)
def test_other_keys_are_left_to_others(key):
    assert parse_plainly((3, 4), key) is None


def test_an_index_that_stands_for_an_int_is_a_bound():
    x = lg.arange(5)
    assert x[lg.tensor(1) : np.int64(3)].tolist() == [1, 2]


@pytest.mark.parametrize("key", [(..., 1), (..., slice(2)), (0, ...), ..., (0, ..., 1)])
def test_dots_are_on_the_short_way(key):
    parsed = parse_plainly((3, 4), key)
    assert parsed is not None
    assert parsed.shape == np.zeros((3, 4))[key].shape
