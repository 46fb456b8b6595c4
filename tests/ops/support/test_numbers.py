"""Numbers written to tensors: converted as PyTorch converts them, or refused."""

from __future__ import annotations

import math

import pytest

import livegrad as lg

MASK = [True, False]


def written(dtype, value):
    """Every way to put one number into a tensor of `dtype`; the number as it is there."""
    x = lg.zeros(2, dtype=dtype)
    yield lambda: lg.full((2,), value, dtype=dtype)[0]
    yield lambda: lg.full_like(x, value)[0]
    yield lambda: x.new_full((2,), value)[0]
    yield lambda: x.clone().fill_(value)[0]
    yield lambda: x.masked_fill(lg.tensor(MASK), value)[0]
    yield lambda: x.index_fill(0, lg.tensor([0]), value)[0]
    yield lambda: x.scatter(0, lg.tensor([0]), value)[0]
    yield lambda: lg.nn.functional.pad(x, (1, 0), value=value)[0]
    yield lambda: put(x.clone(), 0, value)[0]
    yield lambda: put(x.clone(), lg.tensor([0]), value)[0]
    yield lambda: put(x.clone(), lg.tensor(MASK), value)[0]


def put(x, key, value):
    x[key] = value
    return x


@pytest.mark.parametrize(
    ("dtype", "value", "held"),
    [
        (lg.bool, 0.25, True),
        (lg.bool, -3, True),
        (lg.bool, math.nan, True),
        (lg.bool, 0.0, False),
        (lg.int32, 1.9, 1),
        (lg.int32, -1.9, -1),
        (lg.uint8, -1, 255),
        (lg.uint8, 254.9, 254),
        (lg.float16, math.inf, math.inf),
        (lg.float32, 3, 3.0),
    ],
)
def test_held(dtype, value, held):
    for way in written(dtype, value):
        assert way().item() == held


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (lg.uint8, 300),
        (lg.uint8, -256),
        (lg.uint8, -0.5),
        (lg.int8, 127.5),
        (lg.int32, 2**31),
        (lg.int64, math.nan),
        (lg.int64, math.inf),
        (lg.float16, 1e6),
        (lg.bfloat16, 1e39),
        (lg.float32, 1e39),
        (lg.float32, 1j),
    ],
)
def test_refused(dtype, value):
    for way in written(dtype, value):
        with pytest.raises(RuntimeError, match="cannot be converted to type .* without overflow"):
            way()


@pytest.mark.parametrize("data", [[300], 300, [-256], [[1, 400]], [255.5], [-0.5], [math.nan]])
def test_data_beyond_its_dtype(data):
    for make in (lg.tensor, lg.as_tensor, lg.asarray):
        with pytest.raises(RuntimeError, match="uint8 without overflow"):
            make(data, dtype=lg.uint8)
    assert lg.tensor([-1, 255], dtype=lg.uint8).tolist() == [255, 255]


def test_data_that_no_integer_holds():
    with pytest.raises(ValueError, match="long long"):
        lg.tensor([2**63])
    assert lg.tensor([2**63], dtype=lg.uint64).tolist() == [2**63]
    assert lg.full((1,), 2**63, dtype=lg.uint64).tolist() == [2**63]
    with pytest.raises(TypeError, match="complex"):
        lg.tensor([1j], dtype=lg.float32)


def test_bounds_beyond_their_dtype():
    x = lg.ones(2, dtype=lg.uint8)
    for call in (lambda: x.clamp(0, 300), lambda: x.clamp_max(300), lambda: x**300):
        with pytest.raises(RuntimeError, match="uint8_t without overflow"):
            call()
    assert x.clamp(0, 2.5).tolist() == [1.0, 1.0]


def test_a_failed_write_leaves_nothing_behind():
    x = lg.zeros(2, dtype=lg.uint8)
    with pytest.raises(RuntimeError):
        x[0] = 300
    with pytest.raises(RuntimeError):
        x.fill_(-300)
    assert x.tolist() == [0, 0]
