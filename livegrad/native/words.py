"""Functions of 64-bit words and lent objects, which they read where they lie in memory.

Written in the subset, too, but called by address: nothing is boxed, and no references are counted.
An annotation says what a name is: `int` and `bool` are words; anything else is an object, of which
the slots can be read if it is a class. Objects are compared with `is`. These functions must not
meet anything that can raise, or overflow.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType
from typing import Any

from livegrad.native.frame import Value
from livegrad.native.install import addresses_of
from livegrad.native.layout import slots_of
from livegrad.native.subset import Untranslatable
from livegrad.native.translate import Function, definition_of
from livegrad.native.unit import Translation, Unit


def compile_words(
    functions: list[FunctionType], compile_ir: Callable[[str, str], int]
) -> dict[FunctionType, int]:
    """The addresses of functions of words, which may call each other."""
    made = translate_words(functions)
    found = addresses_of(functions, made.objects, compile_ir(made.ir, "livegrad_native"))
    return dict(zip(functions, found, strict=True))


def translate_words(functions: list[FunctionType]) -> Translation:
    """Functions of words as one module."""
    unit = Unit({}, functions, {})
    return unit.module([WordFunction(unit, f).translate() for f in functions])


# Lines of IR of a function whose code is put wherever it is called.
_MOST_INLINED = 80
# The annotations of what is a word; a name without any is one, too.
_WORDS = ("int", "bool")
_INSTRUCTIONS = {"Add": "add", "Subtract": "sub", "Multiply": "mul"}


class WordFunction(Function):
    """The translation of a function of words."""

    def translate(self) -> str:
        self.annotations = {**self.function.__annotations__, **_annotated_within(self.function)}
        return super().translate()

    def parameter(self, register: str) -> Value:
        name = self.function.__code__.co_varnames[int(register[2:])]
        return self._as(self.annotations.get(name, "int"), register)

    def _as(self, annotation: str, word: str) -> Value:
        """A word, or the object that it is the address of."""
        if annotation in _WORDS:
            return Value(word, "num")
        r = self.fresh()
        self.emit(f"{r} = inttoptr i64 {word} to ptr")
        return Value(r, "obj")

    def load_name(self, name: str) -> Value:
        return super().load_name(name)._replace(object="null")  # it has never been anything else

    # ---- objects: they are lent, and stay where they are

    def hold(self, x: str) -> None:
        pass

    def release_one(self, x: str) -> None:
        pass

    def word(self, x: Value, converter: str = "") -> str:
        self._refuse_if(x.kind == "obj", "an object as a number")
        return super().word(x)

    def truth(self, x: Value) -> str:
        self._refuse_if(x.kind == "obj", "the truth of an object")
        return super().truth(x)

    def _refuse_if(self, condition: bool, what: str) -> None:
        if condition:
            raise Untranslatable(f"{self.function.__name__}: {what}")

    def _given(self, annotation: str, node: ast.expr) -> str:
        """The word that is handed on for an expression: a number, or the address of an object."""
        if annotation not in _WORDS:
            return self.word(self.call_id(ast.Call(ast.Name("id"), [node], [])))
        if isinstance(node, ast.Constant) and type(node.value) is bool:
            return str(int(node.value))
        return self.word(self.value(node))

    def of_Attribute(self, node: ast.Attribute) -> Value:
        if not isinstance(node.value, ast.Name) or not self.is_own(node.value.id):
            return super().of_Attribute(node)
        cls = self.function.__globals__.get(self.annotations.get(node.value.id, ""))
        places = slots_of([cls]) if isinstance(cls, type) else {}
        self._refuse_if(node.attr not in places, f"{ast.unparse(node)} is no known slot")
        ((_, offset),) = places[node.attr]
        owner, place, r = self.load_name(node.value.id), self.fresh(), self.fresh()
        self.emit(f"{place} = getelementptr i8, ptr {owner.text}, i64 {offset}")
        self.emit(f"{r} = load ptr, ptr {place}")
        return Value(r, "obj")

    def of_Compare(self, node: ast.Compare) -> Value:
        return Value(self.word(Value(self.condition(node), "bool")), "num")

    def of_BoolOp(self, node: ast.BoolOp) -> Value:
        truths = [isinstance(x, ast.Compare | ast.BoolOp | ast.UnaryOp) for x in node.values]
        self._refuse_if(not all(truths), ast.unparse(node))
        return Value(self.word(Value(self.condition(node), "bool")), "num")

    # ---- words

    def arithmetic(self, name: str, a: Value, b: Value) -> Value:
        instruction, r = _INSTRUCTIONS[name.removeprefix("InPlace")], self.fresh()
        self.emit(f"{r} = {instruction} nsw i64 {self.word(a)}, {self.word(b)}")
        return Value(r, "num")

    def do_Return(self, statement: ast.Return) -> None:
        assert statement.value is not None
        annotation = self.function.__annotations__.get("return", "int")
        word = self._given(annotation, statement.value)
        self.release(0)
        self.emit(f"ret i64 {word}")
        self.begin(self.label("after"))

    def assemble(self, parameters: list[str]) -> str:
        symbol = self.unit.symbols[self.function]
        head = ", ".join([f"i64 %a{i}" for i in range(len(parameters))])
        body = [*self.frame_lines(), *self.lines]
        self.lines = []
        self.write_ways_out()
        for label in ("nothing", "error"):
            self.begin(label)
            self.emit("unreachable")
        # Large ones everywhere would take LLVM seconds.
        inlined = "alwaysinline " if len(body) < _MOST_INLINED else ""
        text = [f'define internal i64 @"{symbol}"({head}) {inlined}{{', *body, *self.lines]
        passed = ", ".join([f"i64 %a{i}" for i in range(len(parameters))])
        called = [
            f'define internal i64 @"{symbol}.call"({head}) {{',
            f'  %r = call i64 @"{symbol}"({passed})',
            "  ret i64 %r",
        ]
        return "\n".join([*text, "}", *called, "}"])

    def call_translated(self, node: ast.Call, function: FunctionType) -> Value:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        self._refuse_if(len(node.args) != len(names), ast.unparse(node))
        known = function.__annotations__
        pairs = zip(names, node.args, strict=True)
        words = [f"i64 {self._given(known.get(name, 'int'), x)}" for name, x in pairs]
        made = self.helper("i64", self.unit.symbols[function], *words)
        return self._as(known.get("return", "int"), made)


def _annotated_within(function: FunctionType) -> dict[str, Any]:
    """The annotations of local variables, in words."""
    found = [x for x in ast.walk(definition_of(function)) if isinstance(x, ast.AnnAssign)]
    return {ast.unparse(x.target): ast.unparse(x.annotation) for x in found}
