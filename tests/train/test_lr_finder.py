"""lr_find: finds a rate that works, and leaves everything as it was."""

from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train
from livegrad.utils.data import DataLoader, TensorDataset


@pytest.fixture
def case():
    lg.manual_seed(0)
    x = lg.randn(128, 4)
    y = x @ lg.tensor([[1.0], [-2.0], [3.0], [0.5]]) + 0.01 * lg.randn(128, 1)
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    return model, optimizer, loader


def everything(model, optimizer):
    tensors = [*model.parameters(), *model.buffers()]
    numbers = [v for state in optimizer.state.values() for v in state.values()]
    return (
        [t.detach().numpy().tolist() for t in tensors],
        [v.tolist() if isinstance(v, lg.Tensor) else v for v in numbers],
        [p.grad is None or p.grad.tolist() for p in model.parameters()],
        [group["lr"] for group in optimizer.param_groups],
        [module.training for module in model.modules()],
        lg.get_rng_state().tolist(),
    )


def one_epoch(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("trained", [False, True])
def test_everything_is_as_it_was(case, trained):
    model, optimizer, loader = case
    if trained:
        one_epoch(model, optimizer, loader)
        model[1].eval()
    before = everything(model, optimizer)
    found = train.lr_find(model, optimizer, loader, F.mse_loss, steps=40)
    assert len(found.lrs) > 10
    assert everything(model, optimizer) == before


def test_training_goes_on_as_without_it(case):
    model, optimizer, loader = case
    one_epoch(model, optimizer, loader)
    state = train.restoring.restored(model, optimizer, loader)
    with state:
        one_epoch(model, optimizer, loader)
        expected = everything(model, optimizer)
    train.lr_find(model, optimizer, loader, F.mse_loss, steps=20)
    one_epoch(model, optimizer, loader)
    assert everything(model, optimizer) == expected


def test_the_suggestion_trains(case):
    model, optimizer, loader = case
    found = train.lr_find(model, optimizer, loader, F.mse_loss)
    assert 1e-4 < found.suggestion < found.minimum < 10
    optimizer.param_groups[0]["lr"] = found.suggestion
    start = train.evaluate(model, loader, F.mse_loss)["loss"]
    for _ in range(3):
        one_epoch(model, optimizer, loader)
    assert train.evaluate(model, loader, F.mse_loss)["loss"] < start / 4


def test_groups_keep_their_ratio(case):
    model, _, loader = case
    groups = [
        {"params": model[0].parameters(), "lr": 0.1},
        {"params": model[3].parameters(), "lr": 0.01},
    ]
    optimizer = optim.SGD(groups)
    seen = []

    def step(model, batch):
        seen.append([group["lr"] for group in optimizer.param_groups])
        return F.mse_loss(model(batch[0]), batch[1])

    train.lr_find(model, optimizer, loader, step=step, start=1e-3, end=1e-1, steps=3)
    np.testing.assert_allclose(seen, [[1e-3, 1e-4], [1e-2, 1e-3], [1e-1, 1e-2]])


def test_the_plot_is_a_drawing(case, tmp_path):
    found = train.lr_find(*case, F.mse_loss, steps=30)
    found.plot(tmp_path / "lr.svg")
    root = ET.parse(tmp_path / "lr.svg").getroot()
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "learning rate" in texts
    assert f"{found.suggestion:.2g}" in texts
    paths = [e.get("d") for e in root.iter("{http://www.w3.org/2000/svg}path")]
    assert max(d.count("L") for d in paths) == len(found.lrs) - 1


def test_other_formats_need_matplotlib(case, tmp_path, monkeypatch):
    found = train.lr_find(*case, F.mse_loss, steps=30)
    if importlib.util.find_spec("matplotlib"):
        found.plot(tmp_path / "lr.png")
        assert (tmp_path / "lr.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=".svg"):
        found.plot(tmp_path / "lr.png")


def test_mistakes(case):
    model, optimizer, loader = case
    with pytest.raises(ValueError, match="0 < start < end"):
        train.lr_find(model, optimizer, loader, F.mse_loss, start=1, end=0.1)
    with pytest.raises(TypeError, match="loss"):
        train.lr_find(model, optimizer, loader)
    with pytest.raises(ValueError, match="no batches"):
        train.lr_find(model, optimizer, [], F.mse_loss)
    with pytest.raises(RuntimeError, match="not finite"):
        train.lr_find(model, optimizer, loader, lambda a, b: F.mse_loss(a, b) * float("nan"))
