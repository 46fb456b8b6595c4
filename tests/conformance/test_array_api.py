"""The floor of the standard's suite holds, if its checkout is there; `array_api.py` runs all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conformance import array_api  # noqa: E402

COMMAND = [sys.executable, "-m", "tests.conformance.array_api"]


@pytest.mark.skipif(array_api.VARIABLE not in os.environ, reason="needs a checkout of the suite")
def test_not_below_the_floor() -> None:
    done = subprocess.run(COMMAND, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_without_a_checkout_it_says_so() -> None:
    environment = {k: v for k, v in os.environ.items() if k != array_api.VARIABLE}
    done = subprocess.run(COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert array_api.VARIABLE in done.stderr
    assert "git clone" in done.stderr


def test_every_failure_has_a_reason() -> None:
    failures = array_api.read_floor()["failures"]
    assert [test for test, reason in failures.items() if reason is None] == []


def test_the_page_says_what_the_floor_says() -> None:
    wanted = array_api.page(array_api.read_floor())
    assert array_api.PAGE.read_text() == wanted, (
        "run python -m tests.conformance.array_api --numpy --write"
    )
