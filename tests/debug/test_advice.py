"""What `explain()` adds when kernels have been timed: the slowest and largest, in plain words."""

from __future__ import annotations

import io
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn as nn
from livegrad.runtime.sight import Policy


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(300, 200)

    def forward(self, x: Any) -> Any:
        return self.fc(x).relu()


def test_slowest_and_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "whole", True)  # pieces are not timed one by one
    model, x = Wide(), lg.randn(64, 300)
    text = ""
    for _ in range(3):
        y = model(x)
        y.sum().item()
        file = io.StringIO()
        lg.explain(file)
        text = file.getvalue()
    slowest = text[text.index("slowest of") :]
    assert "matmul" in slowest
    assert "GFLOP/s" in slowest
    assert "Wide" in slowest
    assert "largest values" in slowest
    assert "test_advice.py:" in slowest
