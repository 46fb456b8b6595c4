"""Names that few programs use, and what they do."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import jit, serialization


@pytest.mark.parametrize("value", [1, True, -0.5, float("nan"), [2.0]])
def test_assert_async_passes(value: object) -> None:
    assert lg._assert_async(lg.tensor(value)) is None


def test_assert_async_fails() -> None:
    with pytest.raises(RuntimeError, match="nonzero value, but got zero"):
        lg._assert_async(lg.tensor(0.0))
    with pytest.raises(RuntimeError, match="^of mine$"):
        lg._assert_async(lg.tensor(False), "of mine")
    with pytest.raises(RuntimeError, match="ambiguous"):
        lg._assert_async(lg.tensor([1, 0]))


@pytest.mark.parametrize("name", ["selu_", "celu_", "rrelu_"])
def test_activations_in_place(name: str) -> None:
    x = lg.tensor([-1.0, 2.0])
    expected = getattr(lg.nn.functional, name[:-1])(x)
    assert getattr(lg, name)(x) is x
    assert x.tolist() == expected.tolist()


def test_threshold_in_place() -> None:
    x = lg.tensor([-1.0, 2.0])
    assert lg.threshold_(x, 0.5, 9.0) is x
    assert x.tolist() == [9.0, 2.0]


def test_warnings_of_tracing_can_be_ignored() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", jit.TracerWarning)
        jit.TracerWarning.ignore_lib_warnings()
        traced = jit.trace(lg.nn.Linear(2, 1), lg.ones(1, 2))
    assert traced(lg.ones(1, 2)).shape == (1, 1)


def test_annotations_of_loading() -> None:
    def load(path: serialization.FileLike, to: serialization.MAP_LOCATION = None) -> None: ...

    assert isinstance("cpu", serialization.MAP_LOCATION.__args__[2])
    assert load is not None


def test_parts_and_sums_of_sizes_are_sizes() -> None:
    size = lg.ones(2, 3, 4).shape
    for found, expected in (
        (size[1:], (3, 4)),
        (size[::-1], (4, 3, 2)),
        (size[:0], ()),
        (size + (1,), (2, 3, 4, 1)),
        ((1,) + size, (1, 2, 3, 4)),
        (size + size[:1], (2, 3, 4, 2)),
        (size[:1] * 2, (2, 2)),
        (2 * size[:1], (2, 2)),
    ):
        assert type(found) is lg.Size
        assert found == expected
        assert hash(found) == hash(expected)
    assert size[1:].numel() == 12
    assert type(size[-1]) is int
    with pytest.raises(TypeError, match="can only concatenate tuple"):
        size + [1]
    with pytest.raises(TypeError):
        [1] + size
    with pytest.raises(IndexError):
        size[3]


def test_arrays_of_tensors_with_history_under_no_grad() -> None:
    x = lg.ones(2, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match="requires grad"):
        y.numpy()
    with lg.no_grad():
        assert y.numpy().tolist() == [2.0, 2.0]
        assert np.asarray(y).tolist() == [2.0, 2.0]
        x.numpy()[0] = 5.0
    assert x.tolist() == [5.0, 1.0]
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [10.0, 2.0]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "uint4", "int2"])
def test_types_that_tensors_cannot_have(name: str) -> None:
    """Programs name them, compare them, and keep tables of them."""
    dtype = getattr(lg, name)
    assert isinstance(dtype, lg.dtype)
    assert dtype is getattr(lg, name)
    assert dtype not in (lg.float32, lg.uint8)
    assert dtype.itemsize == 1
    assert dtype.is_floating_point == name.startswith("float")
    assert dtype.is_signed == (name != "uint4")
    assert repr(dtype) == f"livegrad.{name}"
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    for use in (
        lambda: lg.zeros(2, dtype=dtype),
        lambda: lg.ones(2).to(dtype),
        lambda: lg.ones(2).type(dtype),
        lambda: lg.tensor([1.0], dtype=dtype),
        lambda: lg.ones(2).sum(dtype=dtype),
    ):
        with pytest.raises(TypeError, match=f"no tensors of {name}"):
            use()
    assert not hasattr(lg, "int9")


def test_limits_of_floats_of_eight_bits() -> None:
    info = lg.finfo(lg.float8_e4m3fn)
    assert (info.bits, info.eps, info.max, info.min, info.tiny) == (8, 0.125, 448, -448, 2.0**-6)
    assert lg.finfo(lg.float8_e5m2).max == 57344.0
    with pytest.raises(TypeError):
        lg.finfo(lg.uint4)


@pytest.mark.parametrize(
    ("given", "mode", "expected", "dtype"),
    [
        ((7, 2), None, 3.5, lg.float32),
        ((7, 2), "trunc", 3, lg.int64),
        ((-7, 2), "floor", -4, lg.int64),
        ((7.5, 2), "trunc", 3.0, lg.float32),
        ((True, 2), None, 0.5, lg.float32),
    ],
)
def test_quotients_of_two_numbers(
    given: tuple[float, float], mode: Any, expected: float, dtype: Any
) -> None:
    out = lg.div(*given, rounding_mode=mode)
    assert (out.shape, out.dtype, out.item()) == ((), dtype, expected)
    assert lg.floor_divide(7, 2).item() == 3


def test_fans() -> None:
    weight = lg.empty(4, 3, 2)
    assert lg.nn.init._calculate_correct_fan(weight, "fan_in") == 6
    assert lg.nn.init._calculate_correct_fan(weight, "FAN_OUT") == 8
    with pytest.raises(ValueError, match="not supported"):
        lg.nn.init._calculate_correct_fan(weight, "fan")
