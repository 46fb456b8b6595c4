"""The Sobol sequence is PyTorch's."""

from __future__ import annotations

import pytest

from livegrad.quasirandom import SobolEngine

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dimension", [1, 2, 7, 100])
def test_points(dimension: int) -> None:
    ours, theirs = SobolEngine(dimension), torch.quasirandom.SobolEngine(dimension)
    for n in (1, 3, 12, 1):
        assert ours.draw(n).tolist() == theirs.draw(n).tolist()
    assert ours.fast_forward(3).draw(2).tolist() == theirs.fast_forward(3).draw(2).tolist()
