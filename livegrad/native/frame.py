"""The frame of a translated function: text, registers, ownership, conversions, variables."""

from __future__ import annotations

import ast
import sys
from types import FunctionType
from typing import NamedTuple

from livegrad.native.capi import CAPI
from livegrad.native.numbers import FAILED
from livegrad.native.subset import Untranslatable
from livegrad.native.unit import Unit


class Value(NamedTuple):
    """A value in registers: an object (owned by the statement), a number or a truth value."""

    text: str
    kind: str  # "obj", "num", "bool"
    # Of a number that may be no int of 64 bits: the object that it then is, else null.
    object: str = "null"

    @property
    def is_word(self) -> bool:
        """Whether it is known to be an int of 64 bits."""
        return self.kind == "num" and self.object == "null"


class Variable(NamedTuple):
    """The places of a local variable in the frame."""

    object: str
    # Of one that has been a number at first: its 64 bits, and whether it has a value at all.
    number: str = ""
    is_set: str = ""


class Frame:
    """The translation of one function.

    Locals live in memory of the frame, objects in them are owned. Objects made within a statement
    are released at its end; on an error, `fail` releases those alive and goes to the handler.
    """

    def __init__(self, unit: Unit, function: FunctionType) -> None:
        self.unit = unit
        self.function = function
        self.lines: list[str] = []
        self.locals: dict[str, Variable] = {}
        # Names of the function's own, wherever it assigns to them.
        self.own: set[str] = set()
        # Names of the comprehensions around, and what they are called here.
        self.scopes: list[dict[str, str]] = []
        self.temporaries: list[str] = []
        self.handlers: list[str] = ["error"]
        # Endings of the `try … finally` around, and the handlers outside of each.
        self.finals: list[tuple[list[ast.stmt], list[str]]] = []
        self.ways_out: dict[tuple[tuple[str, ...], str], str] = {}
        # Names that have a value here, whatever way was taken.
        self.assigned: set[str] = set()
        # Where to continue and to break, and how many `finals` are outside.
        self.loops: list[tuple[str, str, int]] = []
        self.count = 0
        # Memory of the frame: name and type; what is "ptr" holds an object or null, at first null.
        self.places: list[tuple[str, str]] = []

    # ---- text ------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def fresh(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def label(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def alloca(self, kind: str) -> str:
        place = f"%v{len(self.places)}"
        self.places.append((place, kind))
        return place

    def capi(self, name: str, *arguments: str) -> str:
        """Calls a C function; the register with its result, if it has one."""
        result, types = CAPI[name]
        f = self.fresh()
        self.emit(f"{f} = load ptr, ptr @capi.{name}, !invariant.load !0")
        called = f"call {result} ({types}) {f}({', '.join(arguments)})"
        if result == "void":
            self.emit(called)
            return ""
        r = self.fresh()
        self.emit(f"{r} = {called}")
        return r

    def helper(self, result: str, name: str, *arguments: str) -> str:
        r = self.fresh()
        self.emit(f'{r} = call {result} @"{name}"({", ".join(arguments)})')
        return r

    # ---- errors, ownership -----------------------------------------------------------------

    def fail_if(self, condition: str) -> None:
        """Goes to the handler if `condition` (a register) holds, releasing what is alive."""
        good = self.label("good")
        self.emit(f"br i1 {condition}, label %{self.way_out()}, label %{good}")
        self.begin(good)

    def way_out(self) -> str:
        """The block that releases what is alive and goes to the handler; written at the end.

        It lets go of the youngest, and leaves the others to the block that serves those.
        """
        alive, handler = tuple(self.temporaries), self.handlers[-1]
        for count in range(len(alive) + 1):
            key = (alive[:count], handler)
            if key not in self.ways_out:
                self.ways_out[key] = self.label("out") if count else handler
        return self.ways_out[alive, handler]

    def write_ways_out(self) -> None:
        for (alive, handler), label in self.ways_out.items():
            if alive:
                self.begin(label)
                self.release_one(f"ptr {alive[-1]}")
                self.jump(self.ways_out[alive[:-1], handler])

    def raise_if(self, condition: str, kind: type, message: str) -> None:
        bad, good = self.label("raise"), self.label("fine")
        self.emit(f"br i1 {condition}, label %{bad}, label %{good}")
        self.begin(bad)
        self._set_error(self.unit.constant(kind), self.unit.constant(message))
        self.jump(self.way_out())
        self.begin(good)

    def _set_error(self, kind_place: str, message_place: str) -> None:
        kind, message = self.fresh(), self.fresh()
        self.emit(f"{kind} = load ptr, ptr {kind_place}")
        self.emit(f"{message} = load ptr, ptr {message_place}")
        self.capi("PyErr_SetObject", f"ptr {kind}", f"ptr {message}")

    def owned(self, register: str) -> Value:
        """An object just made, or null for an error."""
        r = self.fresh()
        self.emit(f"{r} = icmp eq ptr {register}, null")
        self.fail_if(r)
        self.temporaries.append(register)
        return Value(register, "obj")

    def checked(self, status: str, kind: str = "i32") -> None:
        """A status of -1 is an error."""
        r = self.fresh()
        self.emit(f"{r} = icmp eq {kind} {status}, -1")
        self.fail_if(r)

    def fail_if_error(self) -> None:
        """Goes to the handler if a Python exception is set."""
        error, r = self.capi("PyErr_Occurred"), self.fresh()
        self.emit(f"{r} = icmp ne ptr {error}, null")
        self.fail_if(r)

    def release(self, mark: int) -> None:
        """Lets go of the temporaries made since `mark`."""
        for x in self.temporaries[mark:]:
            self.release_one(f"ptr {x}")
        del self.temporaries[mark:]

    def release_one(self, x: str) -> None:
        self.emit(f"call void @decref({x})")

    def hold(self, x: str) -> None:
        self.emit(f"call void @incref({x})")

    def held(self, x: Value) -> Value:
        """The same, owned by the statement: a variable that holds it may be stored to."""
        if x.kind == "obj" and x.text not in self.temporaries:
            self.hold(f"ptr {x.text}")
            self.temporaries.append(x.text)
        if x.kind == "num" and not x.is_word and x.object not in self.temporaries:
            self.emit(f"call void @incref_if_any(ptr {x.object})")
            self.temporaries.append(x.object)
        return x

    def take(self, x: Value) -> str:
        """The object, no longer released at the end of the statement."""
        boxed = self.boxed(x)
        if boxed.text in self.temporaries:
            self.temporaries.remove(boxed.text)
        else:
            self.hold(f"ptr {boxed.text}")
        return boxed.text

    def replace(self, place: str, taken: str) -> None:
        """Stores an owned object, or null, in a place and lets go of what was there."""
        old = self.fresh()
        self.emit(f"{old} = load ptr, ptr {place}")
        self.emit(f"store ptr {taken}, ptr {place}")
        self.release_one(f"ptr {old}")

    def moved_out(self, place: str) -> Value:
        """The object in a place, which from now on belongs to the statement."""
        r = self.fresh()
        self.emit(f"{r} = load ptr, ptr {place}")
        self.emit(f"store ptr null, ptr {place}")
        self.temporaries.append(r)
        return Value(r, "obj")

    # ---- conversions -----------------------------------------------------------------------

    def boxed(self, x: Value) -> Value:
        if x.kind == "obj":
            return x
        if x.is_word:
            return self.owned(self.capi("PyLong_FromLongLong", f"i64 {x.text}"))
        if x.kind == "num":
            return self.owned(self.helper("ptr", "box", f"i64 {x.text}", f"ptr {x.object}"))
        return self.owned(self.capi("PyBool_FromLong", f"i64 {self._wide(x)}"))

    def _wide(self, x: Value) -> str:
        wide = self.fresh()
        self.emit(f"{wide} = zext i1 {x.text} to i64")
        return wide

    def numbered(self, x: Value) -> Value:
        """A value as a number; an object that is no int of 64 bits stays one in it."""
        if x.kind == "num":
            return x
        if x.kind == "bool":
            return Value(self._wide(x), "num")
        return self._pair(self.helper("{ i64, ptr }", "number", f"ptr {x.text}"))

    def _pair(self, both: str) -> Value:
        number, whole = self.fresh(), self.fresh()
        self.emit(f"{number} = extractvalue {{ i64, ptr }} {both}, 0")
        self.emit(f"{whole} = extractvalue {{ i64, ptr }} {both}, 1")
        return Value(number, "num", whole)

    def computed(self, both: str) -> Value:
        """A number just made, or an error."""
        made = self._pair(both)
        failed = self.fresh()
        self.emit(f"{failed} = icmp eq ptr {made.object}, {FAILED}")
        self.fail_if(failed)
        self.temporaries.append(made.object)
        return made

    def word(self, x: Value, converter: str = "PyLong_AsLongLong") -> str:
        """A register with the 64 bits of an int; what is none is an error."""
        if x.is_word:
            return x.text
        if x.kind == "bool":
            return self._wide(x)
        if x.kind == "num" and converter in CAPI:
            n = self.helper("i64", "number.word", *self.passed(x))
            self.fail_if(self.helper("i1", "failed_number", f"i64 {n}"))
            return n
        found = self.boxed(x)
        if converter in CAPI:
            n = self.capi(converter, f"ptr {found.text}")
        else:
            n = self.helper("i64", converter, f"ptr {found.text}")
        self.fail_if(self.helper("i1", "failed_number", f"i64 {n}"))
        return n

    def truth(self, x: Value) -> str:
        """An i1 register."""
        if x.kind == "bool":
            return x.text
        if x.kind == "num":
            return self.answer(self.helper("i32", "number.truth", *self.passed(x)))
        return self.answer(self.helper("i32", "truth", f"ptr {x.text}"))

    def answer(self, status: str, word: str = "ne") -> str:
        """An i1 register with whether a status, which may be -1 for an error, is not 0."""
        self.checked(status)
        r = self.fresh()
        self.emit(f"{r} = icmp {word} i32 {status}, 0")
        return r

    @staticmethod
    def passed(*numbers: Value) -> list[str]:
        """Numbers as arguments of a helper."""
        return [word for x in numbers for word in (f"i64 {x.text}", f"ptr {x.object}")]

    # ---- variables -------------------------------------------------------------------------

    def called(self, name: str) -> str:
        """What a name of the source is called here."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def is_own(self, name: str) -> bool:
        """Whether a name of the source is a local variable."""
        return self.called(name) in self.own

    def load_name(self, name: str) -> Value:
        """The value of a local variable, which holds it: statements store last."""
        mine = self.called(name)
        variable = self.locals.get(mine)
        if variable is None:
            raise Untranslatable(f"{self.function.__name__}: {name} is read before it is assigned")
        x = self.fresh()
        self.emit(f"{x} = load ptr, ptr {variable.object}")
        if not variable.number:
            self._check_set(mine, name, "ptr", x)
            return Value(x, "obj")
        n, is_set = self.fresh(), self.fresh()
        self.emit(f"{n} = load i64, ptr {variable.number}")
        self.emit(f"{is_set} = load i64, ptr {variable.is_set}")
        self._check_set(mine, name, "i64", is_set)
        return Value(n, "num", x)

    def _check_set(self, mine: str, name: str, kind: str, register: str) -> None:
        if mine in self.assigned:
            return
        unset = self.fresh()
        self.emit(f"{unset} = icmp eq {kind} {register}, {'null' if kind == 'ptr' else '0'}")
        # Until Python 3.12 a comprehension is a function, in which our variables are free ones.
        error: type[Exception] = UnboundLocalError
        message = f"cannot access local variable '{name}' where it is not associated with a value"
        if any(self.scopes) and mine == name and sys.version_info < (3, 12):
            error = NameError
            message = f"{message.replace('local', 'free')} in enclosing scope"
        self.raise_if(unset, error, message)

    def store_name(self, name: str, value: Value) -> None:
        """Assigns to a local variable: one that is a number at first may become an object."""
        mine = self.called(name)
        self.assigned.add(mine)
        variable = self.locals.get(mine)
        if variable is None:
            variable = self.locals[mine] = self._new_variable(value.kind == "num")
        if not variable.number:
            self.replace(variable.object, self.take(value))
            return
        # A truth value is not the number that it counts as.
        number = self.numbered(self.boxed(value) if value.kind == "bool" else value)
        self.emit(f"store i64 {number.text}, ptr {variable.number}")
        self.emit(f"store i64 1, ptr {variable.is_set}")
        if not number.is_word:
            self.emit(f"call void @incref_if_any(ptr {number.object})")
        self.replace(variable.object, number.object)

    def _new_variable(self, is_number: bool) -> Variable:
        if is_number:
            return Variable(self.alloca("ptr"), self.alloca("i64"), self.alloca("i64"))
        return Variable(self.alloca("ptr"))

    def forget(self, name: str) -> None:
        """Lets go of what a variable of a comprehension that is over holds."""
        variable = self.locals.get(name)
        if variable is not None:
            self.replace(variable.object, "null")
            if variable.is_set:
                self.emit(f"store i64 0, ptr {variable.is_set}")
