"""Measurements, their tables and their texts are those of PyTorch."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import livegrad.utils.benchmark as ours

theirs = pytest.importorskip("torch.utils.benchmark")


def measured(b: Any, times: list[float], number: int = 1, **spec: Any) -> Any:
    return b.Measurement(
        number_per_run=number,
        raw_times=list(times),
        task_spec=b.TaskSpec(stmt="f(x)", setup="x = 3", **spec),
    )


SAMPLES = [
    [1e-3 * (1 + 0.01 * i) for i in range(20)],
    [1e-6, 2e-6, 5e-6],
    [3.2e-7] * 5,
    [2.5],
    [1e-5 * (1 + 0.06 * i) for i in range(9)],
    [1e-6 * 1.5**i for i in range(9)],
    list(np.random.default_rng(0).normal(1e-4, 1e-6, 50)),
    list(np.random.default_rng(1).normal(1.0, 1e-5, 50)),
]


@pytest.mark.parametrize("place", range(len(SAMPLES)))
@pytest.mark.parametrize("number", [1, 100])
def test_measurements(place: int, number: int) -> None:
    spec = {"label": "task", "sub_label": "part", "description": "way", "num_threads": 2}
    a, b = [measured(m, SAMPLES[place], number, **spec) for m in (theirs, ours)]
    for name in ("mean", "median", "iqr", "times"):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name))
    for name in ("significant_figures", "title", "env", "as_row_name", "num_threads", "stmt"):
        assert getattr(b, name) == getattr(a, name)
    assert b.meets_confidence() == a.meets_confidence()
    assert repr(b).split("\n")[1:] == repr(a).split("\n")[1:]
    assert b.has_warnings == a.has_warnings
    assert b.task_spec.summarize() == a.task_spec.summarize()


def many(b: Any) -> list[Any]:
    found = []
    for name, size in (("small", 1e-6), ("medium", 3.7e-5), ("large", 1e-3)):
        for way, factor in (("first", 1), ("second", 3), ("third", 1.02)):
            for threads in (1, 2):
                times = [factor * size * (1 + 1e-3 * i) / threads for i in range(9)]
                spec = {"label": "task", "sub_label": name, "description": way}
                found.append(measured(b, times, num_threads=threads, **spec))
    noisy = {"label": "task", "sub_label": "noisy", "description": "first"}
    return [
        *found,
        measured(b, SAMPLES[5], **noisy),
        measured(b, [1.5e-3] * 5, label="other", description="x"),
    ]


def changes(which: str, table: Any) -> None:
    if "trim" in which:
        table.trim_significant_figures()
    if "columns" in which:
        table.colorize()
    if "rows" in which:
        table.colorize(rowwise=True)
    if "warn" in which:
        table.highlight_warnings()


@pytest.mark.parametrize("which", ["plain", "trim", "warn", "columns", "rows", "trim warn rows"])
def test_tables(which: str) -> None:
    tables = [m.Compare(many(m)) for m in (theirs, ours)]
    for table in tables:
        changes(which, table)
    wanted, found = [[x.rstrip() for x in str(t).splitlines()] for t in tables]
    if "columns" in which or "rows" in which:  # where colours are, and what is good
        pattern = re.compile(r"\x1b\[92m\x1b\[1m *([\d.]+)")
        assert pattern.findall("\n".join(found)) == pattern.findall("\n".join(wanted))
        colours = re.compile(r"\x1b\[\d+m")
        wanted, found = [[colours.sub("", x) for x in lines] for lines in (wanted, found)]
    if "warn" in which:  # notes are laid out otherwise
        wanted, found = [[re.sub("[- ]+", " ", x) for x in lines] for lines in (wanted, found)]
    assert found == wanted


def test_merging() -> None:
    for b in (theirs, ours):
        first, second, third = [
            measured(b, s, 2, label=x) for s, x in zip(SAMPLES[:3], "aab", strict=True)
        ]
        merged = b.Measurement.merge([first, second, third])
        assert [len(m.raw_times) for m in merged] == [23, 5]
        assert merged[0].number_per_run == 1


@pytest.mark.parametrize("name", ["Timer", "Measurement", "Compare", "TaskSpec", "Fuzzer",
                                  "FuzzedParameter", "ParameterAlias"])  # fmt: skip
def test_parameters(name: str) -> None:
    wanted = inspect.signature(getattr(theirs, name)).parameters.values()
    found = inspect.signature(getattr(ours, name)).parameters.values()
    assert [(p.name, p.kind) for p in found] == [(p.name, p.kind) for p in wanted]
    for p, q in zip(found, wanted, strict=True):
        if p.name not in ("timer", "language"):
            assert p.default == q.default


@pytest.mark.parametrize("t", [3e-9, 5e-7, 3e-5, 0.002, 0.5, 70.0])
def test_units(t: float) -> None:
    assert ours.select_unit(t) == theirs.select_unit(t)
    assert ours.unit_to_english(ours.select_unit(t)[0]) == theirs.unit_to_english(
        theirs.select_unit(t)[0]
    )
    for n in (1, 2, 3):
        assert ours.trim_sigfig(t * 1.2345, n) == pytest.approx(theirs.trim_sigfig(t * 1.2345, n))
