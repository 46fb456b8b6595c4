"""Translated functions mean what their Python originals do, and hold no reference too many."""

from __future__ import annotations

import gc
import sys
import threading
from types import FunctionType
from typing import Any

import pytest
from asserting import asserts

from livegrad.native import layout
from livegrad.native.hot import FUNCTIONS
from livegrad.native.install import translate
from livegrad.native.subset import Untranslatable
from livegrad.native.translate import translate_unit
from livegrad.runtime.cpu import jit
from livegrad.runtime.speedup import Speedup, original_functions

pytestmark = pytest.mark.skipif(not layout.is_known(), reason="an interpreter we do not know")


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x: Any, y: Any) -> None:
        self.x = x
        self.y = y

    def moved(self, dx: Any, dy: Any = 1) -> tuple[Any, Any]:
        return self.x + dx, self.y + dy


class Elsewhere:
    """Has an attribute of the same name, but no slot."""

    def __init__(self, x: Any) -> None:
        self.x = x


class NotAFrame:
    """Has attributes as a frame does."""

    f_code, f_lasti, f_back = 1, 2, None


LOCAL = threading.local()


def arithmetic(a, b=3):
    n = len(a) * 2 - b
    return n, -n, n == 3, n < b, n >= 1, a is None, a is not None


def slots(p, value):
    before = p.x
    p.x = value
    p.x, q = (p.x, before), p.x
    result = p.x, q
    p.x = before
    return result


def unset_slot(p):
    p = object.__new__(Point)
    return p.y


def with_attributes(name, value):
    made = object.__new__(Elsewhere)
    before = made.__dict__, getattr(made, name, None)
    other = object.__new__(Elsewhere)
    setattr(other, name, value)
    return before, other.__dict__, getattr(other, name), vars(object.__new__(Elsewhere))


def strings(a, b):
    return a == b, a != b, a < b if a else None, (a == b) is True, not a == b  # noqa: SIM201


def above(frame):
    code, last, back = frame.f_code, frame.f_lasti, frame.f_back
    return code, last, back is None, None if back is None else back.f_code


def loops(items):
    total, seen = 0, []
    for i, item in enumerate(items):
        if item is None:
            continue
        if item == "stop":
            break
        seen.append((i, item))
        total += len(item)
    for i in range(total):
        seen.append(i)  # noqa: PERF402 - counted loops are what is tested
    while total > 3:
        total -= 1
    return seen, total


def growing(items):
    for item in items:
        if item < 5:
            items.append(item + 1 + 0)
    return items


def comprehensions(rows):
    flat = [x for row in rows for x in row if x]
    return flat, [(x, y) for x, y in rows if not x]


def choices(a, b):
    first = a or b
    both = a and b
    chained = (a and b) or "neither"
    picked = a if b else b
    return first, both, chained, picked, bool(a), not a


def sets_and_dicts(d, key):
    s = {key, 1}
    s.add(2)
    return d.get(key), d.get("missing"), key in s, key not in d, d[key], s


def catches(x):
    try:
        y = x.missing
    except AttributeError:
        y = "none"
    except TypeError:
        y = "type"
    return y


def cleans_up(p, fails):
    try:
        p.x = "inside"
        if fails:
            raise ValueError("on purpose")
        return "returned"
    finally:
        p.y = "cleaned"


def raises_again(p):
    try:
        return p.x.nothing
    except BaseException:
        p.y = "seen"
        raise


def calls_with_words(p):
    return p.moved(1, dy=2), sorted([3, 1, 2], key=None, reverse=True), max(*[1, 5])


def unbound(flag):
    if flag:
        value = 1.5
    return value


def unpacks(pair):
    a, b = pair
    b, a = a, b
    return a, b


def of_thread():
    return LOCAL.value


def raises_from_none(message):
    try:
        message.upper()
    except AttributeError:
        raise KeyError(message) from None


def calls_translated(x):
    return choices(x, 1), arithmetic([x])


CASES: list[tuple[FunctionType, list[Any]]] = [
    (arithmetic, [([1, 2],), ((), 0), ("abc", 4)]),
    (slots, [(Point(1, 2), [3]), (Elsewhere("e"), 4)]),
    (unset_slot, [(None,)]),
    (loops, [(["ab", None, "c", "stop", "d"],), ((),), ([""],), ([None, 5],)]),
    (growing, [([0, 3, 9],), ([],)]),
    (comprehensions, [([(0, 1), (2, 0)],), ([],), (((None, ""),),)]),
    (choices, [(0, 1), (1, 0), ("", None), ([1], [2]), (True, False)]),
    (sets_and_dicts, [({"k": 1}, "k"), ({}, "k"), ({}, [])]),
    (catches, [(1,), (None,)]),
    (cleans_up, [(Point(0, 0), False), (Point(0, 0), True), (Elsewhere(1), True)]),
    (raises_again, [(Point(1, 2),), (5,)]),
    (calls_with_words, [(Point(1, 2),), (3,)]),
    (unbound, [(True,), (False,)]),
    (unpacks, [((1, 2),), ([1, 2],), ((1,),), (5,)]),
    (asserts, [(1,), (None,)]),
    (calls_translated, [(0,), (7,)]),
    (raises_from_none, [("x",), (3,)]),
    (with_attributes, [("x", 1), ("y", "z")]),
    (strings, [("ab", "ab"), ("ab", "abc"), ("ab", "cd"), ("", "x"), ("1", 1), (b"1", b"1")]),
    (above, [(NotAFrame,), (1,)]),
]
NATIVE = translate([f for f, _ in CASES], [Point], jit.compile_kernel) if layout.is_known() else {}


