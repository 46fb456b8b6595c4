"""The demo learns to read digits, and says so."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from livegrad.demo import loss_curve, round_step

COMMAND = [sys.executable, "-W", "error", "-m", "livegrad", "demo"]
Environment = Callable[..., dict[str, str]]


def run_demo(folder: Path, env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )


@pytest.mark.slow
def test_demo_reads_digits(tmp_path: Path, child_environment: Environment) -> None:
    done = run_demo(tmp_path, child_environment())
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = re.search(r"test accuracy +([\d.]+)%", done.stdout)
    assert found is not None
    assert float(found[1]) >= 97
    curve = (tmp_path / "livegrad-demo-loss.svg").read_text(encoding="utf-8")
    assert "loss curve saved" in done.stdout
    assert ElementTree.fromstring(curve).tag.endswith("svg")


@pytest.mark.parametrize("options", [("--epochs", "0"), ("--out", "no/such/folder/curve.svg")])
def test_wrong_options_are_explained(
    options: tuple[str, str], tmp_path: Path, child_environment: Environment
) -> None:
    done = run_demo(tmp_path, child_environment(), *options)
    assert done.returncode == 2
    assert options[0] in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("steps", [1, 2, 7, 920])
def test_loss_curve_of_any_length(steps: int) -> None:
    curve = loss_curve([0.5 + 1 / (1 + step) for step in range(steps)])
    assert ElementTree.fromstring(curve).tag.endswith("svg")
    assert "nan" not in curve


@pytest.mark.parametrize(("count", "step"), [(1, 1), (6, 1), (7, 2), (30, 5), (920, 200)])
def test_ticks_are_round(count: int, step: int) -> None:
    assert round_step(count) == step
