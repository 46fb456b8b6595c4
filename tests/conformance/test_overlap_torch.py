"""Writes from overlapping operands are refused where PyTorch refuses them."""

from __future__ import annotations

import pytest
from overlap_programs import FILLED_CONJUGATES, FINE, REFUSED

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("program", REFUSED)
def test_refused(program: str) -> None:
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        exec(program, {"b": torch.arange(6.0), "T": torch})


@pytest.mark.parametrize("program", FINE)
def test_fine(program: str) -> None:
    exec(program, {"b": torch.arange(6.0), "T": torch})


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")
@pytest.mark.parametrize("program", FILLED_CONJUGATES)
def test_conjugates_of_what_is_expanded(program: str) -> None:
    exec(program.replace(".conj()", ""), {"b": torch.arange(6.0), "T": torch})
    with pytest.raises(RuntimeError, match="more than one element"):
        exec(program, {"b": torch.arange(6.0), "T": torch})
