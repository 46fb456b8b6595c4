"""From the source of a Python function to LLVM IR with the same meaning, without the interpreter.

The functions that every recorded operation and every flush run through are short and do the same
few things: read and write slots, look into lists and dicts, call each other. Translated, they cost
a fifth. The language is a subset of Python:

- statements: assignment (also of slots, items, to several names), if, while, for, return, raise
  (also `from None`), assert, try with `except` or with `finally`
- expressions: names, constants, attributes, items, calls, tuples, lists, list comprehensions,
  comparisons, and/or/not, conditional expressions, + - *
- global names are constants: their value when the function is translated

`subset.py` lists it to the last operator. What is not in it raises `Untranslatable`, and the
function stays Python's; what is in it has Python's meaning, except that

- no other thread runs, and Ctrl-C is not noticed, in the middle of a translated function (unless
  it calls something)
- translated functions have no frames: `sys._getframe(n)` counts two fewer, the recording functions
  above it; and what an `except` handles is not in `sys.exc_info()`, nor the context of what it
  raises
- numbers that come from literals, `len` and arithmetic with such numbers are kept in registers
  while they fit in 64 bits: they are equal to Python's, not identical
- attributes of a `threading.local` that is a global name are set once per thread
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Generator
from types import CodeType, FunctionType
from typing import Any

from livegrad.native.frame import Value
from livegrad.native.loops import Loops
from livegrad.native.subset import Untranslatable, check
from livegrad.native.unit import Translation, Unit
from livegrad.native.wrapper import wrapper


def translate_unit(
    slots: dict[str, list[tuple[type, int]]], functions: list[FunctionType]
) -> Translation:
    """A module with `functions`."""
    slices = translate_in_slices(slots, functions)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            made: Translation = end.value
            return made


def translate_in_slices(
    slots: dict[str, list[tuple[type, int]]],
    functions: list[FunctionType],
    originals: dict[Any, FunctionType] | None = None,
) -> Generator[bool, None, Translation]:
    """`translate_unit`, function by function. `originals` are the functions that stand behind
    built-in ones: those of an earlier translation."""
    unit = Unit(slots, functions, originals or {})
    bodies = []
    for f in functions:
        bodies.append(Function(unit, f).translate())
        yield False
    return unit.module(bodies)


class Function(Loops):
    """The translation of one function; a method `do_X` for each kind of statement."""

    # ---- the whole -------------------------------------------------------------------------

    def translate(self) -> str:
        definition = definition_of(self.function)
        check(definition)
        parameters = [a.arg for a in definition.args.args]
        self.own.update(parameters, _assigned_names(definition.body))
        for i, name in enumerate(parameters):
            self.store_name(name, self.parameter(f"%a{i}"))
        self.body(definition.body)
        self.jump("nothing")
        return self.assemble(parameters)

    def parameter(self, register: str) -> Value:
        """An argument, as it is passed."""
        return Value(register, "obj")

    def frame_lines(self) -> list[str]:
        """Makes the memory of the frame."""
        zeros = {"ptr": "ptr null", "i64": "i64 0"}
        places = [f"  {place} = alloca {kind}" for place, kind in self.places]
        places += [
            f"  store {zeros[kind]}, ptr {place}" for place, kind in self.places if kind in zeros
        ]
        return ["entry:", *places, "  br label %start", "start:"]

    def assemble(self, parameters: list[str]) -> str:
        """The whole text, once the body is written."""
        symbol = self.unit.symbols[self.function]
        head = ", ".join([f"ptr %a{i}" for i in range(len(parameters))])
        self.places.append(("%result", "[1 x ptr]"))
        self.lines.insert(0, "  store ptr null, ptr %result")
        text = [f'define internal ptr @"{symbol}"({head}) {{', *self.frame_lines(), *self.lines]
        self.lines = []
        self.write_ways_out()
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
        return "\n".join([*text, *self.lines, "}", wrapper(self.unit, self.function, parameters)])

    # ---- statements ------------------------------------------------------------------------

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            getattr(self, f"do_{type(statement).__name__}")(statement)
            self.release(0)

    def do_Pass(self, _: ast.Pass) -> None:
        pass

    def do_Expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):  # a docstring
            self.value(statement.value)

    def do_Assign(self, statement: ast.Assign) -> None:
        target, *others = statement.targets
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple) and not others:
            if len(target.elts) != len(statement.value.elts):
                raise Untranslatable(f"{self.function.__name__}: {ast.unparse(statement)}")
            values = [self.held(self.value(v)) for v in statement.value.elts]
            for part, value in zip(target.elts, values, strict=True):
                self.store(part, value)
            return
        value = self.value(statement.value)
        if others:
            value = self.held(self.boxed(value))
        for target in statement.targets:
            self.store(target, value)

    def do_AnnAssign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self.store(statement.target, self.value(statement.value))

    def do_AugAssign(self, statement: ast.AugAssign) -> None:
        target = statement.target
        if isinstance(target, ast.Name):
            before = self.load_name(target.id)
            after = self.in_place(statement.op, before, self.value(statement.value))
            self.store_name(target.id, after)
            return
        # The owner, and the key, are evaluated once.
        x = self.boxed(self.value(target.value))
        if isinstance(target, ast.Attribute):
            before = self.owned(
                self.helper("ptr", self.unit.reader(target.attr)[1:], f"ptr {x.text}")
            )
            after = self.in_place(statement.op, before, self.value(statement.value))
            self._store_attribute(x, target.attr, after)
        else:
            key = self.boxed(self.value(target.slice))
            before = self.owned(self.capi("PyObject_GetItem", f"ptr {x.text}", f"ptr {key.text}"))
            after = self.in_place(statement.op, before, self.value(statement.value))
            self._store_item(x, key, after)

    def store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.store_name(target.id, value)
        elif isinstance(target, ast.Attribute):
            self._store_attribute(self.boxed(self.value(target.value)), target.attr, value)
        elif isinstance(target, ast.Subscript):
            x = self.boxed(self.value(target.value))
            self._store_item(x, self.boxed(self.value(target.slice)), value)
        else:
            assert isinstance(target, ast.Tuple)
            self._unpack(target.elts, value)

    def _store_attribute(self, x: Value, name: str, value: Value) -> None:
        v = self.boxed(value)
        writer = self.unit.writer(name)[1:]
        self.checked(self.helper("i32", writer, f"ptr {x.text}", f"ptr {v.text}"))

    def _store_item(self, x: Value, key: Value, value: Value) -> None:
        v = self.boxed(value)
        self.checked(
            self.capi("PyObject_SetItem", f"ptr {x.text}", f"ptr {key.text}", f"ptr {v.text}")
        )

    def _unpack(self, targets: list[ast.expr], value: Value) -> None:
        """All are read before the first is stored: that may change what is unpacked."""
        x = self.boxed(value)
        whole = self.owned(self.helper("ptr", "unpacked", f"ptr {x.text}", f"i64 {len(targets)}"))
        items = [
            self.owned(self.helper("ptr", "there", f"ptr {whole.text}", f"i64 {i}"))
            for i in range(len(targets))
        ]
        for target, item in zip(targets, items, strict=True):
            self.store(target, item)

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
        condition = self.condition(statement.test)
        self.release(0)
        self.emit(f"br i1 {condition}, label %{body}, label %{end}")
        self.begin(body)
        self.loops.append((head, end, len(self.finals)))
        before = set(self.assigned)
        self.body(statement.body)
        self.assigned = before
        self.loops.pop()
        self.jump(head)
        self.begin(end)

    def do_For(self, statement: ast.For) -> None:
        self.loop(statement.target, statement.iter, lambda: self.body(statement.body), {})

    # ---- leaving, by a jump or an error ----------------------------------------------------

    def do_Continue(self, _: ast.Continue) -> None:
        head, _end, outside = self.loops[-1]
        self._end_tries(outside)
        self.jump(head)
        self.begin(self.label("after"))

    def do_Break(self, _: ast.Break) -> None:
        _head, end, outside = self.loops[-1]
        self._end_tries(outside)
        self.jump(end)
        self.begin(self.label("after"))

    def do_Return(self, statement: ast.Return) -> None:
        place = self.alloca("ptr")
        value = self.value(statement.value or ast.Constant(None))
        self.replace(place, self.take(value))
        self.release(0)
        self._end_tries(0)
        result = self.take(self.moved_out(place))
        self.emit(f"store ptr {result}, ptr %result")
        self.jump("leave")
        self.begin(self.label("after"))

    def _end_tries(self, outside: int) -> None:
        """Runs the endings of the `try … finally` that a jump leaves, all but those `outside`."""
        finals, handlers = self.finals, self.handlers
        for number in range(len(finals) - 1, outside - 1, -1):
            statements, self.handlers = finals[number]
            self.finals = finals[:number]
            self.body(statements)
        self.finals, self.handlers = finals, handlers

    def do_Raise(self, statement: ast.Raise) -> None:
        assert statement.exc is not None
        given = self.boxed(self.value(statement.exc))
        self._raise(given, is_from_none=statement.cause is not None)

    def _raise(self, given: Value, is_from_none: bool) -> None:
        arguments = self.alloca("[1 x ptr]")
        self.emit(f"store ptr {given.text}, ptr {arguments}")
        maker = self.object("@obj.error")
        error = self.owned(
            self.capi(
                "PyObject_Vectorcall", f"ptr {maker.text}", f"ptr {arguments}", "i64 1", "ptr null"
            )
        )
        if is_from_none:
            self.capi("PyException_SetCause", f"ptr {error.text}", "ptr null")
        kind = self.helper("ptr", "type", f"ptr {error.text}")
        self.capi("PyErr_SetObject", f"ptr {kind}", f"ptr {error.text}")
        self.jump(self.way_out())
        self.begin(self.label("after"))

    def do_Assert(self, statement: ast.Assert) -> None:
        if not __debug__:
            return
        good, bad = self.label("holds"), self.label("fails")
        condition = self.condition(statement.test)
        self.release(0)
        self.emit(f"br i1 {condition}, label %{good}, label %{bad}")
        self.begin(bad)
        kind = self.object(self.unit.constant(AssertionError))
        message = [statement.msg] if statement.msg else []
        made = self.call_value(kind, ast.Call(ast.Constant(None), message, []))
        self._raise(made, is_from_none=False)
        self.release(0)
        self.jump(good)
        self.begin(good)

    def do_Try(self, statement: ast.Try) -> None:
        handler, end = self.label("handler"), self.label("tried")
        before = set(self.assigned)
        if statement.finalbody:
            self.finals.append((statement.finalbody, list(self.handlers)))
        self.handlers.append(handler)
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
        for one in statement.handlers:
            self.assigned = set(before)
            self._handle(one, end)
            if not _leaves(one.body):
                after &= self.assigned
        self.assigned = after
        if statement.handlers:
            self.jump(self.handlers[-1])
        self.begin(end)

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

    def _handle(self, one: ast.ExceptHandler, end: str) -> None:
        """Handles an error if it is of the right kind, and goes to the end; else goes on."""
        mine, next_one = self.label("except"), self.label("other")
        kind = self.object(self.unit.constant(self._exceptions(one)))
        matches = self.capi("PyErr_ExceptionMatches", f"ptr {kind.text}")
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

    def _exceptions(self, handler: ast.ExceptHandler) -> tuple[type[BaseException], ...]:
        """The classes that a handler names; constants, as nothing may run while an error is set."""
        named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        kinds = tuple([self.constant_of(one) for one in named if one is not None])
        for kind in kinds:
            if not isinstance(kind, type) or not issubclass(kind, BaseException):
                raise Untranslatable(f"{self.function.__name__}: except {handler.type}")
        return kinds


def definition_of(function: FunctionType) -> ast.FunctionDef:
    """The source of a function, if it is still what is running: files may change meanwhile."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    # Its annotations may be a function too, since Python 3.14.
    compiled = compile(tree, "", "exec", dont_inherit=True)
    constants = [x for x in compiled.co_consts if isinstance(x, CodeType)]
    now = [_outline(x) for x in constants if x.co_name == function.__name__]
    if not isinstance(definition, ast.FunctionDef) or now != [_outline(function.__code__)]:
        raise Untranslatable(f"{function.__name__}: its source has changed")
    return definition


def _outline(code: CodeType) -> tuple[Any, ...]:
    """What is the same for the same source, whatever the module around it."""
    constants = [x for x in code.co_consts if not isinstance(x, CodeType)]
    return code.co_name, code.co_names, code.co_varnames, code.co_freevars, constants


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether control never comes to the end of these."""
    return bool(statements) and isinstance(
        statements[-1], ast.Return | ast.Raise | ast.Continue | ast.Break
    )


def _assigned_names(statements: list[ast.stmt]) -> set[str]:
    """The names that a function assigns to; those of comprehensions are the comprehensions'."""
    found: set[str] = set()
    rest: list[ast.AST] = list(statements)
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if not isinstance(node, ast.ListComp):
            rest += ast.iter_child_nodes(node)
    return found
