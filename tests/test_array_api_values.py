"""Where functions of the array API differ from PyTorch's of the same name, by value."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
from livegrad import array_api as xp

INF, NAN = float("inf"), float("nan")


def same(got: lg.Tensor, wanted: list[complex]) -> None:
    """Equal, NaN and the signs of zeros too; imaginary parts as well."""
    have, want = np.asarray(got.detach()), np.array(wanted)
    for part in (np.real, np.imag):
        np.testing.assert_array_equal(part(have), part(want))
        numbers = ~np.isnan(part(want))
        np.testing.assert_array_equal(
            np.signbit(part(have))[numbers], np.signbit(part(want))[numbers]
        )


def test_floor_divide_by_and_of_infinities() -> None:
    a = xp.asarray([INF, INF, -INF, 1.0, -1.0, 7.0, INF])
    b = xp.asarray([2.0, -2.0, 2.0, -INF, INF, -2.0, INF])
    same(xp.floor_divide(a, b), [INF, -INF, -INF, -0.0, -0.0, -4.0, NAN])


def test_floor_divide_has_no_slope() -> None:
    a = lg.tensor([1.0, INF, 5.0], requires_grad=True)
    loss = xp.sum(xp.floor_divide(a, lg.tensor([2.0, 2.0, -INF])))
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide"):
        loss.backward()


def test_expm1_of_complex_infinities_and_zeros() -> None:
    x = [complex(-0.0, 0.0), complex(INF, 0.0), complex(-INF, INF), complex(NAN, 0.0)]
    y = xp.expm1(xp.asarray(x, dtype=xp.complex128))
    same(y, [0j, complex(INF, 0.0), -1 + 0j, complex(NAN, 0.0)])


def test_tanh_of_complex_infinities() -> None:
    x = [complex(INF, 2.0), complex(INF, -2.0), complex(-INF, 2.0)]
    same(xp.tanh(xp.asarray(x, dtype=xp.complex128)), [1 + 0j, complex(1, -0.0), -1 + 0j])


@pytest.mark.parametrize("function", [xp.max, xp.min, xp.sum, xp.count_nonzero, xp.prod])
def test_no_axes_fold_nothing(function) -> None:
    assert function(xp.asarray([[1, 1], [1, 1]]), axis=()).tolist() == [[1, 1], [1, 1]]


def test_vector_norm_over_no_axes() -> None:
    assert xp.linalg.vector_norm(xp.asarray([-3.0, 2.0]), axis=()).tolist() == [3.0, 2.0]


def test_linspace_without_its_end_is_the_longer_one_cut() -> None:
    whole = xp.linspace(0.0, 1.0, 19)[:-1]
    assert xp.linspace(0.0, 1.0, 18, endpoint=False).tolist() == whole.tolist()
    assert xp.linspace(0, 1j, 3, dtype=xp.complex128).tolist() == [0j, 0.5j, 1j]
    with pytest.raises(RuntimeError, match="non-negative"):
        xp.linspace(0, 1, -1, endpoint=False)


@pytest.mark.parametrize("dtype", [xp.int8, xp.uint16, xp.int64])
def test_repeats_of_any_integer_type(dtype: lg.dtype) -> None:
    repeats = xp.asarray([2, 0, 1], dtype=dtype)
    assert xp.repeat(xp.asarray([5, 6, 7]), repeats).tolist() == [5, 5, 7]


def test_from_dlpack_copies_when_told() -> None:
    x = xp.asarray([1, 2])
    assert xp.from_dlpack(x, copy=False) is x
    copied = xp.from_dlpack(x, copy=True)
    copied += 1
    assert x.tolist() == [1, 2]
    with pytest.raises(BufferError, match="always copied"):
        xp.from_dlpack(np.arange(3), copy=False)


def test_functions_promote_arrays_without_dims_too() -> None:
    scalar, vector = xp.asarray(256, dtype=xp.int16), xp.asarray([1], dtype=xp.int8)
    assert xp.add(scalar, vector).dtype is xp.int16
    assert xp.greater(scalar, vector).tolist() == [True]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_counts_negative_indices_from_the_end(axis: int) -> None:
    x, at = np.arange(12.0).reshape(3, 4), np.array([-1, 0, -3])
    got = xp.take(xp.asarray(x), xp.asarray(at), axis=axis)
    np.testing.assert_array_equal(np.asarray(got), np.take(x, at, axis=axis))
    assert xp.take(xp.arange(3), xp.asarray([-1])).tolist() == [2]
    for wrong in (-4, 4):
        with pytest.raises(IndexError):
            np.asarray(xp.take(xp.arange(3), xp.asarray([wrong])))
    with pytest.raises(IndexError, match="axis 2"):
        xp.take(xp.asarray(x), xp.asarray(at), axis=2)
