"""NumPy's functions of our tensors give what they give of PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

CALLS: dict[str, Any] = {
    "sqrt": np.sqrt,
    "add": lambda x: np.add(x, 1),
    "array first": lambda x: np.add(np.ones(6), x),
    "isnan": np.isnan,
    "clip": lambda x: np.clip(x, 0, 1),
    "argmax": np.argmax,
    "concatenate": lambda x: np.concatenate([x, x]),
    "where": lambda x: np.where(np.asarray(x) > 2, x, 0),
    "0-d": lambda x: np.exp(x[2]),
    "number first": lambda x: np.float64(2) * x,
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_numpy(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy, about PyTorch's tensors
        theirs = CALLS[name](torch.arange(6.0))
    ours = CALLS[name](lg.arange(6.0))
    assert isinstance(ours, lg.Tensor) == isinstance(theirs, torch.Tensor)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    assert np.array_equal(np.asarray(ours), np.asarray(theirs))
