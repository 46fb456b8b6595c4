"""The class of every error in `error_cases` is the one PyTorch raises."""

from __future__ import annotations

import pytest
from error_cases import CASES, LATE

import livegrad as lg
import livegrad.nn
import livegrad.optim

torch = pytest.importorskip("torch")

# Where PyTorch raises a class that no program would want to rely on.
DIFFERENT = {"add None", "add str"}


def raised(call, module):
    try:
        result = call(module)
        result.tolist()  # what only the values show
    except Exception as error:
        return type(error)
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in {**CASES, **LATE} if n not in DIFFERENT])
def test_class(name):
    call = {**CASES, **LATE}[name].call
    ours, theirs = raised(call, lg), raised(call, torch)
    assert theirs is not None, "PyTorch does not raise"
    assert ours is not None
    assert issubclass(ours, theirs), f"livegrad raises {ours.__name__}, PyTorch {theirs.__name__}"
