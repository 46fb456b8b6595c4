"""Imports point one way: each layer knows the ones below it, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "livegrad"

# From the bottom up; names on one line do not know each other.
LAYERS = (
    {"__about__", "backends", "dtypes", "device", "datasets", "environment", "native"},
    {"settings", "temporary"},
    {"graph"},
    {"random"},
    {"ops"},
    {"compiler"},
    {"runtime"},
    {"creation", "printing"},
    {"sequences"},
    {"autograd", "fft", "linalg", "masked", "methods", "signal", "special"},
    {"introspection", "legacy"},
    {"subclassing"},
    {"tensor"},
    {"accelerator", "mps", "storage", "typed", "typing"},
    {"func"},
    {"distributions", "nn"},
    {"amp", "multiprocessing", "optim", "overrides", "serialization", "testing"},
    {"_C"},
    {"cuda"},
    {"lint", "utils"},
    {"train"},
    {"__init__"},
    {"array_api"},
    {"demo"},
    {"cli"},
    {"__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
CORE = {"graph", "ops", "compiler", "runtime"}


def part_of(file: Path) -> str:
    """The name directly below livegrad/ that a file belongs to."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(node: ast.AST) -> Iterator[str]:
    """The parts of livegrad that an import statement names."""
    if isinstance(node, ast.ImportFrom) and node.module == "livegrad":
        for alias in node.names:
            yield alias.name if alias.name in LEVEL else "__init__"
    elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("livegrad."):
        yield str(node.module).split(".")[1]
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "livegrad":
                yield (alias.name.split(".")[1:] or ["__init__"])[0]


def test_every_part_has_a_layer() -> None:
    assert {part_of(f) for f in PACKAGE.rglob("*.py")} == set(LEVEL)


def test_imports_point_down() -> None:
    for file in sorted(PACKAGE.rglob("*.py")):
        here = part_of(file)
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            for there in imported(node):
                where = f"{file.relative_to(PACKAGE)}:{node.lineno}"
                assert there == here or LEVEL[there] < LEVEL[here], f"{where} imports {there}"


def test_the_core_knows_no_modules() -> None:
    """Not even inside functions, where other imports may point up to break a cycle."""
    for file in sorted(PACKAGE.rglob("*.py")):
        if part_of(file) in CORE:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                assert not {"nn", "optim", "demo"} & set(imported(node)), file
