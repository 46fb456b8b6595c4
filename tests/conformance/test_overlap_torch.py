"""Writes from overlapping operands are refused where PyTorch refuses them."""

from __future__ import annotations

import pytest
from overlap_programs import FINE, REFUSED

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("program", REFUSED)
def test_refused(program: str) -> None:
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        exec(program, {"b": torch.arange(6.0), "T": torch})


@pytest.mark.parametrize("program", FINE)
def test_fine(program: str) -> None:
    exec(program, {"b": torch.arange(6.0), "T": torch})
