"""Values in and out: NumPy, DLPack, pickle, copies."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn, optim

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4)])
def test_numpy_there_and_back(name, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(name)
    for x in (lg.tensor(array), lg.from_numpy(array), lg.as_tensor(array)):
        assert x.dtype is lg.tensor(0).to(getattr(lg, name, lg.bool_)).dtype
        back = x.numpy()
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert back.tolist() == array.tolist()


def test_strided_and_reversed_arrays():
    array = np.arange(24.0).reshape(4, 6)
    for view in (array[::-1], array[:, ::2], array.T, array[1:3, 5:1:-2]):
        assert lg.tensor(view).tolist() == view.tolist()
        assert (lg.tensor(view) * 2).tolist() == (view * 2).tolist()


def test_arrays_given_and_taken_are_independent():
    array = np.ones(3, np.float32)
    x = lg.tensor(array)
    y = x + 1
    array[:] = 7
    assert (x.tolist(), y.tolist()) == ([1.0] * 3, [2.0] * 3)
    out = np.array(x)
    out[:] = 9
    assert x.tolist() == [1.0] * 3


def test_numpy_functions_see_values():
    x = lg.tensor([1.0, 4.0]) * 2
    assert np.square(np.asarray(x)).tolist() == [4.0, 64.0]
    assert np.add(x, 1).tolist() == [3.0, 9.0]
    assert (x + np.array([1.0, 2.0], np.float32)).tolist() == [3.0, 10.0]
    assert (x * np.float32(2)).tolist() == [4.0, 16.0]


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "bool"])
def test_dlpack_both_ways(name):
    array = np.arange(6, dtype=name).reshape(2, 3)
    x = lg.from_dlpack(array)
    assert x.tolist() == array.tolist()
    assert str(x.numpy().dtype) == name
    back = np.from_dlpack(x + 1)
    assert back.tolist() == (array + 1).tolist()
    assert lg.from_dlpack(x).tolist() == array.tolist()


def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    x = lg.arange(6).reshape(2, 3) * 2
    t = torch.from_dlpack(x)
    assert t.tolist() == x.tolist()
    t += 1
    assert x.tolist() == [[1, 3, 5], [7, 9, 11]]
    assert lg.from_dlpack(t * 2).tolist() == (t * 2).tolist()


@pytest.mark.parametrize("name", [*DTYPES[1:], "bfloat16"])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(name, protocol):
    x = (lg.arange(6).reshape(2, 3) * 1).to(getattr(lg, name))
    y = pickle.loads(pickle.dumps(x, protocol))
    assert (y.dtype, y.shape, y.tolist()) == (x.dtype, x.shape, x.tolist())
    y += 1
    assert y.tolist() != x.tolist()


def test_pickle_of_a_model_in_training():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = optim.Adam(model.parameters())

    def step(model, optimizer):
        optimizer.zero_grad()
        (model(lg.ones(5, 3)) ** 2).sum().backward()
        optimizer.step()
        return [p.tolist() for p in model.parameters()]

    step(model, optimizer)
    other, other_optimizer = pickle.loads(pickle.dumps((model, optimizer)))
    assert all(p.requires_grad for p in other.parameters())
    assert step(other, other_optimizer) == step(model, optimizer)


def test_deepcopy():
    model = nn.Linear(3, 2)
    other = copy.deepcopy(model)
    with lg.no_grad():
        model.weight.zero_()
    assert other.weight.abs().sum().item() > 0
    assert other.weight.requires_grad
    x = lg.tensor([1.0], requires_grad=True)
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    assert (y.tolist(), y.grad.tolist(), y.requires_grad) == ([1.0], [3.0], True)
    y.grad += 1
    assert x.grad.tolist() == [3.0]
    shared = copy.deepcopy([x, x])
    assert shared[0] is shared[1]


def test_copy_of_a_pending_value():
    x = lg.ones(2) + 1
    assert copy.deepcopy(x).tolist() == [2.0, 2.0]
    assert copy.copy(x).tolist() == [2.0, 2.0]
