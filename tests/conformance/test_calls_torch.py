"""Single calls, right and wrong, in PyTorch's words: the same dtype and values, or the same error.

The calls are in `calls/*.txt`, one expression in `T` (the module) and `np` per line.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn
import livegrad.optim

torch = pytest.importorskip("torch")

CALLS = [
    line
    for file in sorted((Path(__file__).parent / "calls").glob("*.txt"))
    for line in file.read_text().splitlines()
    if line and not line.startswith("#")
]


def outcome(module, call):
    """The class of the error a call raises, or the dtypes and values it gives."""
    try:
        result = eval(call, {"T": module, "np": np})
        parts = result if isinstance(result, tuple | list) else [result]
        return [
            (str(x.dtype).rpartition(".")[-1], x.tolist()) if hasattr(x, "tolist") else x
            for x in parts
        ]
    except Exception as error:
        return type(error)


def agree(ours, theirs):
    if isinstance(ours, type) and isinstance(theirs, type):
        return issubclass(ours, theirs)
    return repr(ours) == repr(theirs)  # NaN is NaN


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
def test_agrees(call):
    ours, theirs = outcome(lg, call), outcome(torch, call)
    assert agree(ours, theirs), f"{call}: {ours} here, {theirs} in PyTorch"
