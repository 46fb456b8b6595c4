"""Each pass by itself: what it makes of a few programs, as text, compared with the last time.

A pass that is changed on purpose: LIVEGRAD_SNAPSHOTS=write pytest tests/compiler/test_passes.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recording import data, recorded_of

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.compiler import debug, pipeline
from livegrad.compiler.draft import Draft
from livegrad.compiler.expand import Recorded

SNAPSHOTS = Path(__file__).parent / "snapshots"


def _gradient(x: Any, w: Any) -> Any:
    loss = F.mse_loss(lg.relu(x @ w), x[:, :4])
    loss.backward()
    return loss, w.grad


PROGRAMS: dict[str, Callable[..., Any]] = {
    "chain": lambda x, w: lg.tanh(lg.exp(x) * 2 + 1),
    "softmax": lambda x, w: lg.softmax(x, -1),
    "columns": lambda x, w: (x * 2).sum(0),
    "folds": lambda x, w: x.reshape(3, 5, 1).sum((0, 1)),
    "product": lambda x, w: F.linear(x, w.T.contiguous(), w[0]),
    "parts": lambda x, w: F.pad(lg.cat([x, x + 1], 1), (1, 0)),
    "write": lambda x, w: lg.index_put(w, (lg.tensor([1, 0]),), w[:2] * 2),
    "gather": lambda x, w: F.embedding(lg.tensor([[1, 0], [3, 3]]), w) + 1,
    "scan": lambda x, w: x.T.cumsum(0),
    "sort": lambda x, w: x.argsort(0),
    "host": lambda x, w: lg.special.airy_ai(x),
    "complex": lambda x, w: lg.fft.rfft(x)[:, 1].real,
    "gradient": _gradient,
}


def program(name: str) -> Recorded:
    return recorded_of(PROGRAMS[name], data(3, 5), data(5, 4).requires_grad_())


def without_lines(text: str) -> str:
    """Without the lines of the program, which say nothing about a pass."""
    return re.sub(r"^(  %\d+ = .*?)   \S.*$", r"\1", text, flags=re.MULTILINE)


def printed(recorded: Recorded) -> str:
    draft = Draft(recorded)
    text: list[str] = []
    for each in pipeline.PASSES:
        each.run(draft)
        each.check(draft)
        text += [f"{each.name}:", *each.text(draft), ""]
    return without_lines("\n".join(text))


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_make_what_they_made(name: str) -> None:
    file, text = SNAPSHOTS / f"{name}.txt", printed(program(name))
    if os.environ.get("LIVEGRAD_SNAPSHOTS") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_snapshots_are_of_programs() -> None:
    assert {file.stem for file in SNAPSHOTS.glob("*.txt")} == set(PROGRAMS)


def test_debugging_prints_after_each_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(debug, "_FLAGS", {"plan"})
    pipeline.compile_plan(program("softmax"))
    shown = without_lines(capsys.readouterr().err)
    assert shown.strip() == printed(program("softmax")).replace("\n\n", "\n").strip()


def test_a_pass_is_one_line_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    counting = pipeline.Pass(
        "count", lambda d: seen.append(len(d.groups)), lambda d: None, lambda d: []
    )
    index = [each.name for each in pipeline.PASSES].index("fuse") + 1
    passes = (*pipeline.PASSES[:index], counting, *pipeline.PASSES[index:])
    monkeypatch.setattr(pipeline, "PASSES", passes)
    pipeline.compile_plan(program("chain"))
    assert seen == [1]
