"""What notebooks show: small pictures, and sources of cells, which are in no file."""

from __future__ import annotations

import linecache

import pytest

import livegrad as lg
from livegrad import nn
from livegrad.view.document import read_source
from livegrad.view.session import View
from tests.view.networks import Net, watched

CELL = "/tmp/ipykernel_1/no such file.py"


def test_records_and_differences_say_what_they_are() -> None:
    watching = watched(steps=3)
    assert repr(watching) == "<Watch: 3 steps, ended>"
    assert "<svg" in watching._repr_html_()
    assert repr(watching.graph(0).diff(watching.graph(2))) == str(
        watching.graph(0).diff(watching.graph(2))
    )
    assert lg.watch()._repr_html_() == "&lt;Watch: 0 steps, ended&gt;"


def test_a_number_needs_no_picture() -> None:
    x = lg.tensor(3.0) + 1
    x.item()
    assert "<svg" not in x._repr_html_()
    y = lg.arange(10.0)
    y.sum().item()
    assert "<svg" in y._repr_html_()


def test_sources_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot be read" in read_source(CELL)["problem"]
    lines = ["x = 1\n", "y = 2\n"]
    monkeypatch.setitem(linecache.cache, CELL, (12, None, lines, CELL))
    assert read_source(CELL) == {"text": "x = 1\ny = 2\n", "changed": False}


def test_a_notebook_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    made: View = lg.view(open=False)
    try:
        monkeypatch.delenv("SSH_CONNECTION", raising=False)
        monkeypatch.delenv("SSH_TTY", raising=False)
        assert "ssh" not in made._repr_html_()
        monkeypatch.setenv("SSH_CONNECTION", "somewhere")
        assert "ssh -N -L" in made._repr_html_()
    finally:
        made.close()


def test_live_says_if_there_is_nothing_to_look_at() -> None:
    with pytest.raises(RuntimeError, match="no class of this model"):
        lg.live(nn.Sequential(nn.Linear(2, 2)))
    live = lg.live(Net())
    assert repr(live) == "<Live: networks.py; 0 changes>"
    live.stop()
