"""Loops and comprehensions of the subset."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from livegrad.native.frame import Value
from livegrad.native.invocations import Invocations

Scope = dict[str, str]


class Loops(Invocations):
    """The translation of loops over anything: a list or tuple, which may grow, is counted through.

    A comprehension has a scope of its own, which begins when its first source is known.
    """

    def store(self, target: ast.expr, value: Value) -> None:
        """Assigns a value."""
        raise NotImplementedError

    def loop(
        self, target: ast.expr, source: ast.expr, body: Callable[[], None], scope: Scope
    ) -> None:
        """Runs `body` for each that `source` gives."""
        stop = self._argument_of(range, source)
        listed = self._argument_of(enumerate, source)
        if stop is not None:
            self._count(target, stop, body, scope)
        elif listed is not None and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            self._iterate(target.elts, listed, body, scope)
        else:
            self._iterate([target], source, body, scope)

    def _argument_of(self, function: Any, source: ast.expr) -> ast.expr | None:
        """What `function` is called with, if the source is a plain call of it."""
        if not isinstance(source, ast.Call) or self.constant_of(source.func) is not function:
            return None
        if len(source.args) != 1 or source.keywords or isinstance(source.args[0], ast.Starred):
            return None
        return source.args[0]

    def _count(
        self, target: ast.expr, stop: ast.expr, body: Callable[[], None], scope: Scope
    ) -> None:
        mark = len(self.temporaries)
        limit = self.word(self.value(stop), "count")
        self.release(mark)

        def advance(i: str, inside: str, end: str) -> None:
            more = self.fresh()
            self.emit(f"{more} = icmp slt i64 {i}, {limit}")
            self.emit(f"br i1 {more}, label %{inside}, label %{end}")
            self.begin(inside)
            mark = len(self.temporaries)
            self.store(target, Value(i, "num"))
            self.release(mark)

        self._repeat(advance, body, scope)

    def _iterate(
        self, targets: list[ast.expr], source: ast.expr, body: Callable[[], None], scope: Scope
    ) -> None:
        """Stores each item in the last of `targets`, and its number in the one before."""
        held = self.alloca("ptr")
        mark = len(self.temporaries)
        x = self.boxed(self.value(source))
        self.replace(held, self.take(self.owned(self.helper("ptr", "iterable", f"ptr {x.text}"))))
        self.release(mark)

        def advance(i: str, inside: str, end: str) -> None:
            whole, is_over, over = self.fresh(), self.fresh(), self.label("over")
            self.emit(f"{whole} = load ptr, ptr {held}")
            item = self.helper("ptr", "next", f"ptr {whole}", f"i64 {i}")
            self.emit(f"{is_over} = icmp eq ptr {item}, null")
            self.emit(f"br i1 {is_over}, label %{over}, label %{inside}")
            self.begin(over)
            self.fail_if_error()
            self.jump(end)
            self.begin(inside)
            mark = len(self.temporaries)
            self.temporaries.append(item)
            if len(targets) == 2:
                self.store(targets[0], Value(i, "num"))
            self.store(targets[-1], Value(item, "obj"))
            self.release(mark)

        self._repeat(advance, body, scope)
        self.replace(held, "null")

    def _repeat(
        self, advance: Callable[[str, str, str], None], body: Callable[[], None], scope: Scope
    ) -> None:
        """Counts from 0; `advance(i, inside, end)` assigns the next value or goes to the end."""
        counter = self.alloca("i64")
        self.emit(f"store i64 0, ptr {counter}")
        head, inside, step, end = (self.label(w) for w in ("for", "each", "step", "done"))
        self.jump(head)
        self.begin(head)
        i = self.fresh()
        self.emit(f"{i} = load i64, ptr {counter}")
        before = set(self.assigned)
        self.scopes.append(scope)
        self.loops.append((step, end, len(self.finals)))
        advance(i, inside, end)
        body()
        self.loops.pop()
        self.scopes.pop()
        self.assigned = before
        self.jump(step)
        self.begin(step)
        again, following = self.fresh(), self.fresh()
        self.emit(f"{again} = load i64, ptr {counter}")
        self.emit(f"{following} = add i64 {again}, 1")
        self.emit(f"store i64 {following}, ptr {counter}")
        self.jump(head)
        self.begin(end)

    # ---- comprehensions --------------------------------------------------------------------

    def of_ListComp(self, node: ast.ListComp) -> Value:
        made = self.owned(self.capi("PyList_New", "i64 0"))
        names = [
            x.id for g in node.generators for x in ast.walk(g.target) if isinstance(x, ast.Name)
        ]
        scope = {name: self.label(f"{name}.") for name in names}
        self.own.update(scope.values())
        self._comprehend(made, node.elt, node.generators, scope)
        for mine in scope.values():
            self.forget(mine)
        return made

    def _comprehend(
        self, made: Value, element: ast.expr, loops: list[ast.comprehension], scope: Scope
    ) -> None:
        if not loops:
            x = self.boxed(self.value(element))
            self.checked(self.capi("PyList_Append", f"ptr {made.text}", f"ptr {x.text}"))
            return
        first, *inner = loops

        def one() -> None:
            mark = len(self.temporaries)
            end = self.label("skipped")
            for test in first.ifs:
                keep = self.label("kept")
                condition = self.condition(test)
                self.release(mark)
                self.emit(f"br i1 {condition}, label %{keep}, label %{end}")
                self.begin(keep)
            self._comprehend(made, element, inner, scope)
            self.release(mark)
            self.jump(end)
            self.begin(end)

        self.loop(first.target, first.iter, one, scope)
