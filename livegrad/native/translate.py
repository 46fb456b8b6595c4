"""From the source of a Python function to LLVM IR with the same meaning, without the interpreter.

The functions that every recorded operation and every flush run through are short and do the same
few things: read and write slots, look into lists and dicts, call each other. Translated, they cost
a fifth. The language is a subset of Python:

- statements: assignment (also of slots, items, to several names), if, while, for over a list or
  tuple (which may grow) or range or enumerate, return, raise (also `from None`), assert, try with
  `except` or with `finally`
- expressions: names, constants, attributes, items, calls, tuples, lists, list comprehensions,
  comparisons, and/or/not, conditional expressions, + - *
- global names are constants: their value when the function is translated

Numbers that come from literals, `len` and arithmetic with such numbers are 64-bit integers while
they are local. What is not in the subset raises `Untranslatable`, and the function stays Python's.
Python's own semantics hold otherwise, with two exceptions: no other thread runs and Ctrl-C is not
noticed in the middle of a translated function (unless it calls something), and translated functions
have no frames: `sys._getframe(n)` counts two fewer, the recording functions above it.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Generator
from types import CodeType, FunctionType
from typing import Any

from livegrad.native.expressions import Expressions
from livegrad.native.frame import Untranslatable, Value
from livegrad.native.unit import Unit


def translate_unit(
    slots: dict[str, list[tuple[type, int]]], functions: list[FunctionType]
) -> tuple[str, list[Any]]:
    """A module with `functions`, and the objects to put into its table."""
    slices = translate_in_slices(slots, functions)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            made: tuple[str, list[Any]] = end.value
            return made


def translate_in_slices(
    slots: dict[str, list[tuple[type, int]]],
    functions: list[FunctionType],
    originals: dict[Any, FunctionType] | None = None,
) -> Generator[bool, None, tuple[str, list[Any]]]:
    """`translate_unit`, function by function. `originals` are the functions that stand behind
    built-in ones: those of an earlier translation."""
    unit = Unit(slots, functions, originals or {})
    bodies = []
    for f in functions:
        bodies.append(Function(unit, f).translate())
        yield False
    return unit.module(bodies)


class Function(Expressions):
    """The translation of one function; a method `do_X` for each kind of statement."""

    # ---- the whole -------------------------------------------------------------------------

    def translate(self) -> str:
        definition = _definition(self.function)
        arguments = definition.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
            raise Untranslatable(f"{self.function.__name__}: only plain arguments")
        parameters = [a.arg for a in arguments.args]
        for i, name in enumerate(parameters):
            place = self.local(name, "obj")
            self.assigned.add(name)
            self.hold(f"ptr %a{i}")
            self.emit(f"store ptr %a{i}, ptr {place}")
        self.body(definition.body)
        self.jump("nothing")
        return self._assemble(parameters)

    def _assemble(self, parameters: list[str]) -> str:
        symbol = self.unit.symbols[self.function]
        head = ", ".join([f"ptr %a{i}" for i in range(len(parameters))])
        frame = [f"  {place} = alloca {kind}" for place, kind in self.places]
        frame += [f"  store ptr null, ptr {place}" for place, kind in self.places if kind == "ptr"]
        text = [
            f'define internal ptr @"{symbol}"({head}) {{', "entry:", "  %result = alloca ptr",
            "  store ptr null, ptr %result", *frame, "  br label %start", "start:", *self.lines,
        ]  # fmt: skip
        self.lines = []
        self._write_ways_out()
        self.begin("nothing")
        none = self.fresh()
        self.emit(f"{none} = load ptr, ptr @obj.none")
        self.hold(f"ptr {none}")
        self.emit(f"store ptr {none}, ptr %result")
        self.jump("leave")
        self.begin("error")
        self.jump("leave")
        self.begin("leave")
        for place, kind in self.places:
            if kind == "ptr":
                r = self.fresh()
                self.emit(f"{r} = load ptr, ptr {place}")
                self.release_one(f"ptr {r}")
        r = self.fresh()
        self.emit(f"{r} = load ptr, ptr %result")
        self.emit(f"ret ptr {r}")
        return "\n".join([*text, *self.lines, "}", self._wrapper(symbol, parameters)])

    def _wrapper(self, symbol: str, parameters: list[str]) -> str:
        """The function as Python calls it: METH_FASTCALL with keywords."""
        defaults = self.function.__defaults__ or ()
        first = 1 if self.function in self.unit.methods else 0
        given = parameters[first:]
        count, needed = len(given), len(given) - len(defaults)
        names = self.unit.constant(tuple([sys.intern(name) for name in given]))
        complaint = self.unit.constant(f"{self.function.__name__}(): wrong arguments")
        lines = [
            f'define internal ptr @"{symbol}.call"(ptr %self, ptr %args, i64 %n, ptr %words) {{',
            "entry:",
            f"  %out = alloca [{count + 1} x ptr]",
            f"  %many = icmp sgt i64 %n, {count}",
            "  br i1 %many, label %complain, label %plain0",
        ]
        for i in range(count):
            lines += [
                f"plain{i}:",
                f"  %given{i} = icmp sgt i64 %n, {i}",
                f"  %p{i} = getelementptr ptr, ptr %args, i64 {i}",
                f"  %o{i} = getelementptr ptr, ptr %out, i64 {i}",
                f"  store ptr null, ptr %o{i}",
                f"  br i1 %given{i}, label %copy{i}, label %plain{i + 1}",
                f"copy{i}:",
                f"  %c{i} = load ptr, ptr %p{i}",
                f"  store ptr %c{i}, ptr %o{i}",
                f"  br label %plain{i + 1}",
            ]
        lines += [
            f"plain{count}:",
            "  %no.words = icmp eq ptr %words, null",
            "  br i1 %no.words, label %check, label %place",
            "place:",
            f"  %names = load ptr, ptr {names}",
            "  %status = call i32 @place_keywords("
            "ptr %args, i64 %n, ptr %words, ptr %names, ptr %out)",
            "  %unknown = icmp ne i32 %status, 0",
            "  br i1 %unknown, label %complain, label %check",
            "check:",
        ]
        for i in range(count):
            lines += [
                f"  %a{i}.given = load ptr, ptr %o{i}",
                f"  %a{i}.none = icmp eq ptr %a{i}.given, null",
            ]
            if i >= needed:
                default = self.unit.constant(defaults[i - needed])
                lines += [
                    f"  %a{i}.default = load ptr, ptr {default}, !invariant.load !0",
                    f"  %a{i} = select i1 %a{i}.none, ptr %a{i}.default, ptr %a{i}.given",
                ]
            else:
                lines += [
                    f"  br i1 %a{i}.none, label %complain, label %fine{i}",
                    f"fine{i}:",
                    f"  %a{i} = bitcast ptr %a{i}.given to ptr",
                ]
        passed = ["ptr %self"] * first + [f"ptr %a{i}" for i in range(count)]
        lines += [
            f'  %r = call ptr @"{symbol}"({", ".join(passed)})',
            "  ret ptr %r",
            "complain:",
            f"  %kind = load ptr, ptr {self.unit.constant(TypeError)}",
            f"  %message = load ptr, ptr {complaint}",
            "  %set = load ptr, ptr @capi.PyErr_SetObject",
            "  call void (ptr, ptr) %set(ptr %kind, ptr %message)",
            "  ret ptr null",
            "}",
        ]
        return "\n".join(lines)

    # ---- statements ------------------------------------------------------------------------

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            method = getattr(self, f"do_{type(statement).__name__}", None)
            if method is None:
                raise Untranslatable(f"{self.function.__name__}: {ast.unparse(statement)}")
            mark = len(self.temporaries)
            method(statement)
            self.release(mark)

    def do_Pass(self, _: ast.Pass) -> None:
        pass

    def do_Expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):  # a docstring
            self.value(statement.value)

    def do_Assign(self, statement: ast.Assign) -> None:
        target = statement.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            values = [self.held(self.value(v)) for v in statement.value.elts]
            for part, value in zip(target.elts, values, strict=True):
                self.store(part, value)
            return
        value = self.value(statement.value)
        if value.kind == "bool":
            value = self.boxed(value)
        for target in statement.targets:
            self.store(target, value)

    def do_AnnAssign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self.store(statement.target, self.value(statement.value))

    def do_AugAssign(self, statement: ast.AugAssign) -> None:
        source = ast.copy_location(
            ast.BinOp(_as_load(statement.target), statement.op, statement.value), statement
        )
        self.store(statement.target, self.value(source))

    def store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.store_name(target.id, value)
        elif isinstance(target, ast.Attribute):
            x = self.boxed(self.value(target.value))
            v = self.boxed(value)
            writer = self.unit.writer(target.attr)
            self.checked(self.helper("i32", writer[1:], f"ptr {x.text}", f"ptr {v.text}"))
        elif isinstance(target, ast.Subscript):
            x = self.boxed(self.value(target.value))
            key = self.boxed(self.value(target.slice))
            v = self.boxed(value)
            self.checked(
                self.capi("PyObject_SetItem", f"ptr {x.text}", f"ptr {key.text}", f"ptr {v.text}")
            )
        elif isinstance(target, ast.Tuple):
            self.unpack(target.elts, value)
        else:
            raise Untranslatable(f"{self.function.__name__}: to {ast.unparse(target)}")

    def store_name(self, name: str, value: Value) -> None:
        self.assigned.add(name)
        known_int = f"{name}:int" in self.locals
        if value.kind == "int" and f"{name}:obj" not in self.locals:
            self.emit(f"store i64 {value.text}, ptr {self.local(name, 'int')}")
        elif known_int:
            self.emit(f"store i64 {self.integer(value)}, ptr {self.local(name, 'int')}")
        else:
            place = self.local(name, "obj")
            taken = self.take(value)
            old = self.fresh()
            self.emit(f"{old} = load ptr, ptr {place}")
            self.emit(f"store ptr {taken}, ptr {place}")
            self.release_one(f"ptr {old}")

    def unpack(self, targets: list[ast.expr], value: Value) -> None:
        whole = self.boxed(value)
        n = self.helper("i64", "len", f"ptr {whole.text}")
        self.checked(n, "i64")
        r = self.fresh()
        self.emit(f"{r} = icmp ne i64 {n}, {len(targets)}")
        self.raise_if(r, ValueError, "wrong number of values to unpack")
        for i, target in enumerate(targets):
            mark = len(self.temporaries)
            item = self.owned(self.helper("ptr", "item", f"ptr {whole.text}", f"i64 {i}"))
            self.store(target, item)
            self.release(mark)

    def do_If(self, statement: ast.If) -> None:
        mark = len(self.temporaries)
        condition = self.condition(statement.test)
        self.release(mark)
        then, other, end = self.label("then"), self.label("else"), self.label("end")
        self.emit(f"br i1 {condition}, label %{then}, label %{other}")
        before = set(self.assigned)
        self.begin(then)
        self.body(statement.body)
        self.jump(end)
        in_then, self.assigned = self.assigned, before
        self.begin(other)
        self.body(statement.orelse)
        self.jump(end)
        self.begin(end)
        # A way that ends in a jump does not come here.
        if not _leaves(statement.body):
            self.assigned = in_then if _leaves(statement.orelse) else self.assigned & in_then

    def do_While(self, statement: ast.While) -> None:
        head, body, end = self.label("while"), self.label("do"), self.label("done")
        self.jump(head)
        self.begin(head)
        mark = len(self.temporaries)
        condition = self.condition(statement.test)
        self.release(mark)
        self.emit(f"br i1 {condition}, label %{body}, label %{end}")
        self.begin(body)
        self.loops.append((head, end))
        before = set(self.assigned)
        self.body(statement.body)
        self.assigned = before
        self.loops.pop()
        self.jump(head)
        self.begin(end)

    def do_For(self, statement: ast.For) -> None:
        self.loop(statement.target, statement.iter, lambda: self.body(statement.body))

    def loop(self, target: ast.expr, source: ast.expr, body: Callable[[], None]) -> None:
        """Counts through a range, or through a list or tuple that may grow meanwhile."""
        counter = self.alloca("i64")
        counted, over = None, source
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Name):
            if source.func.id == "range" and len(source.args) == 1:
                counted, over = target, source.args[0]
            elif source.func.id == "enumerate" and len(source.args) == 1:
                assert isinstance(target, ast.Tuple)
                counted, target = target.elts
                over = source.args[0]
        is_range = counted is not None and counted is target
        held = self.alloca("i64" if is_range else "ptr")
        mark = len(self.temporaries)
        value = self.value(over)
        if is_range:
            self.emit(f"store i64 {self.integer(value)}, ptr {held}")
        else:
            taken = self.take(value)
            old = self.fresh()
            self.emit(f"{old} = load ptr, ptr {held}")
            self.emit(f"store ptr {taken}, ptr {held}")
            self.release_one(f"ptr {old}")
        self.release(mark)
        self.emit(f"store i64 0, ptr {counter}")
        head, inside, step, end = (self.label(w) for w in ("for", "each", "step", "done"))
        self.jump(head)
        self.begin(head)
        i, more = self.fresh(), self.fresh()
        self.emit(f"{i} = load i64, ptr {counter}")
        whole = self.fresh()
        if is_range:
            self.emit(f"{whole} = load i64, ptr {held}")
            limit = whole
        else:
            self.emit(f"{whole} = load ptr, ptr {held}")
            limit = self.helper("i64", "len", f"ptr {whole}")
            self.checked(limit, "i64")
        self.emit(f"{more} = icmp slt i64 {i}, {limit}")
        self.emit(f"br i1 {more}, label %{inside}, label %{end}")
        self.begin(inside)
        before = set(self.assigned)
        mark = len(self.temporaries)
        if counted is not None:
            self.store(counted, Value(i, "int"))
        if not is_range:
            item = self.owned(self.helper("ptr", "item", f"ptr {whole}", f"i64 {i}"))
            self.store(target, item)
        self.release(mark)
        self.loops.append((step, end))
        body()
        self.loops.pop()
        self.assigned = before
        self.jump(step)
        self.begin(step)
        again, following = self.fresh(), self.fresh()
        self.emit(f"{again} = load i64, ptr {counter}")
        self.emit(f"{following} = add i64 {again}, 1")
        self.emit(f"store i64 {following}, ptr {counter}")
        self.jump(head)
        self.begin(end)

    def of_ListComp(self, node: ast.ListComp) -> Value:
        made = self.owned(self.capi("PyList_New", "i64 0"))
        self._comprehend(made, node.elt, node.generators)
        return made

    def _comprehend(self, made: Value, element: ast.expr, loops: list[ast.comprehension]) -> None:
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
            self._comprehend(made, element, inner)
            self.release(mark)
            self.jump(end)
            self.begin(end)

        self.loop(first.target, first.iter, one)

    def do_Continue(self, _: ast.Continue) -> None:
        self.jump(self.loops[-1][0])
        self.begin(self.label("after"))

    def do_Break(self, _: ast.Break) -> None:
        self.jump(self.loops[-1][1])
        self.begin(self.label("after"))

    def do_Return(self, statement: ast.Return) -> None:
        value = self.value(statement.value) if statement.value else self.value(ast.Constant(None))
        taken = self.take(value)
        self.emit(f"store ptr {taken}, ptr %result")
        alive, self.temporaries = self.temporaries, []
        for x in alive:
            self.release_one(f"ptr {x}")
        finals, self.finals = self.finals, []
        for statements in reversed(finals):
            self.body(statements)
        self.finals = finals
        self.temporaries = alive
        self.jump("leave")
        self.begin(self.label("after"))

    def do_Raise(self, statement: ast.Raise) -> None:
        if statement.exc is None:
            raise Untranslatable(f"{self.function.__name__}: raise outside an except")
        error = self.boxed(self.value(statement.exc))
        if statement.cause is not None:
            if not isinstance(statement.cause, ast.Constant):
                raise Untranslatable(f"{self.function.__name__}: raise … from an error")
            self.capi("PyException_SetCause", f"ptr {error.text}", "ptr null")
        kind = self.fresh()
        kind_place = self.fresh()
        self.emit(f"{kind_place} = getelementptr i8, ptr {error.text}, i64 8")
        self.emit(f"{kind} = load ptr, ptr {kind_place}")
        self.capi("PyErr_SetObject", f"ptr {kind}", f"ptr {error.text}")
        self.jump(self.way_out())
        self.begin(self.label("after"))

    def do_Assert(self, statement: ast.Assert) -> None:
        condition = self.condition(statement.test)
        r = self.fresh()
        self.emit(f"{r} = xor i1 {condition}, true")
        self.raise_if(r, AssertionError, ast.unparse(statement.test))

    def do_Try(self, statement: ast.Try) -> None:
        if statement.orelse or (statement.handlers and statement.finalbody):
            raise Untranslatable(f"{self.function.__name__}: try with else, or with both endings")
        handler, end = self.label("handler"), self.label("tried")
        self.handlers.append(handler)
        before = set(self.assigned)
        if statement.finalbody:
            self.finals.append(statement.finalbody)
        self.body(statement.body)
        self.handlers.pop()
        if statement.finalbody:
            self.finals.pop()
            self.body(statement.finalbody)
        self.jump(end)
        after, self.assigned = self.assigned, before
        self.begin(handler)
        if statement.finalbody:
            self._and_raise_again(statement.finalbody)
        else:
            self._handlers(statement.handlers, end)
        self.begin(end)
        if all([_leaves(one.body) for one in statement.handlers]):
            self.assigned = after

    def _and_raise_again(self, statements: list[ast.stmt]) -> None:
        places = [self.alloca("[1 x ptr]") for _ in range(3)]
        self.capi("PyErr_Fetch", *[f"ptr {place}" for place in places])
        second = self.label("second")
        self.handlers.append(second)
        self.body(statements)
        self.handlers.pop()
        self.capi("PyErr_Restore", *[f"ptr {r}" for r in self._loaded(places)])
        self.jump(self.handlers[-1])
        # An error in the handler takes the place of the first.
        self.begin(second)
        for r in self._loaded(places):
            self.release_one(f"ptr {r}")
        self.jump(self.handlers[-1])

    def _loaded(self, places: list[str]) -> list[str]:
        loaded = [self.fresh() for _ in places]
        for r, place in zip(loaded, places, strict=True):
            self.emit(f"{r} = load ptr, ptr {place}")
        return loaded

    def _handlers(self, handlers: list[ast.ExceptHandler], end: str) -> None:
        for one in handlers:
            if one.name is not None or one.type is None:
                raise Untranslatable(f"{self.function.__name__}: except … as")
            mine, next_one = self.label("except"), self.label("other")
            kind = self.boxed(self.value(one.type))
            matches = self.capi("PyErr_ExceptionMatches", f"ptr {kind.text}")
            self.release(0)
            r = self.fresh()
            self.emit(f"{r} = icmp ne i32 {matches}, 0")
            self.emit(f"br i1 {r}, label %{mine}, label %{next_one}")
            self.begin(mine)
            last = one.body[-1]
            if isinstance(last, ast.Raise) and last.exc is None:
                self._and_raise_again(one.body[:-1])
            else:
                self.capi("PyErr_Clear")
                self.body(one.body)
                self.jump(end)
            self.begin(next_one)
        self.jump(self.handlers[-1])


def _definition(function: FunctionType) -> ast.FunctionDef:
    """The source of a function, if it is still what is running: files may change meanwhile."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    # Its annotations may be a function too, since Python 3.14.
    constants = [x for x in compile(tree, "", "exec").co_consts if isinstance(x, CodeType)]
    now = [_outline(x) for x in constants if x.co_name == function.__name__]
    if not isinstance(definition, ast.FunctionDef) or now != [_outline(function.__code__)]:
        raise Untranslatable(f"{function.__name__}: its source has changed")
    return definition


def _outline(code: CodeType) -> tuple[Any, ...]:
    """What is the same for the same source, whatever the module around it."""
    constants = [x for x in code.co_consts if not isinstance(x, CodeType)]
    return code.co_name, code.co_names, code.co_varnames, constants


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether control never comes to the end of these."""
    return bool(statements) and isinstance(
        statements[-1], ast.Return | ast.Raise | ast.Continue | ast.Break
    )


def _as_load(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body
