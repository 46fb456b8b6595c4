"""fit(): learns, reports, stops, and goes on after an interruption as if there had been none."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train
from livegrad.utils.data import DataLoader, TensorDataset

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((150, 6)).astype(np.float32)
Y = (X @ RANDOM.standard_normal((6, 3))).argmax(1)


def make():
    train.seed_everything(0)
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 3))
    return model, optim.Adam(model.parameters(), lr=0.01)


def weights(model):
    return [p.detach().numpy().tobytes() for p in model.parameters()]


def test_learns_and_reports():
    model, optimizer = make()
    history = train.fit(
        model,
        (X[:120], Y[:120]),
        F.cross_entropy,
        optimizer,
        epochs=15,
        val_data=(X[120:], Y[120:]),
        metrics={"accuracy": train.Accuracy()},
        show=False,
    )
    assert len(history) == 15
    assert {"loss", "accuracy", "val_loss", "val_accuracy", "lr", "seconds"} == set(history)
    assert history["val_accuracy"][-1] > 0.85
    assert history["loss"][-1] < history["loss"][0] / 2
    again = train.evaluate(
        model, (X[120:], Y[120:]), F.cross_entropy, {"accuracy": train.Accuracy()}
    )
    assert again == {
        "loss": history["val_loss"][-1],
        "accuracy": history["val_accuracy"][-1],
    }
    assert model.training
    assert history.best("val_accuracy", "max")["val_accuracy"] == max(history["val_accuracy"])
    with pytest.raises(KeyError, match="known are loss"):
        history["nothing"]


def test_is_the_loop_one_would_write():
    model, optimizer = make()
    loader = DataLoader(TensorDataset(lg.tensor(X), lg.tensor(Y)), batch_size=50, shuffle=True)
    losses = []
    for _ in range(3):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        losses.append(total / len(Y))
    other, optimizer = make()
    loader = DataLoader(TensorDataset(lg.tensor(X), lg.tensor(Y)), batch_size=50, shuffle=True)
    history = train.fit(other, loader, F.cross_entropy, optimizer, 3, show=False)
    assert history["loss"] == pytest.approx(losses, rel=1e-12)
    assert weights(model) == weights(other)


def test_schedulers_clipping_and_callbacks():
    model, optimizer = make()
    events = []

    class Noting:
        def on_fit_begin(self, run):
            events.append("begin")

        def on_step_end(self, run):
            events.append(run.step)

        def on_fit_end(self, run):
            events.append("end")

    epochs = []
    history = train.fit(
        model,
        (X, Y),
        F.cross_entropy,
        optimizer,
        3,
        batch_size=50,
        scheduler=optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5),
        callbacks=[Noting(), lambda run: epochs.append((run.epoch, run.figures["loss"]))],
        accumulate=2,
        max_norm=1.0,
        show=False,
    )
    assert history["lr"] == [0.01, 0.005, 0.0025]
    assert events == ["begin", 1, 2, 3, 4, 5, 6, "end"]  # 3 batches are two steps
    assert epochs == list(enumerate(history["loss"]))
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    train.fit(model, (X, Y), F.cross_entropy, optimizer, 1, scheduler=plateau, show=False)


def test_early_stopping_restores_the_best_model():
    model, optimizer = make()
    optimizer.param_groups[0]["lr"] = 1.0
    stopping = train.EarlyStopping(patience=2, model=model)
    data = {"val_data": (X[100:], Y[100:]), "callbacks": [stopping], "show": False}
    history = train.fit(model, (X[:100], Y[:100]), F.cross_entropy, optimizer, 50, **data)
    assert len(history) < 50
    found = train.evaluate(model, (X[100:], Y[100:]), F.cross_entropy)
    assert found["loss"] == pytest.approx(min(history["val_loss"]))


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("as_list", [False, True])
def test_resumes_exactly(as_list, tmp_path):
    def run(folder, interrupt_at=None, resume=False):
        model, optimizer = make()
        data = (X[:120], Y[:120])
        if as_list:
            data = [(lg.tensor(X[i : i + 20]), lg.tensor(Y[i : i + 20])) for i in range(0, 120, 20)]

        def interrupt(run):
            if run.step == interrupt_at:
                raise Interrupted

        class Interrupting:
            on_step_end = staticmethod(interrupt)

        history = train.fit(
            model,
            data,
            F.cross_entropy,
            optimizer,
            4,
            batch_size=20,
            val_data=(X[120:], Y[120:]),
            metrics=[train.Accuracy()],
            scheduler=optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=100),
            scheduler_every="step",
            callbacks=[train.EarlyStopping(patience=9), Interrupting()],
            accumulate=2,
            checkpointer=train.Checkpointer(folder),
            save_every=2,
            resume=resume,
            show=False,
        )
        return weights(model), [history[name] for name in history if name != "seconds"]

    whole = run(tmp_path / "whole")
    for step in (5, 9):
        with pytest.raises(Interrupted):
            run(tmp_path / "killed", step, resume=True)
    assert run(tmp_path / "killed", resume=True) == whole
    # A run that is complete has nothing left to do.
    assert run(tmp_path / "killed", resume=True) == whole


def test_other_batches_need_a_step():
    model, optimizer = make()
    batches = [{"x": lg.tensor(X), "y": lg.tensor(Y)}]

    def step(model, batch):
        outputs = model(batch["x"])
        return F.cross_entropy(outputs, batch["y"]), outputs, batch["y"]

    history = train.fit(
        model, batches, None, optimizer, 2, step=step, metrics=[train.Accuracy()], show=False
    )
    assert len(history["accuracy"]) == 2
    with pytest.raises(TypeError, match="step="):
        train.fit(model, batches, F.cross_entropy, optimizer, show=False)
    with pytest.raises(TypeError, match="spent after one epoch"):
        train.fit(model, iter(batches), F.cross_entropy, optimizer, show=False)
    with pytest.raises(TypeError, match="outputs, targets"):
        train.fit(
            model,
            batches,
            None,
            optimizer,
            step=lambda m, b: m(b["x"]).sum(),
            metrics=[train.Accuracy()],
            show=False,
        )


def test_wrong_options():
    model, optimizer = make()
    with pytest.raises(ValueError, match="'epoch' or 'step'"):
        train.fit(model, (X, Y), F.cross_entropy, optimizer, scheduler_every="batch")
    with pytest.raises(ValueError, match="needs a checkpointer"):
        train.fit(model, (X, Y), F.cross_entropy, optimizer, resume=True)
    with pytest.raises(KeyError, match="val_acc.*known are loss"):
        stopping = train.EarlyStopping(monitor="val_acc")
        train.fit(model, (X, Y), F.cross_entropy, optimizer, callbacks=[stopping], show=False)


def test_progress_and_plot(capsys, tmp_path):
    model, optimizer = make()
    history = train.fit(
        model, (X, Y), F.cross_entropy, optimizer, 2, val_data=(X, Y), batch_size=50
    )
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("epoch 2/2  3/3  100%  loss ")
    assert "val_loss" in lines[-1]
    history.plot(tmp_path / "loss.svg")
    root = ET.parse(tmp_path / "loss.svg").getroot()
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"loss", "val_loss", "epoch"} <= set(texts)
