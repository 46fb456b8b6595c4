"""What tensors say about themselves."""

from __future__ import annotations

import ctypes

import pytest

import livegrad as lg


def test_answers_that_are_the_same_for_all() -> None:
    x = lg.zeros(2, 3)
    assert x.is_cpu
    assert not any([x.is_cuda, x.is_meta, x.is_sparse, x.is_quantized, x.is_pinned()])
    assert x.layout is lg.strided
    assert x.dim_order() == (0, 1)
    assert x.pin_memory() is x
    assert x.to_dense() is x
    assert x.to_dense(lg.float64).dtype is lg.float64


def test_data_ptr_is_where_the_values_are() -> None:
    x = lg.tensor([1.0, 2.0]) * 3
    values = (ctypes.c_float * 2).from_address(x.data_ptr())
    assert list(values) == [3.0, 6.0]
    assert lg.zeros(0).data_ptr() == 0


def test_is_nonzero() -> None:
    assert lg.tensor([2]).is_nonzero()
    assert not lg.tensor(0.0).is_nonzero()
    with pytest.raises(RuntimeError, match="ambiguous"):
        lg.zeros(2).is_nonzero()


def test_same_size() -> None:
    x = lg.zeros(2, 3)
    assert x.is_same_size(lg.ones(2, 3))
    assert not x.is_same_size(lg.ones(3, 2))


def test_python_functions_on_elements() -> None:
    x = lg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.apply_(lambda v: v * v).tolist() == [[1, 4], [9, 16]]
    assert x.map_(lg.tensor([1.0, 2.0]), lambda a, b: a - b).tolist() == [[0, 2], [8, 14]]
    assert x.map2_(x, x, lambda a, b, c: a + b + c).tolist() == [[0, 6], [24, 42]]
    assert lg.zeros(0).apply_(abs).shape == (0,)
    with pytest.raises(RuntimeError, match=r"apply_\(\) on Variable that requires grad"):
        lg.zeros(1, requires_grad=True).apply_(abs)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("FloatTensor", lg.float32), ("LongTensor", lg.int64), ("BoolTensor", lg.bool)],
)
def test_types_by_dtype(name: str, dtype: lg.dtype) -> None:
    kind = getattr(lg, name)
    assert kind([1, 0]).dtype is dtype
    assert kind([1, 0]).tolist() == [1, 0]
    assert kind(2, 3).shape == (2, 3)
    assert kind().shape == (0,)
    assert isinstance(lg.zeros(1, dtype=dtype), kind)
    assert not isinstance(lg.zeros(1, dtype=lg.float16), kind)
    assert not isinstance([1], kind)
    assert repr(kind) == f"livegrad.{name}"
    assert lg.zeros(2).type(kind).dtype is dtype
