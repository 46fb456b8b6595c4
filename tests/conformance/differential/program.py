"""A program: lines of Python over `T`, which is PyTorch or livegrad.

Lines are plain text, so a program can be printed, run by hand, and shrunk by leaving lines out.
`check()` stands where everything is read and compared: a read is a flush, so its place matters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

CHECK = "check()"
GIVEN = frozenset({"T", "F", "log", "check"})
"""Names that every program finds: the library, its `nn.functional`, what hooks wrote, the check."""


@dataclass(frozen=True)
class Names:
    reads: frozenset[str]
    makes: frozenset[str]
    drops: frozenset[str]


@lru_cache(maxsize=4096)
def names(line: str) -> Names:
    """The variables that a line reads, makes and drops."""
    reads: set[str] = set()
    makes: set[str] = set()
    drops: set[str] = set()
    for statement in ast.parse(line).body:
        found = names_of(statement)
        reads |= found.reads - makes
        makes |= found.makes
        drops |= found.drops
    return Names(frozenset(reads), frozenset(makes), frozenset(drops))


def names_of(statement: ast.stmt) -> Names:
    found: dict[type, set[str]] = {ast.Load: set(), ast.Store: set(), ast.Del: set()}
    own: set[str] = set()  # of lambdas, comprehensions and loops
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            found[type(node.ctx)].add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.comprehension | ast.For):
            own |= {x.id for x in ast.walk(node.target) if isinstance(x, ast.Name)}
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found[ast.Load].add(node.target.id)
    return Names(
        frozenset(found[ast.Load] - own - GIVEN - _BUILTINS),
        frozenset(found[ast.Store] - own),
        frozenset(found[ast.Del]),
    )


_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


@lru_cache(maxsize=4096)
def code(line: str) -> CodeType:
    return compile(line, "<program>", "exec")


def complete(lines: Iterable[str]) -> list[str]:
    """The lines whose variables exist when they run: what remains when others are left out."""
    have: set[str] = set()
    kept = []
    for line in lines:
        used = names(line)
        if used.reads <= have and used.drops <= have:
            kept.append(line)
            have |= used.makes
            have -= used.drops
    return kept


def source(lines: Iterable[str]) -> str:
    """The program as a script: give it `torch` or `livegrad`."""
    return "\n".join(
        [
            "import sys, importlib",
            "T = importlib.import_module(sys.argv[1])  # torch or livegrad",
            "F = T.nn.functional",
            "log = []",
            "def check():",
            "    for name, x in list(globals().items()):",
            "        if isinstance(x, T.Tensor):",
            "            print(name, x, x.stride(), x.grad if x.is_leaf else None)",
            "",
            *lines,
        ]
    )
