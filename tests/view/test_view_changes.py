"""Code that is edited while it is watched: the page's switch, and what it is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
from livegrad.debug.reloading import CHANGED, Live
from tests.debug.test_live import BROKEN, NEW_ACTIVATION, Program
from tests.view.networks import Net, train


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    yield Program(tmp_path, "edited_while_watched")
    del sys.modules["edited_while_watched"]


def test_the_switch(program: Program) -> None:
    with lg.watch() as watching:
        code = watching.recorder.code
        program.steps(30)
        program.write(NEW_ACTIVATION)
        program.steps(2)
        assert code.told() == {"on": False, "files": [], "changes": []}
        program.write(program.file.read_text())

        answer = code.turn(True)
        assert (answer["on"], answer["files"]) == (True, ["edited_while_watched.py"])
        assert code.turn(True) == answer  # one for each model
        assert len(Live.running) == 1
        program.write(NEW_ACTIVATION.replace("tanh", "sigmoid"))
        program.steps(30)
        program.write(BROKEN)
        program.steps(2)
        code.turn(False)
        program.write(NEW_ACTIVATION)
        program.steps(2)
    first, second = code.told()["changes"]
    assert (first["replaced"], first["error"]) == (["activate"], "")
    change = watching.graph(first["before"]).diff(watching.graph(first["after"]))
    assert {n.op for n in change.removed if n.phase == "forward"} == {"relu"}
    assert {n.op for n in change.added if n.phase == "forward"} == {"sigmoid"}
    assert "SyntaxError" in second["error"]
    assert not Live.running
    assert not CHANGED
    assert watching.document.overview()["code"]["changes"] == [first, second]


def test_what_the_program_follows_itself_is_told_too(program: Program) -> None:
    live = lg.live(program.model, program.optimizer)
    with lg.watch() as watching:
        program.steps(2)
        program.write(NEW_ACTIVATION)
        program.steps(3)
    told = watching.recorder.code.told()
    assert told["on"]
    assert [change["replaced"] for change in told["changes"]] == [["activate"]]
    live.stop()


def test_models_that_are_in_no_file_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livegrad.debug.reloading._files", lambda model: {})
    with lg.watch() as watching:
        train(Net(), 2)
        answer: Any = watching.recorder.code.turn(True)
    assert "no class" in answer["problem"]
    assert not Live.running
