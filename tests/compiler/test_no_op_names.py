"""No pass knows an op: what the compiler and the runtime ask, a record or its lowering answers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import livegrad.compiler
import livegrad.runtime

FOLDERS = [Path(p.__path__[0]) for p in (livegrad.compiler, livegrad.runtime)]
# What names an op: itself, its name, and what is told apart by names.
NAMES = ("op", "name", "lower", "lowered", "combine")


def is_op(x: ast.AST) -> bool:
    """Whether an expression is an op, as `op` or `node.op`."""
    return getattr(x, "attr", getattr(x, "id", None)) == "op"


def names_op(x: ast.AST) -> bool:
    """Whether an expression is an op or one of its names: `node.op`, `op.name`."""
    return is_op(x) or (isinstance(x, ast.Attribute) and x.attr in NAMES and is_op(x.value))


def is_none(x: ast.AST) -> bool:
    return isinstance(x, ast.Constant) and x.value is None


def asks(x: ast.AST) -> bool:
    """Whether an expression asks which op it has."""
    if isinstance(x, ast.Compare):
        sides = [x.left, *x.comparators]
        return any(map(names_op, sides)) and not any(map(is_none, sides))
    if isinstance(x, ast.Subscript):
        if getattr(x.value, "id", "") == "REGISTRY":  # where a name becomes an op
            return isinstance(x.slice, ast.Constant)
        return names_op(x.slice)
    if isinstance(x, ast.Call) and getattr(x.func, "attr", "") == "get":
        return any(map(names_op, x.args))
    return isinstance(x, ast.Match) and names_op(x.subject)


def questions(source: str) -> Iterator[tuple[int, str]]:
    """Lines of a file that ask for an op."""
    for x in ast.walk(ast.parse(source)):
        if asks(x):
            yield x.lineno, ast.unparse(x).splitlines()[0]  # type: ignore[attr-defined]


def test_what_is_a_question() -> None:
    for line in (
        "node.op is MATMUL",
        "x.op not in (A, B)",
        "node.op.name == 'cat'",
        "op.lower in SCANS",
        "RULES.get(node.op.name)",
        "RULES[op]",
        "REGISTRY['full']",
        "op is WIDE and other",
    ):
        assert list(questions(line)), line
    for line in ("node.op.kind == 'reduce'", "op.expand is None", "REGISTRY[name]", "op.cheap"):
        assert not list(questions(line)), line


def test_no_pass_asks_for_an_op() -> None:
    found = [
        f"{file.relative_to(folder.parent)}:{line}: {text}"
        for folder in FOLDERS
        for file in sorted(folder.rglob("*.py"))
        for line, text in questions(file.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)
