"""Errors found at a flush show the user's lines: where a value was read, and what was recorded."""

from __future__ import annotations

import os
import sys
import traceback

import pytest

import livegrad as lg
import livegrad.nn.functional as F

RUNTIME = os.path.join("livegrad", "runtime")
PROGRAM = """
import livegrad as lg
import livegrad.nn.functional as F

def model(words):
    return F.embedding(words, lg.zeros(3, 2))

y = model(lg.tensor([9]) * 1)  # not known yet
z = y + 1
print(z.sum().item())
"""


def recorded() -> lg.Tensor:
    return F.embedding(lg.tensor([9]) * 1, lg.zeros(3, 2))  # the line to be found


def test_a_program_that_ends_with_it_shows_its_own_lines_only(python, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    source = f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')"
    shown = python(source, check=False).stderr
    assert "livegrad/" not in shown
    lines = shown.splitlines()
    (last,) = [i for i, line in enumerate(lines) if "in model" in line]
    assert lines[last] == f'  File "{file}", line 6, in model'
    assert lines[last + 1].strip() == "return F.embedding(words, lg.zeros(3, 2))"
    assert lines[last + 2].startswith("IndexError: ")
    assert any("print(z.sum().item())" in line for line in lines[:last])


def test_all_frames_if_they_are_asked_for(python):
    shown = python(PROGRAM, check=False, LIVEGRAD_TRACEBACK="full").stderr
    assert os.path.join(RUNTIME, "flush.py") in shown
    assert "IndexError" in shown


def test_other_errors_are_shown_as_ever(python):
    source = PROGRAM.replace("print(z", "try:\n    print(z").replace(
        "item())", "item())\nexcept IndexError:\n    lg.ones(2) @ lg.ones(3)"
    )
    shown = python(source, check=False).stderr
    assert "During handling of the above exception" in shown
    assert "RuntimeError" in shown


@pytest.mark.parametrize("times", [1, 40])
def test_the_traceback_ends_at_the_line_that_recorded(times):
    for _ in range(times):  # the same plan again, found natively
        y = recorded()
        with pytest.raises(IndexError) as raised:
            y.tolist()
    entries = traceback.extract_tb(raised.value.__traceback__)
    assert entries[-1].filename == __file__
    assert entries[-1].name == "recorded"
    assert "# the line to be found" in entries[-1].line
    assert not [entry for entry in entries if RUNTIME in entry.filename]
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_a_hook_of_somebody_elses_stays(monkeypatch):
    def hook(*error: object) -> None: ...

    monkeypatch.setattr(sys, "excepthook", hook)
    with pytest.raises(IndexError):
        recorded().tolist()
    assert sys.excepthook is hook
