"""Numbers that a program gives to operations: no part of structure, known to a plan by place."""

from __future__ import annotations

from operator import index as as_index
from typing import Any

from livegrad.graph.blame import wrong_class
from livegrad.graph.op import Op
from livegrad.graph.symbol import Symbol, SymbolicFloat, real

Number = bool | int | float


class IntArg(int):
    """A run-time integer seen while planning: it remembers its slot in the plan's inputs."""

    slot: int


class FloatArg(float):
    """A run-time float seen while planning: it remembers its slot in the plan's scalars."""

    slot: int


class Specialised:
    """Whether a rule computed with, or looked at, a run-time number since `seen` was cleared.

    The plan then holds for these numbers only. Rules should pass args on as they are.
    """

    seen = False


def _noticed(name: str, base: type) -> Any:
    plain = getattr(base, name)

    def method(self: Any, *others: Any) -> Any:
        Specialised.seen = True
        return plain(self, *others)

    return method


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow neg pos abs "
    "divmod rdivmod float int bool eq ne lt le gt ge round trunc floor ceil hash"
).split():
    setattr(IntArg, f"__{_name}__", _noticed(f"__{_name}__", int))
    setattr(FloatArg, f"__{_name}__", _noticed(f"__{_name}__", float))
for _name in "and rand or ror xor rxor lshift rlshift rshift rrshift invert".split():
    setattr(IntArg, f"__{_name}__", _noticed(f"__{_name}__", int))
NUMBER_KINDS: dict[type, type] = {
    bool: bool,
    int: int,
    float: float,
    IntArg: int,
    FloatArg: float,
    Symbol: int,
    SymbolicFloat: float,
}
# Run-time integers are int64. As floats: translated code takes integers for int64 to begin with.
FIRST_INT, INTS_END = -(2.0**63), 2.0**63


def wrapped(x: int) -> int:
    """The int64 with the bits of a uint64."""
    if not 0 <= x < 1 << 64:
        raise OverflowError(f"int too big to convert; got {x}; expected 64 bits")
    return x - (1 << 64)


def as_float(x: Number) -> Number:
    # While planning, a run-time integer stays what it is: it remembers its slot.
    if type(x) is Symbol:
        return real(x)
    return x if type(x) is IntArg else float(x)


def as_arguments(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Run-time numbers some of which are of other classes, such as NumPy's."""
    return tuple([x if type(x) in NUMBER_KINDS else _number(op, x) for x in args])


def _number(op: Op, x: Any) -> Number:
    if hasattr(x, "__index__"):
        return as_index(x)
    if hasattr(x, "__float__"):
        return float(x)
    raise wrong_class(x, "Number", op.name)


def too_large(op: Op, x: int) -> RuntimeError:
    return RuntimeError(
        f"{op.name}: value cannot be converted to type int64_t without overflow; got {x}"
    )


def as_number(op: Op, x: Any) -> Any:
    if isinstance(x, bool | int | float):
        return x if type(x) in NUMBER_KINDS else _plain(x)
    if isinstance(x, complex):
        return complex(x)
    item = getattr(x, "item", None)
    if item is not None and getattr(x, "ndim", 0) == 0:  # NumPy scalars
        return as_number(op, item())
    raise wrong_class(x, "Tensor or number", op.name)


def _plain(x: Number) -> Number:
    # Subclasses of int and float, such as enum members.
    return float(x) if isinstance(x, float) else int(x)
