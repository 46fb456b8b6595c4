"""Random functions, in the subset and a little outside, and what they work with."""

from __future__ import annotations

import random
import re
from typing import Any, ClassVar

# ---------------------------------------------------------------- what the functions work with


class Box:
    """Has slots that are read in place."""

    __slots__ = ("x", "y")

    def __init__(self, x: Any, y: Any) -> None:
        self.x = x
        self.y = y

    def both(self, z: Any = 0) -> Any:
        log("both")
        return self.x, self.y, z


class Plain:
    """Has attributes of the same names, but no slots."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __iter__(self) -> Any:
        log("iter")
        yield self.x
        yield 2

    def __iadd__(self, other: Any) -> Any:
        log("iadd")
        return self


class Odd:
    """Compares to something without a truth value, and adds to itself."""

    def __eq__(self, other: object) -> Any:
        log("eq")
        return Doubtful()

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> Any:
        log("add")
        return [self, other]

    def __len__(self) -> int:
        log("len")
        return 3

    def __neg__(self) -> Any:
        return "negative"


class Doubtful:
    """Has no truth value."""

    def __bool__(self) -> bool:
        raise ValueError("doubtful")


class Marker:
    """Is itself in copies: its references are counted."""

    def __deepcopy__(self, memo: Any) -> Marker:
        return self


class OutOfFuel(BaseException):
    """A function has run for long enough."""


class World:
    """What functions call, and when."""

    log: ClassVar[list[Any]] = []
    fuel = 0


def log(x: Any) -> Any:
    """Notes a call."""
    World.log.append(type(x) if isinstance(x, Marker) else visible(x))
    return x


def tick() -> None:
    """Ends what would run for too long."""
    World.fuel -= 1
    if World.fuel < 0:
        raise OutOfFuel


BIG = (1 << 62) + 12345
HUGE = 1 << 70
GLOBALS = {
    "Box": Box, "log": log, "tick": tick, "BIG": BIG, "HUGE": HUGE, "SMALL": 41, "PAIR": (1, 2),
}  # fmt: skip


def visible(x: Any, depth: int = 4) -> Any:
    """What can be compared of a value."""
    if isinstance(x, BaseException):
        return type(x), re.sub("0x[0-9a-f]+", "somewhere", str(x))
    if isinstance(x, Box | Plain):
        names = [n for n in ("x", "y") if hasattr(x, n)]
        return type(x), [(n, visible(getattr(x, n), depth - 1)) for n in names if depth]
    if isinstance(x, tuple | list):
        return type(x), len(x), [visible(y, depth - 1) for y in x[:20] if depth]
    if isinstance(x, dict | set):
        return type(x), len(x), sorted([str(type(y)) for y in x])
    return type(x), repr(x) if isinstance(x, int | float | str) else None


# ------------------------------------------------------------------------------ the functions


class Writer:
    """Writes one function."""

    def __init__(self, rng: random.Random, name: str, others: list[str]) -> None:
        self.rng = rng
        self.name = name
        self.others = others
        self.names = ["a", "b", "p"]
        self.loops = 0
        # Values that grow in loops must not do so many times.
        self.growth = 3

    def function(self) -> str:
        default = self.rng.choice(["", "=5", "=None"])
        lines = [f"def {self.name}(a, b, p{default}):", *self.block(1, 2)]
        return "\n".join([*lines, f"    return {self.expression(2)}"])

    # ---- statements

    def block(self, indent: int, depth: int) -> list[str]:
        count = self.rng.randint(1, 4)
        return [line for _ in range(count) for line in self.statement(indent, depth)]

    def statement(self, indent: int, depth: int) -> list[str]:
        kinds = ["assign"] * 8 + ["aug"] * 4 + ["call"] * 2 + ["unpack", "store", "raise", "assert"]
        if depth:
            kinds += ["if", "if", "for", "for", "while", "try", "finally"]
        if self.loops:
            kinds += ["break", "continue"]
        if self.rng.random() < 0.02:
            kinds = ["outside"]
        kind = self.rng.choice(kinds)
        made: list[str] = getattr(self, f"write_{kind}")(indent, depth)
        return made

    def write_assign(self, indent: int, depth: int) -> list[str]:
        value = self.expression(3)
        target = self.target()
        if self.rng.random() < 0.1:
            target = f"{target} = {self.target()}"
        if self.rng.random() < 0.05:
            value, target = f"{value}, {self.expression(1)}", f"{self.target()}, {self.target()}"
        return [f"{'    ' * indent}{target} = {value}"]

    def target(self) -> str:
        kind = self.rng.random()
        if kind < 0.75:
            name = self.rng.choice(["x", "y", "z", "n", "m", *self.names])
            self.names.append(name)
            return name
        return self.place()

    def place(self) -> str:
        name = self.name_of_any()
        return self.rng.choice(
            [f"{name}.x", f"{name}.y", "p.x", "p.y", f"{name}[{self.number(1)}]", "log(p).x"]
        )

    def write_aug(self, indent: int, depth: int) -> list[str]:
        op = self.rng.choice(["+", "-", "+"])
        value = self.rng.choice([self.number(1), self.number(1), "[1]", "'s'", "1.5"])
        if self.growth and self.rng.random() < 0.2:
            self.growth -= 1
            op, value = self.rng.choice([("*", "2"), ("+", self.name_of_any()), ("*", "BIG")])
        target = self.rng.choice([self.name_of_any(), self.name_of_any(), self.place()])
        return [f"{'    ' * indent}{target} {op}= {value}"]

    def write_call(self, indent: int, depth: int) -> list[str]:
        return [f"{'    ' * indent}{self.call(2)}"]

    def write_unpack(self, indent: int, depth: int) -> list[str]:
        first, second = self.target(), self.target()
        form = self.rng.choice(["{}, {}", "({}, {})", "{}, ({}, q)"])
        if "q" in form:
            self.names.append("q")
        return [f"{'    ' * indent}{form.format(first, second)} = {self.sequence(2)}"]

    def write_store(self, indent: int, depth: int) -> list[str]:
        return [f"{'    ' * indent}{self.place()} = {self.expression(2)}"]

    def write_raise(self, indent: int, depth: int) -> list[str]:
        error = self.rng.choice(["KeyError(b)", "ValueError", "ValueError('v') from None", "b"])
        return [f"{'    ' * indent}if {self.condition(1)}:", f"{'    ' * indent}    raise {error}"]

    def write_assert(self, indent: int, depth: int) -> list[str]:
        message = self.rng.choice(["", "", f", {self.expression(1)}"])
        return [f"{'    ' * indent}assert {self.condition(2)}{message}"]

    def write_if(self, indent: int, depth: int) -> list[str]:
        space = "    " * indent
        lines = [f"{space}if {self.condition(2)}:", *self.block(indent + 1, depth - 1)]
        if self.rng.random() < 0.3:
            lines += [f"{space}elif {self.condition(1)}:", *self.block(indent + 1, depth - 1)]
        if self.rng.random() < 0.5:
            lines += [f"{space}else:", *self.block(indent + 1, depth - 1)]
        return lines

    def write_for(self, indent: int, depth: int) -> list[str]:
        space = "    " * indent
        target, source = self.rng.choice(
            [
                ("i", f"range({self.number(1)})"),
                ("x", self.sequence(1)),
                ("x", self.sequence(1)),
                ("i, x", f"enumerate({self.sequence(1)})"),
                ("x, y", self.sequence(1)),
                ("p.x", self.sequence(1)),
                ("x", f"range(1, {self.number(1)})"),
                ("z", f"enumerate({self.sequence(1)})"),
            ]
        )
        self.names += [name for name in target.split(", ") if "." not in name]
        return [f"{space}for {target} in {source}:", *self.looped(indent, depth)]

    def write_while(self, indent: int, depth: int) -> list[str]:
        return [f"{'    ' * indent}while {self.condition(2)}:", *self.looped(indent, depth)]

    def looped(self, indent: int, depth: int) -> list[str]:
        self.loops += 1
        body = self.block(indent + 1, depth - 1)
        self.loops -= 1
        return [f"{'    ' * (indent + 1)}tick()", *body]

    def write_try(self, indent: int, depth: int) -> list[str]:
        space = "    " * indent
        lines = [f"{space}try:", *self.block(indent + 1, depth - 1)]
        kinds = ["Exception", "AttributeError", "(TypeError, KeyError)", "ValueError"]
        lines += [f"{space}except {self.rng.choice(kinds)}:", *self.block(indent + 1, depth - 1)]
        if self.rng.random() < 0.3:
            lines.append(f"{space}    raise{self.rng.choice(['', '', ' KeyError(1) from None'])}")
        return lines

    def write_finally(self, indent: int, depth: int) -> list[str]:
        space = "    " * indent
        body = self.block(indent + 1, depth - 1)
        if self.rng.random() < 0.4:
            body.append(f"{space}    {self.leave()}")
        # An ending that itself leaves is refused: most are to be translated.
        loops, self.loops = self.loops, 0
        ending = self.block(indent + 1, 0)
        self.loops = loops
        return [f"{space}try:", *body, f"{space}finally:", *ending]

    def leave(self) -> str:
        return self.rng.choice(
            [f"return {self.expression(1)}", *(["break", "continue"] if self.loops else [])]
        )

    def write_break(self, indent: int, depth: int) -> list[str]:
        space = "    " * indent
        return [f"{space}if {self.condition(1)}:", f"{space}    break"]

    def write_continue(self, indent: int, depth: int) -> list[str]:
        space = "    " * indent
        return [f"{space}if {self.condition(1)}:", f"{space}    continue"]

    def write_outside(self, indent: int, depth: int) -> list[str]:
        space = "    " * indent
        return self.rng.choice(
            [
                [f"{space}x = a[1:]"],
                [f"{space}x = [*a, 1]"],
                [f"{space}for x in a:", f"{space}    tick()", f"{space}else:", f"{space}    y = 1"],
                [f"{space}x = b % 7"],
                [f"{space}x = {{y: 1 for y in a}}"],
                [f"{space}x = lambda: a"],
                [f"{space}x = f'{{b}}'"],
                [f"{space}del p"],
                [f"{space}x, *y = a"],
                [f"{space}x = not (y := b)"],
            ]
        )

    # ---- expressions

    def expression(self, depth: int) -> str:
        kinds = [self.number, self.sequence, self.condition, self.any, self.any]
        return self.rng.choice(kinds)(depth)

    def name_of_any(self) -> str:
        return self.rng.choice(self.names)

    def any(self, depth: int) -> str:
        if not depth:
            constants = ["None", "True", "1.5", "'s'", "PAIR", "float('nan')", "-2.5"]
            return self.rng.choice([self.name_of_any()] * 6 + constants)
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        return self.rng.choice(
            [
                self.name_of_any(),
                f"{self.name_of_any()}.x",
                f"p.{self.rng.choice('xy')}",
                f"{self.name_of_any()}[{self.number(depth - 1)}]",
                f"({a} or {b})",
                f"({a} and {b})",
                f"({a} if {self.condition(depth - 1)} else {b})",
                f"({self.any(depth - 1)} == {b})",
                f"({self.any(depth - 1)} < {self.any(depth - 1)})",
                f"(-{self.any(0)})",
                self.call(depth - 1),
                self.call(depth - 1),
            ]
        )

    def number(self, depth: int) -> str:
        small = ["0", "1", "2", "3", "-1", "SMALL", "b"]
        if not depth:
            large = ["9223372036854775807", "BIG", "HUGE", "-9223372036854775808"]
            return self.rng.choice(small * 3 + large + [self.name_of_any()])
        a, b = self.number(depth - 1), self.number(depth - 1)
        made = [f"len({self.sequence(depth - 1)})", f"({a} + {b})", f"({a} - {b})", a, b, f"(-{a})"]
        if self.growth:
            self.growth -= 1
            made += [f"({a} * {self.rng.choice(['2', 'BIG', '-1'])})"]
        return self.rng.choice(made)

    def sequence(self, depth: int) -> str:
        if not depth:
            return self.rng.choice(["a", "a", "a", "[]", "PAIR", "'ab'", self.name_of_any()])
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        made = [
            f"[{x}, {y}]", f"({x}, {y})", f"({x},)", self.comprehension(depth), "a", "a",
            f"tuple({self.sequence(depth - 1)})", f"{{{self.number(0)}}}",
            f"p.{self.rng.choice('xy')}",
        ]  # fmt: skip
        return self.rng.choice(made)

    def comprehension(self, depth: int) -> str:
        variable = self.rng.choice(["x", "c", "a", "i"])
        source = self.rng.choice([self.sequence(depth - 1), f"range({self.number(0)})"])
        self.names.append(variable)
        element = self.expression(depth - 1)
        more = self.rng.choice(
            ["", "", "", f" if {self.condition(depth - 1)}", f" for d in {variable}"]
        )
        self.names.remove(variable)
        # What is long is cut short: every element costs.
        return f"[{element} for {variable} in {source} if tick() is None{more}]"

    def condition(self, depth: int) -> str:
        if not depth:
            return self.rng.choice([self.name_of_any(), "b", "a", "True", "None"])
        a, b = self.number(depth - 1), self.number(depth - 1)
        x, y = self.any(depth - 1), self.any(depth - 1)
        order = self.rng.choice(["<", "<=", "==", "!=", ">", ">="])
        return self.rng.choice(
            [
                f"({a} {order} {b})",
                f"({a} {order} {b})",
                f"({a} {order} b < {b})",
                f"({self.name_of_any()} {self.rng.choice(['is', 'is not'])} None)",
                f"({self.name_of_any()} {self.rng.choice(['is', 'is not'])} {self.name_of_any()})",
                f"({x} {self.rng.choice(['in', 'not in'])} {self.sequence(depth - 1)})",
                f"(not {self.condition(depth - 1)})",
                f"({self.condition(depth - 1)} and {self.condition(depth - 1)})",
                f"({x} or {y})",
                f"bool({x})",
                f"isinstance({x}, Box)",
            ]
        )

    def call(self, depth: int) -> str:
        x = self.expression(depth)
        name = self.name_of_any()
        calls = [
            f"log({x})", f"log({x})", f"{name}.append({x})", f"a.append({x})", f"p.both({x})",
            f"p.both(z={x})", "p.both()", f"type({x})", f"{name}.get({x})", f"{name}.add({x})",
            f"Box({x}, {self.expression(0)})", f"Box(*{self.sequence(0)})", f"{name}.missing({x})",
            "object.__new__(Box)", f"max({x}, {self.number(0)})", f"len({x})", f"{name}({x})",
        ]  # fmt: skip
        if self.others:
            calls += [f"{self.rng.choice(self.others)}({x}, {self.number(0)}, p)"] * 2
        return self.rng.choice(calls)
