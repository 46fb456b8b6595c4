"""PyTorch's storage model: what shares memory with what, how it lies there, who sees a write."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from storage_programs import PROGRAMS, Program, expected, outcome

import livegrad as lg
import livegrad.nn
import livegrad.optim
from livegrad.graph.handle import path_of


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_program(run: Program) -> None:
    assert outcome(run, lg) == expected()[run.__name__]


def test_storages() -> None:
    x = lg.arange(6, dtype=lg.uint8).view(2, 3)
    storage = x[1].untyped_storage()
    assert storage == x.untyped_storage()
    assert storage != x.clone().untyped_storage()
    assert hash(storage) == hash(x.untyped_storage())
    assert (len(storage), storage.nbytes(), storage.element_size()) == (6, 6, 1)
    assert list(storage) == storage.tolist() == [0, 1, 2, 3, 4, 5]
    assert (storage[1], list(storage[1:3])) == (1, [1, 2])
    assert x.t().clone().untyped_storage().tolist() == [0, 1, 2, 3, 4, 5]
    typed = lg.arange(3.0).storage()
    assert (typed.size(), typed.tolist(), typed[2], typed.dtype) == (3, [0, 1, 2], 2, lg.float32)
    assert typed.untyped().nbytes() == 12


def test_a_tensor_that_nobody_shares_with_any_more_is_an_ordinary_one() -> None:
    x = lg.zeros(3)
    view = x[1:]
    view.add_(1)
    assert x.tolist() == [0, 1, 1]
    assert x._share is not None
    del view
    assert (x + 0).tolist() == [0, 1, 1]
    assert x._share is None
    parameter = livegrad.nn.Parameter(lg.ones(2))
    assert (parameter * 2).tolist() == [2, 2]
    assert (parameter * 2).tolist() == [2, 2]
    assert parameter._share is None


def _names(x: Any) -> list[str]:
    return [step[0].name for step in path_of(x)]


def test_contiguous_values_cost_no_node() -> None:
    x = lg.zeros(2, 3)
    assert x.contiguous() is x
    assert x.to(lg.float32) is x
    assert x.t().t().contiguous().stride() == (3, 1)
    assert _names(x.reshape(3, 2)) == ["reshape"]
    assert _names(x.t().reshape(6)) == []


def test_bytes_of_a_file(tmp_path: Path) -> None:
    """What `safetensors` does for PyTorch: a file is mapped, and parts of it become tensors."""
    path = tmp_path / "x.bin"
    np.arange(6, dtype=np.float32).tofile(path)
    storage = lg.UntypedStorage.from_file(str(path), False, 24)
    assert storage.untyped() is storage
    assert storage.nbytes() == 24
    part = storage[8:16]
    assert isinstance(part, lg.UntypedStorage)
    assert part.nbytes() == 8
    x = lg.asarray(part, dtype=lg.uint8).view(lg.float32)
    assert x.tolist() == [2.0, 3.0]
    x += 1
    assert x.tolist() == [3.0, 4.0]
    assert np.fromfile(path, np.float32).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert list(lg.tensor([1, 2], dtype=lg.int16).untyped_storage()[1:3]) == [0, 2]


def test_what_is_pickled_lies_as_it_did() -> None:
    x = lg.arange(6.0).reshape(2, 3)
    back = pickle.loads(pickle.dumps(x.t()))
    assert back.stride() == (1, 3)
    assert back.tolist() == x.t().tolist()
