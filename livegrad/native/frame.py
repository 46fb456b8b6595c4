"""The frame of a translated function: text, registers, ownership, conversions."""

from __future__ import annotations

import ast
import builtins
from types import FunctionType
from typing import NamedTuple

from livegrad.native.prelude import CAPI
from livegrad.native.unit import Unit


class Untranslatable(Exception):
    """A function is not written in the subset."""


class Value(NamedTuple):
    """A value in registers: an object (owned by the statement), an integer or a truth value."""

    text: str
    kind: str  # "obj", "int", "bool"


class Frame:
    """The translation of one function.

    Locals live in memory of the frame, objects in them are owned. Objects made within a statement
    are released at its end; on an error, `fail` releases those alive and goes to the handler.
    """

    def __init__(self, unit: Unit, function: FunctionType) -> None:
        self.unit = unit
        self.function = function
        names = {**vars(builtins), **function.__globals__}
        self.globals = {name: unit.originals.get(id(x), x) for name, x in names.items()}
        self.lines: list[str] = []
        self.locals: dict[str, str] = {}
        self.temporaries: list[str] = []
        self.handlers: list[str] = ["error"]
        self.finals: list[list[ast.stmt]] = []
        self.ways_out: dict[tuple[tuple[str, ...], str], str] = {}
        # Names that have a value here, whatever way was taken.
        self.assigned: set[str] = set()
        self.loops: list[tuple[str, str]] = []
        self.count = 0
        # Memory of the frame: name and type; what is "ptr" holds an object or null.
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

    def _write_ways_out(self) -> None:
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
        return x

    def take(self, x: Value) -> str:
        """The object, no longer released at the end of the statement."""
        boxed = self.boxed(x)
        if boxed.text in self.temporaries:
            self.temporaries.remove(boxed.text)
        else:
            self.hold(f"ptr {boxed.text}")
        return boxed.text

    # ---- conversions -----------------------------------------------------------------------

    def boxed(self, x: Value) -> Value:
        if x.kind == "obj":
            return x
        if x.kind == "int":
            return self.owned(self.capi("PyLong_FromLongLong", f"i64 {x.text}"))
        wide = self.fresh()
        self.emit(f"{wide} = zext i1 {x.text} to i64")
        return self.owned(self.capi("PyBool_FromLong", f"i64 {wide}"))

    def integer(self, x: Value) -> str:
        if x.kind == "int":
            return x.text
        if x.kind == "bool":
            wide = self.fresh()
            self.emit(f"{wide} = zext i1 {x.text} to i64")
            return wide
        n = self.helper("i64", "unbox", f"ptr {x.text}")
        self.fail_if(self.helper("i1", "failed_number", f"i64 {n}"))
        return n

    def truth(self, x: Value) -> str:
        """An i1 register."""
        if x.kind == "bool":
            return x.text
        r = self.fresh()
        if x.kind == "int":
            self.emit(f"{r} = icmp ne i64 {x.text}, 0")
            return r
        answer = self.helper("i32", "truth", f"ptr {x.text}")
        self.checked(answer)
        self.emit(f"{r} = icmp ne i32 {answer}, 0")
        return r

    # ---- variables -------------------------------------------------------------------------

    def local(self, name: str, kind: str) -> str:
        """The place of a local variable."""
        key = f"{name}:{kind}"
        other = f"{name}:{'int' if kind == 'obj' else 'obj'}"
        if other in self.locals:
            raise Untranslatable(f"{self.function.__name__}: {name} is a number and an object")
        if key not in self.locals:
            self.locals[key] = self.alloca("ptr" if kind == "obj" else "i64")
        return self.locals[key]
