"""Which names of torch a program uses, and which of them livegrad has: found without running it."""

from __future__ import annotations

import ast
import inspect
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from livegrad.porting import blame, hook, names


@dataclass(frozen=True)
class Use:
    """A name of torch, as a program writes it somewhere."""

    name: str
    file: str
    line: int


@dataclass
class Report:
    """The names that programs use, those that are missing among them, and where."""

    uses: list[Use] = field(default_factory=list)

    def used(self) -> list[str]:
        """All names, in the order of the alphabet."""
        return sorted({use.name for use in self.uses})

    def missing(self) -> list[Use]:
        """The first use of each name that is not there."""
        first = {use.name: use for use in reversed(self.uses)}
        return [first[name] for name in sorted(first) if not is_there(name)]

    def lines(self) -> Iterator[str]:
        """The report in words."""
        missing = self.missing()
        for use in missing:
            yield f"{use.file}:{use.line}: {blame.sentence(use.name, None)}"
        used = len(self.used())
        yield f"{used} names of torch used, {used - len(missing)} there, {len(missing)} missing"


def check(path: str) -> Report:
    """What a program uses of torch, with the modules beside it that it imports."""
    report = Report()
    seen: set[str] = set()
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        tree = ast.parse(Path(file).read_bytes(), file)
        report.uses += Reader(file).read(tree)
        waiting += _beside(tree, os.path.dirname(path), file)
    return report


def report_of_process() -> Report:
    """What the program and its modules use of torch; packages that are installed are left out."""
    report = Report()
    files = {str(getattr(module, "__file__", "")) for module in list(sys.modules.values())}
    for file in sorted(files):
        if file.endswith(".py") and os.path.exists(file) and not file.startswith(_installed()):
            source = Path(file).read_bytes()
            if b"torch" in source:
                report.uses += Reader(file).read(ast.parse(source, file))
    return report


@cache
def _installed() -> tuple[str, ...]:
    """Where packages are that are nobody's program."""
    places = [*site.getsitepackages(), sysconfig.get_path("stdlib"), blame.PACKAGE]
    return tuple(places + [p for p in sys.path if p.endswith("site-packages")])


def _beside(tree: ast.AST, directory: str, file: str) -> Iterator[str]:
    """The files of modules that are imported from the program's own directory."""
    for name in _imported(tree, file, directory):
        place = [directory or "."]
        parts = name.split(".")
        for last, part in enumerate(parts, 1):
            spec = PathFinder.find_spec(part, place)
            if spec is None:
                break
            if spec.origin and spec.origin.endswith(".py"):
                yield os.path.relpath(spec.origin) if not os.path.isabs(directory) else spec.origin
            if last < len(parts):
                place = list(spec.submodule_search_locations or ())


def _imported(tree: ast.AST, file: str, directory: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = _above(file, directory, node.level) if node.level else ""
            base = ".".join(filter(None, [above, node.module]))
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def _above(file: str, directory: str, level: int) -> str:
    """The package that an import with `level` dots begins at."""
    inside = os.path.relpath(os.path.dirname(file) or ".", directory or ".")
    parts = [] if inside == "." else inside.split(os.sep)
    return ".".join(parts[: len(parts) - level + 1])


class Reader(ast.NodeVisitor):
    """Collects the names of torch in one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.known: dict[str, str] = {}  # what names of the program stand for
        self.found: list[Use] = []

    def read(self, tree: ast.AST) -> list[Use]:
        """All uses in a file: first what is imported anywhere in it, then what is used of that."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._learn(node)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self._learn_from(node, node.module)
        for name in _bound(tree) & set(self.known):
            del self.known[name]  # it stands for other things as well, which nobody knows here
        self.visit(tree)
        return self.found

    def _learn(self, node: ast.Import) -> None:
        for alias in node.names:
            if names.is_torch(alias.name):
                self._add(alias.name, node)
                self.known[alias.asname or names.ROOT] = alias.name if alias.asname else names.ROOT

    def _learn_from(self, node: ast.ImportFrom, module: str) -> None:
        if not names.is_torch(module):
            return
        self._add(module, node)
        for alias in node.names:
            if alias.name != "*":
                name = f"{module}.{alias.name}"
                self._add(name, node)
                self.known[alias.asname or alias.name] = name

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """A chain such as `nn.init.zeros_`, if its beginning stands for something of torch."""
        parts: list[str] = []
        here: ast.expr = node
        while isinstance(here, ast.Attribute):
            parts.append(here.attr)
            here = here.value
        if isinstance(here, ast.Name) and here.id in self.known:
            if isinstance(node.ctx, ast.Load):
                self._add(".".join([self.known[here.id], *reversed(parts)]), node)
        else:
            self.generic_visit(node)

    def _add(self, name: str, node: Any) -> None:
        whole = shortened(name)
        self.found.append(Use(whole, self.file, node.lineno))


def _bound(tree: ast.AST) -> set[str]:
    """Names that a program gives to something else than what it imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
    return found


@cache
def shortened(name: str) -> str:
    """A name up to what is no module and no class: `torch.pi.real` is `torch.pi`."""
    for value, so_far in _walk(name):
        if value is None or not isinstance(value, ModuleType | type):
            return so_far
    return name


@cache
def is_there(name: str) -> bool:
    """Whether livegrad has what torch calls so."""
    return all(value is not None for value, _ in _walk(name)) or name in _IS_NONE


# What is there, and None.
_IS_NONE = {"torch.newaxis", "torch.version.cuda", "torch.version.hip"}


def _walk(name: str) -> Iterator[tuple[Any, str]]:
    """What the beginnings of a dotted name stand for; the first that is missing, as None."""
    parts = name.split(".")
    value: Any = torch()
    for last in range(1, len(parts)):
        path = ".".join(parts[: last + 1])
        value = _attribute(value, parts[last], path)
        yield value, path
        if value is None:
            return


def _attribute(owner: Any, name: str, path: str) -> Any:
    """An attribute, or a module that is imported for it; None if there is neither."""
    found = inspect.getattr_static(owner, name, None) if isinstance(owner, type) else None
    if found is not None:
        return found
    found = getattr(owner, name, None)
    if found is None and isinstance(owner, ModuleType):
        found = names.find(path)
    return found


@cache
def torch() -> ModuleType:
    """The module that programs get as `torch`, without importing it."""
    return hook.Torch()


def summary(reports: Iterable[Report]) -> Report:
    """Several reports as one."""
    return Report([use for report in reports for use in report.uses])
