"""What tensors say about themselves."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import livegrad as lg
from livegrad.runtime import shared
from livegrad.runtime.memory import Buffer, copied


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


@pytest.mark.parametrize("made", [lambda: lg.ones(5, 5), lambda: lg.tensor([[1.0, 2.0]]) * 2])
def test_addresses_stay_while_operations_run_when_they_are_recorded(made: Any) -> None:
    for _ in range(60):  # after some of them what is little is run at once
        x = made()
        y, z = x.view(-1), x.detach()
        addresses = [t.untyped_storage().data_ptr() for t in (x, y, z, x)]
        addresses += [t.data_ptr() for t in (x, y, z, x, x[0])]
        assert len(set(addresses)) == 1
        assert x.clone().data_ptr() != x.data_ptr() == x.data_ptr()


def test_addresses_of_what_is_gone_are_not_told_for_older_tensors() -> None:
    for size in range(2, 40):
        x = lg.arange(3.0 * size).reshape(3, size)
        y = x.t()
        assert x.sum() >= 0
        assert y.flatten().data_ptr() != x.data_ptr() == y.data_ptr()


def test_to_tell_addresses_of_new_values_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []

    def counting(stored: Any) -> Buffer:
        copies.append(stored.nbytes)
        return copied(stored)

    monkeypatch.setattr(shared, "copied", counting)
    x = lg.rand(300, 500)
    for _ in range(40):  # each may lie where the one before was
        assert (x * 2).data_ptr()
    assert not copies

    y = x * 3
    assert (x * 2).data_ptr() != y.data_ptr()
    assert len(copies) <= 1


@pytest.mark.parametrize("shape", [(3, 5), (300, 500), (), (1,)])
def test_the_address_is_that_of_the_array(shape: tuple[int, ...]) -> None:
    x, y = lg.rand(shape), lg.rand(shape)
    assert x.data_ptr() == x.numpy().__array_interface__["data"][0]
    assert y.numpy().__array_interface__["data"][0] == y.data_ptr()

    address = x.data_ptr()
    shown = x.numpy()
    assert shown.__array_interface__["data"][0] == address == x.data_ptr()
    shown[...] = 2.0
    x += 1
    assert (shown == 3).all()
    assert (x == 3).all()


def test_an_array_at_a_known_address_does_not_write_to_what_was_computed() -> None:
    x = lg.rand(4)
    double, view = x * 2, x[1:]
    before = double.tolist()
    x.data_ptr()
    x.numpy()[...] = 0.0
    assert view.tolist() == [0.0, 0.0, 0.0]
    assert double.tolist() == before


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


TYPES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_names_of_types(name: str) -> None:
    dtype, kind = getattr(lg, name), f"torch.{TYPES[name]}Tensor"
    x = lg.ones(2, dtype=dtype)
    assert x.type() == kind
    assert x.type(kind) is x
    assert lg.ones(2, dtype=lg.uint16).type(kind).dtype is dtype
    assert lg.ones(2, dtype=lg.uint16).type(kind.replace("torch", "livegrad")).dtype is dtype


def test_types_by_other_names() -> None:
    x = lg.ones(2, dtype=lg.int8)
    assert x.type(lg.float64).dtype is lg.float64
    assert x.type("torch.Tensor").dtype is lg.float32
    assert x.type(lg.Tensor).dtype is lg.float32
    assert x.type(dtype="torch.IntTensor", non_blocking=True).dtype is lg.int32
    assert lg.nn.Parameter(lg.ones(1)).type() == "torch.FloatTensor"
    for wrong in ("LongTensor", "torch.float32", "nonsense", float):
        with pytest.raises(ValueError, match="invalid type"):
            x.type(wrong)
    with pytest.raises(TypeError, match="dtype must be a type, str, or dtype object"):
        x.type(3)
    with pytest.raises(RuntimeError):
        x.type("torch.cuda.FloatTensor")


def test_new_tensors_the_old_way() -> None:
    x = lg.ones(2, dtype=lg.float64)
    assert x.new().shape == (0,)
    assert x.new(2, 3).shape == x.new(lg.Size([2, 3])).shape == x.new(size=(2, 3)).shape == (2, 3)
    assert x.new(3).dtype is lg.float64
    assert x.new([1, 2]).tolist() == x.new((1, 2)).tolist() == [1, 2]
    assert x.new([1, 2]).dtype is lg.float64
    assert lg.ones(1, dtype=lg.int64).new([1.7, 2]).tolist() == [1, 2]
    y = lg.zeros(2, dtype=lg.float64)
    x.new(y)[0] = 5
    assert y.tolist() == [5, 0]
    assert x.new(2, device="cpu").shape == (2,)
    for wrong in (2.5, "a", lg.ones(2)):
        with pytest.raises(TypeError):
            x.new(wrong)


def test_is_set_to():
    x = lg.arange(4.0)
    assert x.is_set_to(x)
    assert x.is_set_to(x[:])
    assert not x.is_set_to(x[1:])
    assert not x.is_set_to(x.clone())
