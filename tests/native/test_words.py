"""CPython's layout as native code knows it, and functions that read by it."""

from __future__ import annotations

import sys
from array import array
from typing import Any

import pytest

from livegrad.native import layout
from livegrad.native.calls import half_at, int_at, put_word, word_at
from livegrad.native.layout import ITEMS, REFERENCES, SIZE, slot_offset, slots_of
from livegrad.native.subset import Untranslatable
from livegrad.native.words import compile_words
from livegrad.runtime.cpu import jit

pytestmark = pytest.mark.skipif(not layout.is_known(), reason="an interpreter we do not know")


class Base:
    __slots__ = ("x", "y")


class Child(Base):
    __slots__ = ("z",)


class Hidden(Base):
    """Has a property in the place of a slot."""

    __slots__ = ()
    x = property(lambda self: 1)  # type: ignore[assignment]


class Guarded(Base):
    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


def test_the_layout_of_this_interpreter_is_known() -> None:
    assert sys.version_info[:2] in layout.KNOWN


def test_slots_are_where_their_descriptors_say() -> None:
    child = Child()
    child.x, child.z = x, z = [1], [2]
    assert word_at(id(child) + slot_offset(Base, "x")) == id(x)
    assert word_at(id(child) + slot_offset(Child, "z")) == id(z)


def test_slots_of_a_class_are_its_own_and_inherited() -> None:
    assert set(slots_of([Child])) == {"x", "y", "z"}


def test_what_is_not_only_a_slot_is_read_in_the_general_way() -> None:
    assert set(slots_of([Hidden])) == {"y"}
    assert slots_of([Guarded]) == {}


# ---- functions of words


def total(numbers, count):
    found = 0
    for i in range(count):
        found += word_at(numbers + 8 * i)
    return found


def reversed_in_place(numbers, count):
    for i in range(count):
        if i >= count - 1 - i:
            return total(numbers, count)
        first = word_at(numbers + 8 * i)
        put_word(numbers + 8 * i, word_at(numbers + 8 * (count - 1 - i)))
        put_word(numbers + 8 * (count - 1 - i), first)
    return -1


def first_of(things):
    if word_at(things + SIZE) == 0:
        return -1
    return int_at(word_at(word_at(things + ITEMS)))


def references(x):
    return half_at(x + REFERENCES)


def is_none(x):
    if x == id(None):
        return 1
    return 0


def has_same(a: Base, b: Base) -> bool:
    other: Base = b
    return a.x is other.x and a.y is not None


def y_of(a: Base) -> Any:
    return a.y


def type_of_y(a: Base) -> Any:
    return type(y_of(a))


@pytest.fixture(scope="module")
def native() -> dict[str, Any]:
    import ctypes

    functions: list[Any] = [total, reversed_in_place, first_of, references, is_none]
    functions += [has_same, y_of, type_of_y]
    made = compile_words(functions, jit.compile_kernel)
    kinds = {f: [ctypes.c_int64] * (1 + f.__code__.co_argcount) for f in functions}
    return {f.__name__: ctypes.PYFUNCTYPE(*kinds[f])(address) for f, address in made.items()}


def test_functions_of_words_mean_what_python_does(native: dict[str, Any]) -> None:
    numbers, same = array("q", [3, -4, 5, 1 << 40]), array("q", [3, -4, 5, 1 << 40])
    given, other = numbers.buffer_info(), same.buffer_info()
    assert native["total"](*given) == total(*other) == sum(numbers)
    assert native["reversed_in_place"](*given) == reversed_in_place(*other)
    assert numbers == same == array("q", [1 << 40, 5, -4, 3])
    numbers_of_digits = [0, (1 << 30) - 1, 1 << 30, -(1 << 30), (1 << 60) - 1, 1 << 60, -(1 << 62)]
    for things in ([], [7, 8], [-1], [1 << 40], *[[n] for n in numbers_of_digits]):
        assert native["first_of"](id(things)) == first_of(id(things))
    things = [object()]
    also = things
    assert native["references"](id(things)) == references(id(things)) == 2
    assert native["is_none"](id(None)) == is_none(id(None)) == 1
    assert native["is_none"](id(also)) == is_none(id(also)) == 0


def test_objects_are_lent(native: dict[str, Any]) -> None:
    a, b = Base(), Child()
    a.x, a.y = [1], None
    b.x, b.y = a.x, 1.5
    before = sys.getrefcount(a.x), sys.getrefcount(b.y)
    for one, other in ((a, b), (b, a), (b, b)):
        assert native["has_same"](id(one), id(other)) == has_same(one, other)
        assert native["y_of"](id(one)) == id(one.y)
        assert native["type_of_y"](id(one)) == id(type(one.y))
    assert (sys.getrefcount(a.x), sys.getrefcount(b.y)) == before


def no_slot(a: Base) -> Any:
    return a.z  # type: ignore[attr-defined]


def not_a_class(a: Any) -> Any:
    return a.x


def truth_of_object(a: Base) -> int:
    if a.x:
        return 1
    return 0


def object_for_number(a: Base) -> int:
    return a.x


def number_for_object(a: int) -> bool:
    return has_same(a, a)  # type: ignore[arg-type]


def added(a: Base) -> int:
    return a.x + 1


@pytest.mark.parametrize(
    "function",
    [no_slot, not_a_class, truth_of_object, object_for_number, number_for_object, added],
)
def test_what_is_not_known_of_an_object_is_refused(function: Any) -> None:
    with pytest.raises(Untranslatable):
        compile_words([function, has_same], jit.compile_kernel)


def test_a_function_of_words_is_called_with_as_many(native: dict[str, Any]) -> None:
    def too_few(x):
        return total(x)

    with pytest.raises(Untranslatable):
        compile_words([too_few, total], jit.compile_kernel)
