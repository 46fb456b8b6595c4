"""Checkpointer and EarlyStopping: the best and the last, and nothing lost on the way."""

from __future__ import annotations

import json
import math

import pytest

import livegrad as lg
from livegrad import nn, train
from livegrad.temporary import temporary_name
from livegrad.train import checkpointer as module


def make(folder, **options):
    model = nn.Linear(2, 1)
    return model, train.Checkpointer(folder, model=model, **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def set_to(model, number):
    with lg.no_grad():
        model.weight.fill_(number)


def test_best_and_last(tmp_path):
    model, keeper = make(tmp_path, keep=2)
    for step, value in enumerate([3.0, 1.0, 2.0, math.nan, 5.0]):
        set_to(model, step)
        keeper.save(step, value=lg.tensor(value), epoch=step * 10)
    assert [found.step for found in keeper.saved] == [1, 3, 4]
    assert (keeper.best.step, keeper.best.value, keeper.last.step) == (1, 1.0, 4)
    index = json.loads((tmp_path / "index.json").read_text(), parse_constant=pytest.fail)
    assert index["best"] == keeper.best.path.name
    other, again = make(tmp_path)
    assert again.load("best") == {"step": 1, "value": 1.0, "epoch": 10}
    assert other.weight.tolist() == [[1.0, 1.0]]
    assert again.load()["epoch"] == 40
    assert again.load(3)["step"] == 3
    with pytest.raises(FileNotFoundError, match="1, 3, 4"):
        again.load(2)


def test_greater_may_be_better(tmp_path):
    _, keeper = make(tmp_path, mode="max")
    for step, value in enumerate([0.5, 0.9, 0.7]):
        keeper.save(step, value)
    assert keeper.best.step == 1
    assert [found.step for found in keeper.saved] == [1, 2]


def test_another_run_is_not_overwritten(tmp_path):
    _, keeper = make(tmp_path)
    keeper.save(100)
    _, second = make(tmp_path)
    with pytest.raises(FileExistsError, match="up to step 100"):
        second.save(1)
    second.load()
    second.save(101)
    second.save(50)  # gone back to an earlier step: what came later is void
    assert [found.step for found in second.saved] == [50]
    _, third = make(tmp_path, overwrite=True)
    third.save(1)
    assert names(tmp_path) == ["index.json", "step-0000000001.safetensors"]


def test_killed_between_two_files(tmp_path, monkeypatch):
    """A checkpoint whose entry in the index is missing is there all the same."""
    _, keeper = make(tmp_path)
    keeper.save(1, 0.5)

    def killed(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.Checkpointer, "_write_index", killed)
    with pytest.raises(KeyboardInterrupt):
        keeper.save(2, 0.4)
    monkeypatch.undo()
    _, again = make(tmp_path)
    assert [(found.step, found.value) for found in again.saved] == [(1, 0.5), (2, None)]
    again.load()
    again.save(3, 0.7)
    assert [found.step for found in again.saved] == [1, 3]


def left_over(name, process):
    """The name of a file that a process of this machine was writing."""
    host, _, run, number = temporary_name(name).split(".")[-3].split("-")
    return f".{name}.{host}-{process}-{run}-{number}.livegrad.tmp"


def test_left_overs_of_killed_processes_go(tmp_path):
    _, keeper = make(tmp_path)
    keeper.save(1)
    dead = tmp_path / left_over("step-0000000002.safetensors", 4194300)
    foreign = tmp_path / ".notes.txt.4194300-0badc0de.tmp"
    for path in (dead, foreign):
        path.write_bytes(b"half")
    make(tmp_path)
    assert not dead.exists()
    assert foreign.exists()


def test_a_damaged_index_is_reported(tmp_path):
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(ValueError, match=r"index.json is damaged"):
        make(tmp_path)


def test_stops_after_patience():
    stopping = train.EarlyStopping(patience=2, min_delta=0.1)
    assert [stopping(v) for v in (1.0, 0.95, 0.8, 0.75, 0.72)] == [False] * 4 + [True]
    assert (stopping.best, stopping.best_step, stopping.waited) == (0.8, 2, 2)
    highest = train.EarlyStopping(patience=1, mode="max")
    assert [highest(v) for v in (0.1, 0.2, 0.2)] == [False, False, True]


def test_nan_stops_at_once_unless_told_otherwise():
    assert train.EarlyStopping(patience=9)(lg.tensor(math.nan))
    patient = train.EarlyStopping(patience=2, stop_on_nan=False)
    assert [patient(v) for v in (1.0, math.nan, math.nan)] == [False, False, True]


def test_restores_the_best_model():
    model = nn.Linear(2, 1)
    stopping = train.EarlyStopping(patience=2, model=model)
    with pytest.raises(RuntimeError, match="no value"):
        stopping.restore()
    for value in (3.0, 1.0, 2.0):
        set_to(model, value)
        stopping(value)
    other = train.EarlyStopping(patience=2, model=model)
    other.load_state_dict(stopping.state_dict())
    other.restore()
    assert model.weight.tolist() == [[1.0, 1.0]]
    assert other(9.0)
    with pytest.raises(ValueError, match="'min' or 'max'"):
        train.EarlyStopping(mode="least")
