"""A pickle machine that can make values and nothing else.

It reads the opcodes that `torch.save` writes (protocols 2 to 5). A global is looked up in a table
of our own, never imported; only what the table marks as callable is called. Every opcode that
could do more (INST, OBJ, NEWOBJ, EXT…, text forms of protocol 0) is refused by name.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from livegrad.serialization.errors import MOST_INT_BYTES, MOST_OBJECTS, LoadError
from livegrad.serialization.files import Source
from livegrad.serialization.walk import Keys

_MOST_NAME = 256


class Known:
    """A global that files may name: a function of ours that stands for it, or just its name."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[[tuple[Any, ...]], Any] | None = None) -> None:
        self.name = name
        self.call = call


class Machine:
    """Runs one pickle.

    Args:
        source: the file, for messages.
        data: the pickle.
        find: gives what a module and a name stand for, or raises LoadError.
        persistent: gives what a persistent id stands for.
        start: where in `data` the pickle begins; after `run`, `at` is where it ends.
        label: what the pickle is, for messages.
    """

    def __init__(
        self,
        source: Source,
        data: bytes,
        find: Callable[[str, str], Any],
        persistent: Callable[[Any], Any],
        start: int = 0,
        label: str = "data.pkl",
    ) -> None:
        self.source = source
        self.data = data
        self.find = find
        self.persistent = persistent
        self.at = start
        self.label = label
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.all_keys = Keys()

    def run(self) -> Any:
        """The value that the pickle makes."""
        if not self.data.startswith(b"\x80", self.at):
            raise self.bad("does not start with PROTO")
        data, steps = self.data, 0
        while True:
            if self.at >= len(data):
                raise self.bad("ends without STOP")
            code = data[self.at]
            self.at += 1
            if code == _STOP:
                break
            step = _STEPS.get(code)
            if step is None:
                raise self.bad(f"has the opcode {_opcode_name(code)}, which load never runs")
            steps += 1
            if steps > MOST_OBJECTS:
                raise self.bad(f"has more than {MOST_OBJECTS} opcodes")
            step(self)
        if len(self.stack) != 1 or self.marked:
            raise self.bad("leaves other than one value")
        return self.stack[0]

    def bad(self, text: str) -> LoadError:
        """The error that says `text` about the pickle."""
        return self.source.error(f"its {self.label} {text} (at byte {self.at}); it is refused")

    # ---- reading -------------------------------------------------------------------------

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        at = self.at
        if count > len(self.data) - at:
            raise self.bad(f"needs {count} more bytes; got {len(self.data) - at}")
        self.at = at + count
        return self.data[at : at + count]

    def number(self, size: int) -> int:
        """The next `size` bytes as an unsigned number."""
        return int.from_bytes(self.take(size), "little")

    def line(self) -> str:
        """Text up to the end of the line."""
        end = self.data.find(b"\n", self.at, self.at + _MOST_NAME + 1)
        if end < 0:
            raise self.bad("has a name without end")
        raw = self.take(end - self.at)
        self.at += 1
        return self.text(raw)

    def text(self, raw: bytes) -> str:
        """Bytes as text."""
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.bad("has text that is not UTF-8") from None

    def pop(self) -> Any:
        """The value on top of the stack."""
        if not self.stack:
            raise self.bad("takes a value from an empty stack")
        return self.stack.pop()

    def top(self, kinds: tuple[type, ...], what: str) -> Any:
        """The value on top, which stays there, and must be of one of these types exactly."""
        if not self.stack or type(self.stack[-1]) not in kinds:
            found = type(self.stack[-1]).__name__ if self.stack else "nothing"
            raise self.bad(f"{what} {found}")
        return self.stack[-1]

    def pop_mark(self) -> list[Any]:
        """The values since the last MARK."""
        if not self.marked:
            raise self.bad("looks for a MARK that is not there")
        items, self.stack = self.stack, self.marked.pop()
        return items

    # ---- opcodes -------------------------------------------------------------------------

    def proto(self) -> None:
        version = self.number(1)
        if not 2 <= version <= 5:
            raise self.bad(f"is of protocol {version}; expected 2 to 5")

    def frame(self) -> None:
        if self.number(8) > len(self.data) - self.at:
            raise self.bad("has a frame that does not fit")

    def mark(self) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def binint(self) -> None:
        self.stack.append(int.from_bytes(self.take(4), "little", signed=True))

    def long(self, size: int) -> None:
        count = self.number(size)
        if count > MOST_INT_BYTES:
            raise self.bad(f"has an integer of {count} bytes; expected at most {MOST_INT_BYTES}")
        self.stack.append(int.from_bytes(self.take(count), "little", signed=True))

    def binfloat(self) -> None:
        self.stack.append(struct.unpack(">d", self.take(8))[0])

    def unicode(self, size: int) -> None:
        self.stack.append(self.text(self.take(self.number(size))))

    def binbytes(self, size: int) -> None:
        self.stack.append(self.take(self.number(size)))

    def bytearray8(self) -> None:
        self.stack.append(bytearray(self.take(self.number(8))))

    def make_tuple(self) -> None:
        items = tuple(self.pop_mark())
        self.stack.append(items)

    def short_tuple(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def append(self) -> None:
        item = self.pop()
        self.top((list,), "appends to").append(item)

    def appends(self) -> None:
        items = self.pop_mark()
        self.top((list,), "appends to").extend(items)

    def setitem(self) -> None:
        value, key = self.pop(), self.pop()
        self._set_items([key, value])

    def setitems(self) -> None:
        self._set_items(self.pop_mark())

    def _set_items(self, items: list[Any]) -> None:
        target = self.top((dict, OrderedDict, Counter), "sets items of")
        if len(items) % 2:
            raise self.bad("sets a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.check_key(key)
            target[key] = value

    def check_key(self, key: Any) -> None:
        """Raises unless `key` is of a type that is quickly hashed."""
        problem = self.all_keys.problem(key)
        if problem is not None:
            raise self.bad(f"has a key or element that {problem}")

    def additems(self) -> None:
        items = self.pop_mark()
        self.top((set,), "adds elements to").update(self.keys(items))

    def make_frozenset(self) -> None:
        items = frozenset(self.keys(self.pop_mark()))
        self.stack.append(items)

    def keys(self, items: list[Any]) -> list[Any]:
        """Items that may be elements of a set."""
        for item in items:
            self.check_key(item)
        return items

    def put(self, index: int) -> None:
        if not self.stack:
            raise self.bad("remembers a value from an empty stack")
        if index > MOST_OBJECTS:
            raise self.bad(f"remembers a value as number {index}; expected {MOST_OBJECTS} at most")
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise self.bad(f"asks for value number {index}, which it has not remembered")
        self.stack.append(self.memo[index])

    def global_(self) -> None:
        module = self.line()
        self.stack.append(self.find(module, self.line()))

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if type(name) is not str or type(module) is not str:
            raise self.bad("names a global by something else than text")
        self.stack.append(self.find(module, name))

    def reduce(self) -> None:
        args, function = self.pop(), self.pop()
        if type(args) is not tuple:
            raise self.bad(f"calls with a {type(args).__name__}; expected a tuple")
        if type(function) is not Known or function.call is None:
            name = function.name if type(function) is Known else type(function).__name__
            raise self.bad(f"calls {name}, which load never does")
        self.stack.append(function.call(args))

    def build(self) -> None:
        state = self.pop()
        target = self.top((OrderedDict,), "sets the state of")
        # What a Module's state dict carries; anything else could hide methods of the dict.
        if type(state) is not dict or not set(state) <= {"_metadata"}:
            raise self.bad("gives an OrderedDict attributes other than _metadata")
        for versions in state.values():
            if type(versions) not in (dict, OrderedDict):
                raise self.bad("gives a state dict metadata that are no dict")
            target._metadata = versions

    def persid(self) -> None:
        self.stack.append(self.persistent(self.pop()))


def _opcode_name(code: int) -> str:
    from pickletools import opcodes

    return next((op.name for op in opcodes if op.code == chr(code)), f"{code:#04x}")


def _push(value: Any) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(value)


_STOP = ord(".")
_STEPS: dict[int, Callable[[Machine], None]] = {
    0x80: Machine.proto,
    0x95: Machine.frame,
    ord("("): Machine.mark,
    ord("N"): _push(None),
    0x88: _push(True),
    0x89: _push(False),
    ord("J"): Machine.binint,
    ord("K"): lambda m: m.stack.append(m.number(1)),
    ord("M"): lambda m: m.stack.append(m.number(2)),
    0x8A: lambda m: m.long(1),
    0x8B: lambda m: m.long(4),
    ord("G"): Machine.binfloat,
    0x8C: lambda m: m.unicode(1),
    ord("X"): lambda m: m.unicode(4),
    0x8D: lambda m: m.unicode(8),
    ord("U"): lambda m: m.unicode(1),  # text of Python 2
    ord("T"): lambda m: m.unicode(4),
    ord("C"): lambda m: m.binbytes(1),
    ord("B"): lambda m: m.binbytes(4),
    0x8E: lambda m: m.binbytes(8),
    0x96: Machine.bytearray8,
    ord(")"): lambda m: m.stack.append(()),
    ord("t"): Machine.make_tuple,
    0x85: lambda m: m.short_tuple(1),
    0x86: lambda m: m.short_tuple(2),
    0x87: lambda m: m.short_tuple(3),
    ord("]"): lambda m: m.stack.append([]),
    ord("a"): Machine.append,
    ord("e"): Machine.appends,
    ord("}"): lambda m: m.stack.append({}),
    ord("s"): Machine.setitem,
    ord("u"): Machine.setitems,
    0x8F: lambda m: m.stack.append(set()),
    0x90: Machine.additems,
    0x91: Machine.make_frozenset,
    ord("q"): lambda m: m.put(m.number(1)),
    ord("r"): lambda m: m.put(m.number(4)),
    0x94: lambda m: m.put(len(m.memo)),
    ord("h"): lambda m: m.get(m.number(1)),
    ord("j"): lambda m: m.get(m.number(4)),
    ord("c"): Machine.global_,
    0x93: Machine.stack_global,
    ord("R"): Machine.reduce,
    ord("b"): Machine.build,
    ord("Q"): Machine.persid,
}
