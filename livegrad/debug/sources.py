"""The user's files: which definitions they have, and new ones in the place of old ones.

What runs is never imported again: a file may be the program itself, with its training loop. Only
definitions are taken from it, one by one, and put into the objects that are there:

    class Net: …     methods of the new class become methods of the old one: its instances have them
    def helper(): …  the old function gets the new code: whoever has imported it has it too
    import, N = 3    done again where they are new or changed
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

Undo = list[Callable[[], None]]
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# What a class has of its own accord.
_KEPT = {"__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__"}


class Source:
    """A file of the user's, as it was when it was read last."""

    def __init__(self, file: str, module: ModuleType) -> None:
        self.file, self.module = file, module
        self.seen = self._stamp()
        self.tree = ast.parse(Path(file).read_bytes())

    def _stamp(self) -> tuple[int, int]:
        try:
            found = Path(self.file).stat()
        except OSError:  # an editor is about to put the new file there
            return self.seen if hasattr(self, "seen") else (0, 0)
        return found.st_mtime_ns, found.st_size

    def has_changed(self) -> bool:
        """Whether the file is another than the one that was looked at last."""
        stamp = self._stamp()
        if stamp == self.seen:
            return False
        self.seen = stamp
        return True

    def read(self) -> Changes:
        """What is new in the file; SyntaxError if it is none."""
        tree = ast.parse(Path(self.file).read_bytes(), self.file)
        return Changes(self, tree)


class Changes:
    """A new text of a file: which of its definitions are others than before."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source, self.tree = source, tree
        before, after = _definitions(source.tree), _definitions(tree)
        self.names = [
            name for name, node in after.items() if _text(before.get(name)) != _text(node)
        ]
        self.rebuilt = [
            name
            for name in self.names
            if isinstance(after[name], ast.ClassDef)
            and _making(before.get(name)) != _making(after[name])
        ]
        self._after = after
        known = {_text(node) for node in source.tree.body}
        # Imports and constants that are new, or others than before.
        self._statements = [x for x in tree.body if _text(x) not in known and _is_harmless(x)]
        self.names += [name for node in self._statements for name in _assigned(node)]

    def apply(self, undo: Undo) -> None:
        """Puts the new definitions into the place of the old; `undo` is how to take it back."""
        module = self.source.module
        linecache.checkcache(self.source.file)
        self._do_statements(undo)
        found: dict[str, Any] = {}
        body: list[ast.stmt] = sorted(self._after.values(), key=lambda node: node.lineno)
        code = compile(ast.Module(body, []), self.source.file, "exec", dont_inherit=True)
        exec(code, vars(module), found)
        twins = {
            new: vars(module).get(name) for name, new in found.items() if isinstance(new, type)
        }
        for name, new in found.items():
            old = vars(module).get(name)
            if isinstance(old, type) and isinstance(new, type):
                _replace_class(old, new, undo)
                _replace_bases(old, tuple([twins.get(x) or x for x in new.__bases__]), undo)
            elif isinstance(old, FunctionType) and _can_take(old, new):
                _replace_code(old, new, undo)
            else:
                _assign(module, name, new, undo)
        before, self.source.tree = self.source.tree, self.tree
        undo.append(lambda: setattr(self.source, "tree", before))

    def _do_statements(self, undo: Undo) -> None:
        module = self.source.module
        for node in self._statements:
            found: dict[str, Any] = {}
            code = compile(ast.Module([node], []), self.source.file, "exec", dont_inherit=True)
            exec(code, vars(module), found)
            for name, value in found.items():
                _assign(module, name, value, undo)


def _definitions(tree: ast.Module) -> dict[str, Any]:
    return {node.name: node for node in tree.body if isinstance(node, _DEFINITIONS)}


def _text(node: ast.AST | None) -> str:
    return "" if node is None else ast.dump(node)


def _init(node: Any) -> ast.AST | None:
    """What says how instances are made: `__init__`."""
    if not isinstance(node, ast.ClassDef):
        return None
    return next((x for x in node.body if getattr(x, "name", "") == "__init__"), None)


def _making(node: Any) -> tuple[str, ...]:
    """What instances of a class depend on: `__init__`, and the classes that it may come from."""
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return (_text(_init(node)), *[_text(base) for base in bases])


def _is_harmless(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
    if not _assigned(node):
        return False
    try:
        ast.literal_eval(node.value)  # type: ignore[attr-defined]
    except ValueError:
        return False
    return True


def _assigned(node: ast.stmt) -> list[str]:
    """The names that a statement gives a value to: `N = 3`, `a = b = 1`, `N: int = 3`."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        targets: list[ast.expr] = [node.target]
    elif isinstance(node, ast.Assign):
        targets = node.targets
    else:
        return []
    names = [x.id for x in targets if isinstance(x, ast.Name)]
    return names if len(names) == len(targets) else []


def _assign(module: ModuleType, name: str, value: Any, undo: Undo) -> None:
    names = vars(module)
    if name in names:
        undo.append(lambda before=names[name]: names.__setitem__(name, before))  # type: ignore[misc]
    else:
        undo.append(lambda: names.pop(name, None))
    names[name] = value


def _can_take(old: FunctionType, new: Any) -> bool:
    return (
        isinstance(new, FunctionType)
        and old.__code__.co_freevars == new.__code__.co_freevars == ()
        and not hasattr(old, "__wrapped__")
    )


def _replace_code(old: FunctionType, new: FunctionType, undo: Undo) -> None:
    names = ("__code__", "__defaults__", "__kwdefaults__", "__doc__", "__annotations__")
    before = {name: getattr(old, name) for name in names}
    for name in names:
        setattr(old, name, getattr(new, name))

    def put_back() -> None:
        for name, value in before.items():
            setattr(old, name, value)

    undo.append(put_back)


def _replace_class(old: type, new: type, undo: Undo) -> None:
    """Gives a class the attributes of another, whose methods then belong to it."""
    for value in vars(new).values():
        _belong(value, new, old)
    before = {name: x for name, x in vars(old).items() if name not in _KEPT}
    after = {name: x for name, x in vars(new).items() if name not in _KEPT}

    def put_back() -> None:
        for name in vars(old).keys() - _KEPT - before.keys():
            delattr(old, name)
        for name, value in before.items():
            setattr(old, name, value)

    undo.append(put_back)
    for name in before.keys() - after.keys():
        delattr(old, name)
    for name, value in after.items():
        setattr(old, name, value)


def _replace_bases(old: type, bases: tuple[type, ...], undo: Undo) -> None:
    """Gives a class other bases; Python refuses those whose instances lie in memory otherwise."""
    before = old.__bases__
    if bases != before:
        old.__bases__ = bases
        undo.append(lambda: setattr(old, "__bases__", before))


def _belong(value: Any, new: type, old: type) -> None:
    """What `super()` without arguments means in methods of a class: the class they are put into."""
    inner = [getattr(value, name, None) for name in ("fget", "fset", "fdel", "__func__")]
    for function in (value, *inner):
        for cell in getattr(function, "__closure__", None) or ():
            try:
                if cell.cell_contents is new:
                    cell.cell_contents = old
            except ValueError:  # not filled yet
                continue


def module_of(kind: type | FunctionType) -> ModuleType | None:
    """The module in which a class or a function was defined."""
    return sys.modules.get(kind.__module__)


__all__ = ["Changes", "Source", "Undo", "module_of"]
