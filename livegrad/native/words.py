"""Functions of 64-bit words: they read objects where they lie in memory, and hold none of them.

Written in the subset, too, but with words for arguments and a word for a result, and called by
address: nothing is boxed or counted. They must not meet anything that can raise, or overflow.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType

from livegrad.native.frame import Value
from livegrad.native.install import addresses_of
from livegrad.native.subset import Untranslatable
from livegrad.native.translate import Function
from livegrad.native.unit import Unit


def compile_words(
    functions: list[FunctionType], compile_ir: Callable[[str, str], int]
) -> dict[FunctionType, int]:
    """The addresses of functions of words, which may call each other."""
    unit = Unit({}, functions, {})
    made = unit.module([WordFunction(unit, f).translate() for f in functions])
    found = addresses_of(functions, made.objects, compile_ir(made.ir, "livegrad_native"))
    return dict(zip(functions, found, strict=True))


_INSTRUCTIONS = {"Add": "add", "Subtract": "sub", "Multiply": "mul"}


class WordFunction(Function):
    """The translation of a function of words."""

    def parameter(self, register: str) -> Value:
        return Value(register, "num")

    def load_name(self, name: str) -> Value:
        return super().load_name(name)._replace(object="null")  # it has never been anything else

    def arithmetic(self, name: str, a: Value, b: Value) -> Value:
        instruction, r = _INSTRUCTIONS[name.removeprefix("InPlace")], self.fresh()
        self.emit(f"{r} = {instruction} nsw i64 {self.word(a)}, {self.word(b)}")
        return Value(r, "num")

    def do_Return(self, statement: ast.Return) -> None:
        assert statement.value is not None
        word = self.word(self.value(statement.value))
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
        text = [f'define internal i64 @"{symbol}"({head}) alwaysinline {{', *body, *self.lines]
        passed = ", ".join([f"i64 %a{i}" for i in range(len(parameters))])
        called = [
            f'define internal i64 @"{symbol}.call"({head}) {{',
            f'  %r = call i64 @"{symbol}"({passed})',
            "  ret i64 %r",
        ]
        return "\n".join([*text, "}", *called, "}"])

    def call_translated(self, node: ast.Call, function: FunctionType) -> Value:
        if len(node.args) != function.__code__.co_argcount:
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")
        words = [f"i64 {self.word(self.value(a))}" for a in node.args]
        return Value(self.helper("i64", self.unit.symbols[function], *words), "num")
