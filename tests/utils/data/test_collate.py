"""Collation: what becomes of samples of every structure."""

from collections import namedtuple

import numpy as np
import pytest

import livegrad as lg
from livegrad.utils.data import default_collate, default_convert
from livegrad.utils.data.collate import collate, default_collate_fn_map

Point = namedtuple("Point", "x y")


def test_nested():
    samples = [
        {"image": np.full((2, 3), i, np.float32), "id": i, "name": str(i), "p": Point(i, [i, 0.5])}
        for i in range(3)
    ]
    batch = default_collate(samples)
    assert batch["image"].shape == (3, 2, 3)
    assert batch["image"].dtype is lg.float32
    assert batch["image"][2].tolist() == [[2.0] * 3] * 2
    assert batch["id"].tolist() == [0, 1, 2]
    assert batch["name"] == ["0", "1", "2"]
    assert isinstance(batch["p"], Point)
    assert batch["p"].y[1].dtype is lg.float64


def test_tensors_computed_and_pending():
    rows = [lg.arange(4) + i for i in range(3)]
    pending = default_collate([row * 2 for row in rows])
    assert pending.tolist() == [[0, 2, 4, 6], [2, 4, 6, 8], [4, 6, 8, 10]]
    rows[0].tolist(), rows[1].tolist(), rows[2].tolist()
    assert default_collate(rows).tolist() == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]


def test_a_batch_does_not_follow_its_samples():
    row = lg.zeros(2)
    batch = default_collate([row, row])
    row.add_(1)
    assert batch.tolist() == [[0, 0], [0, 0]]


def test_gradients_flow():
    x = lg.ones(2, requires_grad=True)
    default_collate([x, x * 3]).sum().backward()
    assert x.grad.tolist() == [4, 4]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4)])
def test_shapes(shape):
    batch = default_collate([np.ones(shape, np.int16)] * 2)
    assert (batch.shape, batch.dtype) == ((2, *shape), lg.int16)


def test_arrays_that_are_not_contiguous():
    arrays = [np.arange(12.0).reshape(3, 4).T[::2] + i for i in range(2)]
    assert np.array_equal(default_collate(arrays).numpy(), np.stack(arrays))


def test_mixed_dtypes_are_promoted():
    assert default_collate([np.ones(2, np.float32), np.ones(2, np.float64)]).dtype is lg.float64


def test_errors():
    with pytest.raises(RuntimeError, match=r"equal size, but got \[2\] at entry 0 and \[3\] at"):
        default_collate([np.ones(2), np.ones(3)])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1, 2], [1]])
    with pytest.raises(TypeError, match="found <class 'NoneType'>"):
        default_collate([None, None])
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array(["a"])])


def test_own_functions():
    class Word(str):
        pass

    table = {**default_collate_fn_map, Word: lambda batch, *, collate_fn_map: "-".join(batch)}
    assert collate([(Word("a"), 1), (Word("b"), 2)], collate_fn_map=table)[0] == "a-b"


def test_convert():
    made = default_convert(
        {"a": np.arange(2), "b": [np.float32(3), "s"], "c": (1, Point(np.ones(1), 2))}
    )
    assert made["a"].tolist() == [0, 1]
    assert made["b"][0].dtype is lg.float32
    assert made["b"][1] == "s"
    assert made["c"][0] == 1
    assert isinstance(made["c"][1], Point)
    names = np.array(["x"])
    assert default_convert(names) is names
