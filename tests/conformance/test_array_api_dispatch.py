"""Tensors go through scikit-learn's and SciPy's array-API dispatch and come out as tensors.

The cases are in `dispatch_cases.py`. SciPy looks at SCIPY_ARRAY_API when it is imported, so each
library runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("library", ["scipy", "sklearn"])
def test_dispatch(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.dispatch_cases", library],
        cwd=ROOT,
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "agree" in done.stdout
