"""Searches: what they find, how they go on after an interruption, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livegrad.train import Choice, Float, Int, Trial, search
from livegrad.train.search_methods import Halving
from livegrad.train.search_space import drawn

SPACE = {"x": Float(-2.0, 2.0), "n": Int(1, 4), "kind": Choice("plain", "shifted")}


def valley(trial: Trial) -> float:
    """Least at x = 0.5, n = 3, plain."""
    shift = 0.7 if trial["kind"] == "shifted" else 0.0
    return float((trial["x"] - 0.5) ** 2 + (trial["n"] - 3) ** 2 + shift)


def quiet(objective: Any, space: Any = SPACE, *args: Any, **options: Any) -> Any:
    return search(objective, space, *args, **{"show": False, **options})


# ---------------------------------------------------------------------------------- methods


def test_random() -> None:
    found = quiet(valley, trials=40)
    assert len(found.results) == 40
    assert found.best.value == min(r.value for r in found.results)
    assert found.best.value < 0.5
    assert [r.params for r in quiet(valley, trials=40).results] == [r.params for r in found.results]
    assert quiet(valley, trials=3, seed=1).results[0].params != found.results[0].params
    greatest = quiet(valley, trials=40, mode="max")
    assert greatest.best.value == max(r.value for r in found.results)


def test_grid_has_all_combinations() -> None:
    found = quiet(valley, method="grid", points=5)
    assert len(found.results) == 5 * 4 * 2
    assert len({tuple(r.params.values()) for r in found.results}) == 40
    assert found.best.params["n"] == 3
    assert found.best.params["kind"] == "plain"
    logs = quiet(lambda t: t["lr"], {"lr": Float(1e-4, 1.0, log=True)}, "grid", points=5)
    np.testing.assert_allclose([r.params["lr"] for r in logs.results], 10.0 ** np.arange(-4, 1))


def test_draws_stay_within() -> None:
    space = {"a": Int(1, 1000, log=True), "b": Float(1e-3, 1e3, log=True), "c": Int(-2, 2)}
    all_of = [drawn(space, 0, i) for i in range(2000)]
    assert {p["c"] for p in all_of} == {-2, -1, 0, 1, 2}
    assert all(1 <= p["a"] <= 1000 and 1e-3 <= p["b"] <= 1e3 for p in all_of)
    assert 0.4 < np.mean([p["b"] < 1 for p in all_of]) < 0.6
    assert 0.4 < np.mean([p["a"] < 32 for p in all_of]) < 0.6


def test_halving_spends_on_the_best() -> None:
    found = quiet(valley, method="halving", trials=27, budget=(1, 9), factor=3)
    by_budget = {b: [r for r in found.results if r.budget == b] for b in (1, 3, 9)}
    assert len(by_budget[1]) == 27
    assert 9 <= len(by_budget[3]) <= 13  # some went on before better ones were known
    assert 3 <= len(by_budget[9]) <= 5
    best = min(r.value for r in by_budget[1])
    assert found.best.budget == 9
    assert found.best.value == best


def test_budgets_of_halving() -> None:
    def budgets(least: int, most: int, factor: int) -> list[int]:
        return Halving(SPACE, 9, 0, 1, (least, most), factor).budgets

    assert budgets(1, 9, 3) == [1, 3, 9]
    assert budgets(1, 10, 3) == [1, 3, 10]
    assert budgets(2, 2, 3) == [2]
    assert budgets(2, 3, 3) == [2, 3]


@pytest.mark.parametrize("trials", [1, 2, 20, 27])
def test_bar_of_halving_ends_at_its_total(trials: int, capsys: Any) -> None:
    options = {"budget": (1, 9), "factor": 3, "show": True}
    found = quiet(valley, method="halving", trials=trials, **options)
    done = len(found.results)
    assert f"{done}/{done}" in capsys.readouterr().err.splitlines()[-1]


def test_bayes_with_optuna() -> None:
    pytest.importorskip("optuna")
    found = quiet(valley, method="bayes", trials=30)
    assert len(found.results) == 30
    assert found.best.value < 0.3


def test_bayes_without_optuna(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match="not installed: pip install optuna"):
        quiet(valley, method="bayes")


# ------------------------------------------------------------------------- going on, errors


@pytest.mark.parametrize("method", ["random", "grid", "halving"])
def test_an_interrupted_search_goes_on(tmp_path: Path, method: str) -> None:
    whole = quiet(valley, method=method, trials=9)
    calls = 0

    def interrupted(trial: Trial) -> float:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return valley(trial)

    journal = tmp_path / "runs" / "search.jsonl"
    with pytest.raises(KeyboardInterrupt):
        quiet(interrupted, method=method, trials=9, journal=journal)
    assert len(journal.read_text().splitlines()) == 1 + 4
    found = quiet(valley, method=method, trials=9, journal=journal)
    assert [(r.number, r.budget, r.params, r.value) for r in found.results] == [
        (r.number, r.budget, r.params, r.value) for r in whole.results
    ]
    again = quiet(lambda trial: 1 / 0, method=method, trials=9, journal=journal)  # nothing to do
    assert len(again.results) == len(whole.results)


def test_bayes_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    journal = tmp_path / "search.jsonl"
    quiet(valley, method="bayes", trials=5, journal=journal)
    found = quiet(valley, method="bayes", trials=12, journal=journal)
    assert [r.number for r in found.results] == list(range(12))


def test_half_a_line_is_no_result(tmp_path: Path) -> None:
    journal = tmp_path / "search.jsonl"
    quiet(valley, trials=3, journal=journal)
    whole = journal.read_bytes()
    for cut in range(1, len(whole)):
        journal.write_bytes(whole[:-cut])
        found = quiet(valley, trials=3, journal=journal)
        assert len(found.results) == 3
        for line in journal.read_text().splitlines():
            json.loads(line)
        if cut > 400:
            break


def test_a_journal_of_something_else(tmp_path: Path) -> None:
    journal = tmp_path / "search.jsonl"
    quiet(valley, trials=2, journal=journal)
    with pytest.raises(ValueError, match="another search: seed differ"):
        quiet(valley, trials=2, journal=journal, seed=3)
    with pytest.raises(ValueError, match="another search: space differ"):
        quiet(lambda t: 0.0, {"x": Float(0, 1)}, trials=2, journal=journal)
    before = journal.read_bytes()
    other = tmp_path / "notes.txt"
    other.write_text("dear diary\n")
    with pytest.raises(ValueError, match="not the journal of a search"):
        quiet(valley, journal=other)
    assert other.read_text() == "dear diary\n"
    assert journal.read_bytes() == before
    with pytest.raises(IsADirectoryError):
        quiet(valley, journal=tmp_path)


def test_errors_of_trials() -> None:
    def sometimes(trial: Trial) -> float:
        if trial["n"] == 2:
            raise ValueError("two is too few")
        return float("nan") if trial["n"] == 1 else valley(trial)

    found = quiet(sometimes, trials=20)
    assert {r.params["n"] for r in found.done} <= {3, 4}
    assert "failed: ValueError: two is too few (test_search.py:" in str(found)
    with pytest.raises(RuntimeError, match="no trial has a value; the first: ZeroDivisionError"):
        quiet(lambda trial: 1 / 0, trials=2)


# -------------------------------------------------------------------------------- processes


def test_several_processes(tmp_path: Path) -> None:
    here = os.getpid()

    def elsewhere(trial: Trial) -> float:
        assert os.getpid() != here
        assert trial.folder is not None
        (trial.folder / "note").write_text("kept")
        if trial.number == 3:
            os._exit(7)  # a process that dies is one trial that fails
        return valley(trial)

    journal = tmp_path / "search.jsonl"
    found = quiet(elsewhere, trials=8, workers=2, journal=journal)
    assert sorted(r.number for r in found.results) == list(range(8))
    (failed,) = [r for r in found.results if r.error]
    assert (failed.number, failed.error) == (3, "the process of the trial ended with code 7")
    alone = {r.number: r.value for r in quiet(valley, trials=8).results}
    assert {r.number: r.value for r in found.done} == {k: v for k, v in alone.items() if k != 3}
    assert len(list((tmp_path / "search.trials").glob("trial-*/note"))) == 8


PROGRAM = """
import sys, time
from livegrad.train import Float, search
def slow(trial):
    time.sleep(0.15)
    return trial["x"]
