"""`livegrad check` finds names of torch in a program that it does not run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from livegrad.porting.checking import Reader, Report, check, is_there
from tests.porting.support import python, write


def names(text: str) -> set[str]:
    return {use.name for use in Reader("x.py").read(ast.parse(text))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\ntorch.nn.Linear(2, 3).weight", "torch torch.nn.Linear"),
        ("import torch as t\nt.ones(2).sum()", "torch torch.ones"),
        ("import torch.nn.functional as F\nF.relu(F.absent)",
         "torch.nn.functional torch.nn.functional.relu torch.nn.functional.absent"),
        ("from torch import nn, Tensor as T\nnn.init.zeros_(T.sum)",
         "torch torch.nn torch.Tensor torch.nn.init.zeros_ torch.Tensor.sum"),
        ("import torch.nn\ntorch.optim.SGD", "torch.nn torch.optim.SGD"),
        ("import torch\ntorch.pi.real.imag", "torch torch.pi"),
        ("import torchvision, torches\ntorches.x", ""),
        ("torch = 3\ntorch.x", ""),
        ("from . import torch\ntorch.x", ""),
        ("def f():\n    import torch\n    return torch.absent.x", "torch torch.absent"),
        ("from torch.utils import data\nfor data in []:\n    data.to(3)",
         "torch.utils torch.utils.data"),
    ],
)  # fmt: skip
def test_names_are_read(text: str, expected: str) -> None:
    assert names(text) == set(expected.split())


def test_what_is_there() -> None:
    for name in (
        "torch",
        "torch.nn.Linear",
        "torch.Tensor.cuda",
        "torch.newaxis",
        "torch.jit.script",
    ):
        assert is_there(name), name
    for name in (
        "torch.nothing",
        "torch.nn.nothing.at_all",
        "torch.Tensor.nothing",
        "torch.explain",
    ):
        assert not is_there(name), name


def test_a_program_is_read_with_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    write(
        tmp_path,
        script="import a, json\nfrom package import b\nraise SystemExit",
        a="import torch\ntorch.absent",
    )
    write(tmp_path / "package", __init__="", b="from .c import x", c="import torch\ntorch.lacking")
    found = check(str(tmp_path / "script.py"))
    assert [(Path(use.file).name, use.name) for use in found.missing()] == [
        ("a.py", "torch.absent"),
        ("c.py", "torch.lacking"),
    ]
    assert list(Report().lines()) == ["0 names of torch used, 0 there, 0 missing"]


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    write(
        tmp_path,
        good="import torch\ntorch.ones(2)",
        bad="import torch\n\ntorch.quantize_per_tensor",
        worse="x = (",
    )
    good = python("-m", "livegrad", "check", "good.py", cwd=tmp_path)
    assert (good.returncode, good.stdout) == (0, "2 names of torch used, 2 there, 0 missing\n")
    bad = python("-m", "livegrad", "check", "bad.py", "good.py", cwd=tmp_path)
    assert bad.returncode == 1
    assert bad.stdout.splitlines()[0].startswith(
        "bad.py:3: livegrad has no torch.quantize_per_tensor: there"
    )
    worse = python("-m", "livegrad", "check", "worse.py", cwd=tmp_path)
    assert worse.returncode == 1
    assert "worse.py:1:" in worse.stderr
    assert python("-m", "livegrad", "check", "absent.py", cwd=tmp_path).returncode == 2
