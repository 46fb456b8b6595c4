"""What translated functions have in common: constants, names, helpers for attributes."""

from __future__ import annotations

import builtins
import sys
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from livegrad.native import prelude, slots
from livegrad.native.capi import names
from livegrad.native.hot import is_method
from livegrad.native.watch import Constant

# What Python adds to its complaint about too deep a recursion.
_WHILE_CALLING = '@while_calling = internal constant [1 x i8] c"\\00"'


class Translation(NamedTuple):
    """A module with functions, the objects to put into its table, and what it took for constant."""

    ir: str
    objects: list[Any]
    constants: list[Constant]


class Unit:
    """Functions translated together: they call each other directly.

    `classes` are those whose slots are read and written in place.
    """

    def __init__(
        self,
        classes: dict[str, list[tuple[type, int]]],
        functions: list[FunctionType],
        originals: dict[Any, FunctionType],
    ) -> None:
        self.originals = {id(native): function for native, function in originals.items()}
        self.slots = classes
        self.functions = functions
        self.symbols = {f: f"py.{i}.{f.__name__}" for i, f in enumerate(functions)}
        self.methods = {f for f in functions if is_method(f)}
        # The functions that are called directly, by the ids of themselves and of what stands for
        # them in their modules.
        self._direct = {**self.originals, **{id(f): f for f in functions}}
        self.objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self.names: dict[str, str] = {}
        self._readers: dict[str, str] = {}
        self._writers: dict[str, str] = {}
        self._remembered: dict[str, str] = {}
        # The global names that were taken for constants.
        self._constants: dict[tuple[int, str], Constant] = {}

    def constant(self, value: Any) -> str:
        """The global that holds an object."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.objects)
            self.objects.append(value)  # kept, so that ids stay theirs
        return f"@obj.{number}"

    def global_value(self, namespace: dict[str, Any], name: str) -> Any:
        """The value of a global name, which is a constant from now on; of a built-in function of
        an earlier translation, its original."""
        value = namespace.get(name, vars(builtins).get(name))
        value = self.originals.get(id(value), value)
        self._constants.setdefault((id(namespace), name), Constant(namespace, name, value))
        return value

    def reaches(self, function: FunctionType, other: FunctionType) -> bool:
        """Whether a call of `function` may call `other`, as far as it is by global names."""
        seen, rest = {function}, [function]
        while rest:
            one = rest.pop()
            named = [id(one.__globals__.get(name)) for name in one.__code__.co_names]
            called = {self._direct[x] for x in named if x in self._direct}
            rest += called - seen
            seen |= called
        return other in seen

    def name(self, name: str) -> str:
        """The global that holds an interned attribute name."""
        self.names.setdefault(name, sys.intern(name))
        return f"@name.{name}"

    def reader(self, attribute: str) -> str:
        """The helper that reads an attribute."""
        if attribute not in self._readers:
            self.name(attribute)
            self._readers[attribute] = self._written_reader(attribute)
        return f"@get.{attribute}"

    def _written_reader(self, attribute: str) -> str:
        if attribute in slots.FRAME_READERS:
            return slots.frame_reader(attribute, self._number(FrameType))
        return slots.slot_reader(attribute, self._owners(attribute))

    def writer(self, attribute: str) -> str:
        """The helper that writes an attribute."""
        if attribute not in self._writers:
            self.name(attribute)
            self._writers[attribute] = slots.slot_writer(attribute, self._owners(attribute))
        return f"@set.{attribute}"

    def remembered(self, owner: Any, attribute: str) -> str:
        """The global that holds a thread's id and its value of a thread-local attribute."""
        place = f"@local.{self.constant(owner).rpartition('.')[2]}.{attribute}"
        self._remembered[place] = f"{place} = internal global [2 x i64] [i64 -1, i64 0]"
        return place

    def _owners(self, attribute: str) -> list[tuple[int, int]]:
        owners = self.slots.get(attribute, [])
        return [(self._number(cls), offset) for cls, offset in owners]

    def _number(self, value: Any) -> int:
        return int(self.constant(value).rpartition(".")[2])

    def module(self, bodies: list[str]) -> Translation:
        """The whole module."""
        objects = [*prelude.OBJECTS.values(), *self.names.values(), *self.objects]
        places = [
            *[f"obj.{name}" for name in prelude.OBJECTS],
            *[f"name.{name}" for name in self.names],
            *[f"obj.{i}" for i in range(len(self.objects))],
        ]
        globals_ = "\n".join([f"@{place} = internal global ptr null" for place in places])
        parts = [
            prelude.text(), _WHILE_CALLING, globals_, *self._remembered.values(),
            *self._readers.values(), *self._writers.values(), *bodies, self._entry(places),
        ]  # fmt: skip
        return Translation("\n".join(parts), objects, list(self._constants.values()))

    def _entry(self, places: list[str]) -> str:
        """`livegrad_native(table, out)`: takes addresses in, gives those of the functions out."""
        lines = ["define void @livegrad_native(ptr %table, ptr %out) {"]
        every = [f"capi.{name}" for name in names()] + places
        for i, place in enumerate(every):
            lines += [
                f"  %p{i} = getelementptr ptr, ptr %table, i64 {i}",
                f"  %v{i} = load ptr, ptr %p{i}",
                f"  store ptr %v{i}, ptr @{place}",
            ]
        for i, symbol in enumerate(self.symbols.values()):
            lines += [
                f"  %o{i} = getelementptr ptr, ptr %out, i64 {i}",
                f'  store ptr @"{symbol}.call", ptr %o{i}',
            ]
        return "\n".join([*lines, "  ret void", "}"])