def outcome(function: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


def copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    import copy

    return copy.deepcopy(arguments)


def visible(x: Any) -> Any:
    """What can be compared of a value."""
    if isinstance(x, Point):
        return ("point", visible(x.x), visible(x.y))
    if isinstance(x, Elsewhere):
        return ("elsewhere", visible(x.x))
    if isinstance(x, tuple | list):
        return [type(x), *map(visible, x)]
    return x


@pytest.mark.parametrize(("function", "arguments"), [(f, a) for f, many in CASES for a in many])
def test_same_results_errors_and_effects(function: FunctionType, arguments: Any) -> None:
    mine, theirs = copied(arguments), copied(arguments)
    assert visible(outcome(NATIVE[function], mine)) == visible(outcome(function, theirs))
    assert visible(mine) == visible(theirs)


@pytest.mark.parametrize(("function", "arguments"), [(f, a) for f, many in CASES for a in many])
def test_references_are_balanced(function: FunctionType, arguments: Any) -> None:
    def references() -> list[int]:
        watched = [None, True, False, (), *arguments]
        return [sys.getrefcount(x) for x in watched]

    native = NATIVE[function]
    arguments = copied(arguments)
    if function is growing:
        pytest.skip("the argument grows")
    outcome(native, arguments)
    gc.collect()
    before, objects = references(), len(gc.get_objects())
    for _ in range(200):
        outcome(native, arguments)
    gc.collect()
    # Others may come and go meanwhile, but not two hundred.
    assert max([abs(a - b) for a, b in zip(references(), before, strict=True)]) < 100
    assert abs(len(gc.get_objects()) - objects) < 100


def test_from_none_hides_what_is_being_handled() -> None:
    for function in (raises_from_none, NATIVE[raises_from_none]):
        with pytest.raises(KeyError) as raised:
            try:
                [].pop()
            except IndexError:
                function(3)
        assert raised.value.__suppress_context__
        assert raised.value.__cause__ is None


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError):
        NATIVE[choices](1)
    with pytest.raises(TypeError):
        NATIVE[choices](1, 2, 3)
    with pytest.raises(TypeError):
        NATIVE[choices](1, c=2)
    with pytest.raises(TypeError):
        NATIVE[choices](1, a=2)
    assert NATIVE[choices](b=1, a=0) == choices(0, 1)


def test_frames_tell_what_they_tell_python() -> None:
    frame = sys._getframe().f_back
    while frame is not None:
        expected, found = above(frame), NATIVE[above](frame)
        assert found == expected
        assert found[0] is expected[0]
        frame = frame.f_back


def test_what_a_thread_has_is_its_own() -> None:
    native = translate([of_thread], [], jit.compile_kernel)[of_thread]
    found = []

    def run(number: int) -> None:
        LOCAL.value = number
        found.append((number, native(), native()))

    for number in range(5):
        thread = threading.Thread(target=run, args=(number,))
        thread.start()
        thread.join()
    assert found == [(n, n, n) for n in range(5)]


def test_what_is_not_in_the_subset_is_refused() -> None:
    def with_lambda(x):
        return lambda: x

    with pytest.raises(Untranslatable, match="lambda"):
        translate_unit({}, [with_lambda])


def test_a_source_that_has_changed_is_refused(tmp_path) -> None:
    import importlib.util

    path = tmp_path / "changing.py"
    path.write_text("def f(x):\n    return x.one\n")
    spec = importlib.util.spec_from_file_location("changing", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_text("def f(x):\n    return x.other\n")
    with pytest.raises(Untranslatable, match="changed"):
        translate_unit({}, [module.f])


def test_the_hot_functions_are_translated_and_can_be_had_back() -> None:
    from livegrad.graph import record

    if not Speedup.made:
        pytest.skip("LIVEGRAD_NATIVE=off")
    assert set(Speedup.made) == set(FUNCTIONS)
    assert not isinstance(record.append, FunctionType)
    with original_functions():
        assert isinstance(record.append, FunctionType)
    assert not isinstance(record.append, FunctionType)


TRAINING = """
import livegrad as lg
from livegrad import nn, optim
lg.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
optimizer = optim.Adam(net.parameters(), lr=0.01)
x, y = lg.randn(16, 3), lg.randn(16, 1)
for step in range(100):
    optimizer.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
print(loss.item(), [p.sum().item() for p in net.parameters()])
from livegrad.runtime.speedup import Speedup
print(len(Speedup.made) > 0)
"""


@pytest.mark.slow
def test_training_gives_the_same_bits_with_and_without(python: Any) -> None:
    native = python(TRAINING, LIVEGRAD_NATIVE="").stdout.split("\n")
    plain = python(TRAINING, LIVEGRAD_NATIVE="off").stdout.split("\n")
    assert native[0] == plain[0]
    assert (native[1], plain[1]) == ("True", "False")