search(slow, {"x": Float(0, 1)}, trials=60, workers=2, journal=sys.argv[1], show=False)
"""


def test_a_search_that_is_killed_goes_on(tmp_path: Path) -> None:
    journal = tmp_path / "search.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(journal)], stdout=subprocess.PIPE
    )
    while not journal.exists() or journal.read_bytes().count(b"\n") < 4:
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=60)  # until its own processes, which could write too, have ended
    before = journal.read_bytes().count(b"\n") - 1
    assert 3 <= before < 60
    found = quiet(lambda t: t["x"], {"x": Float(0, 1)}, trials=60, journal=journal)
    assert sorted(r.number for r in found.results) == list(range(60))


# ------------------------------------------------------------------------- tables and plots


def test_table_and_plot(tmp_path: Path, capsys: Any) -> None:
    found = quiet(valley, trials=6)
    lines = str(found).splitlines()
    assert lines[0].split() == ["trial", "x", "n", "kind", "value", "time"]
    assert len(lines) == 2 + 6
    assert lines[2].split()[0] == str(found.best.number)
    found.show(limit=2)
    assert "6 results" in capsys.readouterr().out
    found.plot(tmp_path / "search.svg")
    assert "best so far" not in (tmp_path / "search.svg").read_text()  # one line needs no name
    assert (tmp_path / "search.svg").read_text().startswith("<svg")


def test_reports_are_kept(tmp_path: Path) -> None:
    def reporting(trial: Trial) -> float:
        for step in range(3):
            trial.report(step, trial["x"] * step)
        return valley(trial)

    journal = tmp_path / "search.jsonl"
    found = quiet(reporting, trials=2, journal=journal)
    again = quiet(reporting, trials=2, journal=journal)
    assert [r.reports for r in again.results] == [r.reports for r in found.results]
    assert len(found.results[0].reports) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "expected one of random, grid, halving, bayes"),
        ({"trials": 0}, "expected 1 or more"),
        ({"workers": 0}, "expected 1 or more"),
        ({"mode": "best"}, "mode"),
        ({"method": "halving", "budget": (3, 1)}, "0 < least <= most"),
        ({"space": {}}, "expected a space"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    space = options.pop("space", SPACE)
    with pytest.raises(ValueError, match=message):
        quiet(valley, space, **options)


def test_refused_spaces() -> None:
    with pytest.raises(TypeError, match="expected Float, Int or Choice"):
        quiet(valley, {"x": [1, 2]})
    with pytest.raises(ValueError, match="low < high"):
        Float(2, 1)
    with pytest.raises(ValueError, match="more than 0"):
        Int(0, 8, log=True)
    with pytest.raises(TypeError, match="Give names"):
        Choice(max, min)
