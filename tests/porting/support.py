"""Programs run by `python` and by `livegrad run`, side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(
    *args: str, cwd: Path, text: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs the interpreter with livegrad on its path."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *args], cwd=cwd, input=text, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": path, "LIVEGRAD_LINT": "off", **env},
    )  # fmt: skip


def run(*args: str, cwd: Path, **options: str) -> subprocess.CompletedProcess[str]:
    """`livegrad run` with these arguments."""
    return python("-m", "livegrad", "run", *args, cwd=cwd, **options)


def write(directory: Path, **files: str) -> None:
    """Writes modules by their names."""
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
