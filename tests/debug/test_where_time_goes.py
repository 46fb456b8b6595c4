"""`livegrad.profile()` and `livegrad profile`: the parts are the whole, by op, line and module."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn as nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(20, 30), nn.Linear(30, 5)

    def forward(self, x: Any) -> Any:
        return self.outer(self.inner(x).relu())


def steps(count: int) -> Any:
    model = Net()
    optimizer = lg.optim.Adam(model.parameters())
    x = lg.randn(8, 20)
    with lg.profile() as prof:
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return prof, model


def test_the_parts_are_the_whole() -> None:
    prof, _model = steps(40)
    assert sum(prof.parts.values()) == pytest.approx(prof.seconds, rel=0.05)
    assert prof.flushes >= 40
    for rows in (prof.by_op(), prof.by_line(), prof.by_module()):
        assert sum([row.seconds for row in rows]) == pytest.approx(prof.parts["kernels"], rel=1e-6)
        assert [row.seconds for row in rows] == sorted([r.seconds for r in rows], reverse=True)


def test_rows_have_the_programs_names() -> None:
    prof, _model = steps(40)
    ops = {row.name for row in prof.by_op()}
    assert {"matmul", "relu"} <= ops
    assert any("adam" in op for op in ops)
    assert any(row.name.startswith("test_where_time_goes.py:") for row in prof.by_line())
    assert "Net" in {row.name for row in prof.by_module()}
    text = str(prof)
    assert "Python and recording" in text
    assert "kernels by module" in text


def test_waiting_is_told_apart() -> None:
    with lg.profile() as prof:
        for _ in range(5):
            time.sleep(0.02)
            lg.ones(3).sum().item()
    assert prof.parts["waiting"] >= 0.09
    assert prof.parts["waiting"] > prof.parts["Python and recording"]


def test_nothing_listens_afterwards() -> None:
    from livegrad.graph import events

    steps(2)
    assert not events.RAN
    assert not events.BEGUN
    assert not events.PLANNED


def test_a_profile_that_raises_ends() -> None:
    with pytest.raises(ZeroDivisionError), lg.profile() as prof:
        lg.ones(3).sum().item()
        1 / 0
    assert prof.flushes == 1
    assert "unfinished" in str(lg.profile())


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import sys\nimport livegrad as lg\nprint(sys.argv[1:], (lg.ones(3) * 2).sum().item())\n"
    )
    command = [sys.executable, "-m", "livegrad", "profile", str(script), "--a", "b"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "['--a', 'b'] 6.0\n"
    assert "program.py:3" in ran.stderr
    assert "Python and recording" in ran.stderr
