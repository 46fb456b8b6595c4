"""Rows of a large tensor that are shown as arrays, one after the other."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.handle import Writing
from livegrad.runtime import shared
from livegrad.runtime.memory import Buffer, copied


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many bytes whole storages were copied."""
    seen: list[int] = []

    def counting(stored: np.ndarray) -> Buffer:
        out = copied(stored)
        seen.append(out.nbytes)
        return out

    monkeypatch.setattr(shared, "copied", counting)
    return seen


def test_the_whole_is_copied_once(copies: list[int]) -> None:
    data = lg.arange(3000.0).reshape(1000, 3)
    for i in range(50):
        assert data[i].numpy().tolist() == [3 * i, 3 * i + 1, 3 * i + 2]
        assert float(data[i, 0]) == 3 * i
    assert len(copies) == 1


def test_what_is_written_is_seen() -> None:
    data = lg.zeros(4, 3)
    for i in range(4):
        data[i].numpy()[1] = i + 1  # seen although the array is gone at once
        assert data[i].tolist() == [0, i + 1, 0]
    assert data.tolist() == [[0, 1, 0], [0, 2, 0], [0, 3, 0], [0, 4, 0]]


def test_signs_of_zeros_and_nan() -> None:
    data = lg.tensor([[0.0, float("nan")], [1.0, 2.0]])
    data[0].numpy()[0] = -0.0
    assert np.signbit(data[0].numpy()[0])
    assert data[1].numpy().tolist() == [1, 2]
    data[0].numpy()[1] = 5
    assert data[0].tolist()[1] == 5


def test_our_own_writes_are_seen() -> None:
    data = lg.zeros(3, 2)
    row = data[0].numpy()
    data[1] = 7  # outside of what was lent
    assert row.tolist() == [0, 0]
    del row
    assert data.tolist() == [[0, 0], [7, 7], [0, 0]]
    assert data[1].numpy().tolist() == [7, 7]
    data.add_(1)
    assert data[1].numpy().tolist() == [8, 8]


def test_values_computed_before_a_write_stay() -> None:
    data = lg.ones(3, 2)
    data[0].numpy()
    double = data * 2
    data[0].numpy()[:] = 5
    assert double.tolist() == [[2, 2]] * 3
    assert data.tolist() == [[5, 5], [1, 1], [1, 1]]


def test_nothing_is_kept_of_a_tensor_that_is_gone() -> None:
    data = lg.ones(1000, 2)
    data[0].numpy()
    data[0].tolist()
    assert shared._Spare.memory is not None
    memory = weakref.ref(shared._Spare.memory)
    del data
    gc.collect()
    assert memory() is None


def test_what_was_updated_is_lent_anew() -> None:
    weight = lg.nn.Parameter(lg.ones(40, 50))
    optimizer = lg.optim.SGD([weight], lr=0.5)
    for step in range(4):
        assert weight.detach().numpy()[3, 4] == 1 - 0.5 * step
        weight.sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(
    "part",
    [lambda x: x[4:], lambda x: x[:, 3:], lambda x: x[:0, :0], lambda x: x[2:2].T],
    ids=["rows", "columns", "both", "turned"],
)
def test_an_array_of_nothing(part: Callable[[lg.Tensor], lg.Tensor]) -> None:
    for data in (lg.ones(4, 3) + 1, lg.zeros(0, 3) + 1):
        shape = part(data).numpy().shape
        assert shape == part(data).shape
        assert (data + 1).tolist() == [[3.0] * 3] * len(data)


def test_an_array_of_an_array_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """from_numpy(a).numpy() shows the same memory; whether gradients flow is known without it."""
    reads: list[object] = []
    read = Writing.read_shared
    monkeypatch.setattr(Writing, "read_shared", lambda x: (reads.append(x), read(x)))
    array = np.arange(6.0).reshape(2, 3)
    x = lg.from_numpy(array)
    assert not x.requires_grad
    again = x.numpy()
    assert not reads
    array[0, 0] = 9.0
    assert again[0, 0] == 9.0
    again[1, 1] = 7.0
    assert x[1, 1].item() == 7.0
    assert array[1, 1] == 7.0
    x += 1
    assert x.numpy()[0, 0] == 10.0


def test_arrays_of_arrays_that_only_the_tensor_holds() -> None:
    x = lg.from_numpy(np.arange(3.0))
    first = x.numpy()
    first[0] = 5.0
    del first
    assert x.numpy().tolist() == [5.0, 1.0, 2.0]
    x *= 2
    assert x.numpy().tolist() == [10.0, 2.0, 4.0]


def test_whether_gradients_flow_through_shared_memory() -> None:
    array = np.ones(2)
    x = lg.from_numpy(array)
    whole, weight = x.detach(), lg.ones(2, dtype=lg.float64, requires_grad=True)
    x.mul_(weight)
    assert x.requires_grad
    assert not whole.requires_grad
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    assert whole.numpy().tolist() == [1.0, 1.0]
    view = lg.from_numpy(array)[:1]
    assert not view.requires_grad
