"""What is stored of a translation depends on the files that it was made from."""

from __future__ import annotations

import inspect
from dataclasses import fields
from types import FunctionType
from typing import Any

import pytest

import livegrad as lg
from livegrad.graph.op import REGISTRY
from livegrad.native import hot, stored


def is_in_digest(module: str) -> bool:
    """Whether a file that is changed makes what was stored unknown."""
    package, *folders = module.split(".")
    return package == "livegrad" and (len(folders) < 2 or folders[0] in stored.COMPILED_FROM)


def functions_of(x: Any) -> list[FunctionType]:
    if isinstance(x, FunctionType):
        return [x]
    return [f for y in x for f in functions_of(y)] if type(x) in (tuple, list) else []


def test_rules_of_ops_and_hot_functions_are_in_the_digest():
    assert lg.nn is not None
    rules = {
        f.__module__
        for op in REGISTRY.values()
        for name in [field.name for field in fields(op)]
        if name not in ("ref", "samples", "cache", "lower")
        for f in functions_of(getattr(op, name))
    }
    marked = {f.__module__ for f in hot.FUNCTIONS}
    ours = {module for module in rules | marked if module.startswith("livegrad.")}
    assert len(ours) > 50
    assert [module for module in sorted(ours) if not is_in_digest(module)] == []


@pytest.mark.parametrize("name", ["tensor.py", "ops/products/matmul.py", "compiler/fuse.py"])
def test_a_changed_file_changes_the_digest(tmp_path, monkeypatch, name):
    package = tmp_path / "livegrad"
    for file in ("tensor.py", "ops/products/matmul.py", "compiler/fuse.py", "vision/models.py"):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text("x = 1\n")
    (package / "native").mkdir()
    monkeypatch.setattr(stored, "__file__", str(package / "native" / "stored.py"))
    digest = inspect.unwrap(stored.sources)
    before = digest()
    (package / "vision" / "models.py").write_text("x = 12345\n")
    assert digest() == before
    (package / name).write_text("x = 12345\n")
    assert digest() != before
