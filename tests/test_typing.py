"""What a type checker, and so an editor, knows of a program that uses livegrad."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import livegrad

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "livegrad"

PROGRAM = """
from typing import Any, assert_type

import numpy as np

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim
from livegrad.nn import Parameter


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x: Tensor, scale: float = 1.0) -> tuple[Tensor, float]:
        return self.layer(x) * scale, scale


x = lg.zeros(3)
assert_type(x, Tensor)
assert_type(lg.tensor([1.0]), Tensor)
assert_type(lg.relu(x), Tensor)
assert_type(lg.sin_(x), Tensor)
assert_type(x + 1, Tensor)
assert_type(2.0 - x, Tensor)
assert_type(x * np.float32(2), Tensor)
assert_type(-x @ x, Tensor)
assert_type(x == x, Tensor)
assert_type(x[0], Tensor)
assert_type(x.sum(), Tensor)
assert_type(x.add_(1), Tensor)
assert_type(x.prod(0, keepdim=True), Tensor)
assert_type(x.to(lg.float64), Tensor)
assert_type(x.T, Tensor)
assert_type(x.grad, Tensor | None)
assert_type(x.shape, lg.Size)
assert_type(x.size(), lg.Size)
assert_type(x.size(0), int)
assert_type(x.dtype, lg.dtype)
assert_type(x.device, lg.device)
assert_type(x.requires_grad_(), Tensor)
assert_type(lg.max(x), Tensor)
assert_type(lg.max(x, 0).values, Tensor)
assert_type(lg.max(x, x), Tensor)
assert_type(x.median(0).indices, Tensor)
assert_type(lg.where(x > 0), tuple[Tensor, ...])
assert_type(lg.where(x > 0, x, 0.0), Tensor)
assert_type(lg.stack([x, x]), Tensor)
assert_type(lg.sort(x)[0], Tensor)
assert_type(lg.linalg.svd(x).S, Tensor)
assert_type(lg.fft.fft(x), Tensor)
assert_type([row for row in x], list[Tensor])

assert_type(nn.Linear(2, 3)(x), Tensor)
assert_type(nn.Linear(2, 3).weight, Parameter)
assert_type(nn.CrossEntropyLoss()(x, x), Tensor)
assert_type(Net()(x), tuple[Tensor, float])
assert_type(Net()(x, scale=2.0), tuple[Tensor, float])
assert_type(F.cross_entropy(x, x), Tensor)
assert_type(F.max_pool2d(x, 2), Tensor)
assert_type(F.max_pool2d(x, 2, return_indices=True), tuple[Tensor, Tensor])
assert_type(optim.SGD([x], lr=0.1), optim.SGD)
chosen = F.relu if x.ndim else nn.ReLU()

# Mistakes: an ignored error that is none is an error.
lg.relo(x)  # type: ignore[attr-defined]
x.summ()  # type: ignore[attr-defined]
x + "1"  # type: ignore[arg-type]
lg.relu("x")  # type: ignore[arg-type]
nn.Linear(2, 3)("x")  # type: ignore[arg-type]
Net()(x, "large")  # type: ignore[arg-type]
"""


@pytest.mark.slow
def test_a_type_checker_knows_what_functions_give(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--cache-dir", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, program],
        env={**os.environ, "MYPYPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_tensor_is_a_class_everywhere() -> None:
    for file in PACKAGE.rglob("*.py"):
        assert not re.search(r"^Tensor\b.*= Any", file.read_text(encoding="utf-8"), re.M), file


def test_names_for_type_checkers_exist() -> None:
    """Some names `livegrad` finds when they are first used: checkers are told of them."""
    source = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    told = set()
    for node in source.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for item in node.body:
                if isinstance(item, ast.ImportFrom):
                    told |= {alias.asname or alias.name for alias in item.names}
                elif isinstance(item, ast.Assign):
                    told |= {ast.unparse(target) for target in item.targets}
    assert {"nn", "optim", "vmap", "sin_"} <= told
    assert [name for name in sorted(told) if not hasattr(livegrad, name)] == []
    assert set(livegrad._SUBPACKAGES) - told == {"_C", "special"}
