"""A part of the run over PyTorch's module database that fits into the suite; see module_db.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conformance import module_db as db

# One or two of each family.
NAMES = """
    Linear Bilinear Conv2d LazyConv1d ConvTranspose3d MaxPool2d AdaptiveAvgPool2d LPPool1d
    BatchNorm2d InstanceNorm1d GroupNorm LayerNorm RNN LSTM GRU LSTMCell MultiheadAttention
    TransformerEncoder TransformerDecoderLayer Embedding CrossEntropyLoss LinearCrossEntropyLoss
    CTCLoss PReLU Softmax2d ReflectionPad2d CircularPad3d FractionalMaxPool3d
""".split()
PLACES = {info.name.removeprefix("nn."): i for i, info in enumerate(db.module_db)}


@pytest.mark.parametrize("name", NAMES)
def test_some_inputs(name: str) -> None:
    result = db.check_module(PLACES[name], 2, "float32")
    assert result.failed == {}
    assert all(result.totals.values())


def test_a_wrong_module_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = db.nn.Linear.forward
    monkeypatch.setattr(db.nn.Linear, "forward", lambda *a, **k: right(*a, **k) * 1.001)
    result = db.check_module(PLACES["Linear"], 2, "float32")
    assert "output 0" in result.failed["train 0"]


def test_the_floor_is_high_enough() -> None:
    floor: dict[str, Any] = db.read_floor()
    names = [info.name for info in db.module_db]
    assert sorted(floor["missing"] + list(floor["modules"])) == sorted(names)
    assert len(floor["modules"]) >= 0.95 * len(names)
    cells = [cell for modes in floor["modules"].values() for cell in modes.values()]
    right, total = map(sum, zip(*cells, strict=True))
    assert right >= 0.98 * total
