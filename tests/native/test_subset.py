"""What is not in the subset is refused; what is in it has Python's meaning, to the last corner.

Each probe is a function that an earlier translator took and got wrong, or might.
"""

from __future__ import annotations

import copy
import sys
from types import FunctionType
from typing import Any

import pytest

from livegrad.native import layout
from livegrad.native.install import translate
from livegrad.native.subset import Untranslatable
from livegrad.native.translate import translate_unit
from livegrad.runtime.cpu import jit

pytestmark = pytest.mark.skipif(not layout.is_known(), reason="an interpreter we do not know")

BIG = 1 << 62
HUGE = 1 << 80
HIDDEN = 1
CALLS: list[Any] = []


class Box:
    __slots__ = ("x", "y")

    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> Any:
        return ["no truth value"]

    __hash__ = None  # type: ignore[assignment]


def noted(x):
    CALLS.append(x)
    return x


# ruff: noqa: B012, C416, F841


# ---- refused


def for_else(xs):
    for x in xs:
        if x:
            break
    else:
        return "none"
    return "some"


def while_else(n):
    while n:
        n -= 1
    else:
        n = "over"
    return n


def try_else(x):
    try:
        y = x.a
    except AttributeError:
        y = 1
    else:
        y = 2
    return y


def returns_in_finally(x):
    try:
        return x.a
    finally:
        return "finally"  # noqa: SIM107


def names_an_error(x):
    try:
        return x.a
    except AttributeError as error:
        return error


def bare_except(x):
    try:
        return x.a
    except:  # noqa: E722
        return 1


def starred_target(xs):
    first, *rest = xs
    return first, rest


def starred_list(xs):
    return [*xs, 1]


def many_starred(xs):
    return max(1, *xs)


def double_starred(words):
    return dict(**words)


def a_slice(xs):
    return xs[1:]


def divides(a):
    return a // 2


def inverts(a):
    return ~a


def set_comprehension(xs):
    return {x for x in xs}


def generator(xs):
    return sum(x for x in xs)


def yields(xs):
    yield xs


def deletes(xs):
    del xs[0]


def formatted(x):
    return f"{x}"


def walrus(x):
    return (y := x) and y


def with_block(x):
    with x:
        return 1


def imports():
    import os

    return os


def global_name():
    global BIG
    BIG = 3


def nested(x):
    def inner():
        return 1

    return inner()


def from_an_error(x):
    raise KeyError(x) from ValueError()


def chained_calls(a, b):
    return a < noted(b) < a


def counts_wrong(a):
    b, c = 1, 2, 3
    return b, c, a


def identical_numbers(xs):
    n = len(xs)
    return n is noted(n)


def read_before_it_is_local(xs):
    for x in xs:
        if x:
            return HIDDEN  # noqa: F823 - on purpose
        HIDDEN = x
    return None


def only_named(*, a):
    return a


def comprehension_to_an_attribute(b, xs):
    return [b.x for b.x in xs]


REFUSED = [
    for_else, while_else, try_else, returns_in_finally, names_an_error, bare_except,
    starred_target, starred_list, many_starred, double_starred, a_slice, divides, inverts,
    set_comprehension, generator, yields, deletes, formatted, walrus, with_block, imports,
    global_name, nested, from_an_error, chained_calls, counts_wrong, identical_numbers,
    read_before_it_is_local, only_named, comprehension_to_an_attribute,
]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_refused(function: FunctionType) -> None:
    with pytest.raises(Untranslatable):
        translate_unit({}, [function])


# ---- as Python means it


def continues_in_finally(xs, log):
    for x in xs:
        try:
            if x == 1:
                continue
            if x == 2:
                break
            log.append(("body", x))
        finally:
            log.append(("finally", x))
    return log


def returns_through_two(x, log):
    try:
        try:
            return x.real
        finally:
            log.append("inner")
            log.missing.more  # raises, and nothing is left of the return
    finally:
        log.append("outer")


def catches_what_a_return_raised(x, log):
    for i in range(2):
        try:
            try:
                return [x]
            finally:
                log.append(i)
                log.missing
        except AttributeError:
            log.append("caught")
    return log


def adds_in_place(a):
    b = a
    b += [1]
    return a, b is a


def multiplies_in_place(a):
    b = a
    b *= 2
    return a, b is a


def adds_to_what_a_call_gives(p):
    noted(p).x += 1
    noted(p).x -= 2
    return p.x


def adds_to_an_item(xs):
    xs[len(noted(xs)) - 1] += 5
    return xs


def comprehension_variable(xs):
    x = "outer"
    ys = [x for x in xs]
    zs = [x for x in [x]]
    return x, ys, zs


def nested_comprehensions(rows):
    row = 7
    return [[row for row in row] for row in rows], row


def iterates(xs):
    return [x for x in xs]


def iterates_what_changes(d):
    for key in d:
        d[key + key] = 1
    return d


def takes_apart(x):
    a, b = x
    return a, b


def takes_apart_itself(xs):
    xs[1], y = xs
    return xs, y


def assigns_to_several(a):
    b, c = d = (a, 1)
    e = f = len(d)
    return b, c, d, e, f


def overflows(a):
    n = len(a) * BIG
    return n, n + BIG, n - 1, -n, n * n


def counts_beyond(a):
    n = BIG
    for _ in a:
        n += n
        n *= 3
    return n, n > BIG, n == BIG, bool(n)


def huge_constants():
    return HUGE, 1208925819614629174706176, -9223372036854775808, 9223372036854775808


def mixes(a, n):
    k = len(a)
    return k + n, k - n, n * k, k == n, n != k


def orders(a, n):
    k = len(a)
    return k < n, n >= k, 0 <= n < k


def negates(x):
    return -x


def number_or_not(flag):
    n = 1
    if flag:
        n = None
    elif flag is None:
        n = 2.5
    return n, n is None, n is not None


def unset_number(flag):
    if flag:
        n = 1
    return n


def index_of_any_kind(xs, n):
    k = len(n)
    return xs[k - 1], xs[-k]


def compares_objects(a, b):
    c = a == b
    return c, a != b, a is b


def not_a_number(x):
    if x == x:
        return "equal"
    return "not"


def calls_with_too_many(a):
    return len(a, a)


def calls_without(a):
    return tuple(), bool(), a  # noqa: C408, UP018 - on purpose


def type_of_three(name):
    return type(name, (), {1, 2})


def makes(cls):
    return object.__new__(cls)


def raises_a_class():
    raise KeyError


def raises_nonsense(x):
    raise x


def asserts_with_message(x):
    if x is None:
        raise AssertionError("said", x)
    return x


def looks_up_first(x):
    return x.missing(noted(1))


def appends_what_raises(xs, p):
    return xs.append(noted(p.x))


def ranges(n):
    return [i for i in range(n)]


def long_range():
    for i in range(HUGE):
        if i == 3:
            return i
    return None


def ranges_from(n):
    return [i for i in range(2, n)], [(i, x) for i, x in enumerate("ab", n)]


def pairs(xs):
    return [p for p in enumerate(xs)]


def recurses(n):
    return recurses(n)


def catches_a_tuple(x):
    try:
        return x[5]
    except (IndexError, KeyError, TypeError):
        return "none"


def truth_and_number(a):
    t = a is None
    k = 1
    k = t
    return t + 1, -t, k, t == 1


CASES: list[tuple[FunctionType, list[Any]]] = [
    (continues_in_finally, [([0, 1, 5, 2, 3], []), ([], [])]),
    (returns_through_two, [(1, []), (None, [])]),
    (catches_what_a_return_raised, [(1, [])]),
    (adds_in_place, [([],), ((),), ("a",)]),
    (multiplies_in_place, [([1],), ((1,),), (4,), (BIG,)]),
    (adds_to_what_a_call_gives, [(Box(1),), (Box(BIG * 2 - 1),), (Box(1.5),), (Box("x"),)]),
    (adds_to_an_item, [([1, 2],), ([BIG * 2 - 2],), ([],)]),
    (comprehension_variable, [([1, 2],), ([],)]),
    (nested_comprehensions, [([[1, 2], [3]],)]),
    (iterates, [({1: 2, 0: 3},), ({4, 5},), ("abc",), (range(3),), (5,), (b"ab",)]),
    (iterates_what_changes, [({"a": 1},)]),
    (takes_apart, [({1: 2, 0: 3},), ("ab",), ("abc",), (iter([1, 2]),), ([1],), (3,)]),
    (takes_apart_itself, [([1, 2],)]),
    (assigns_to_several, [(4,)]),
    (overflows, [([],), ([1],), ([1, 2],), ([1, 2, 3],)]),
    (counts_beyond, [([],), ([1],), ([1, 2],), (range(40),)]),
    (huge_constants, [()]),
    (mixes, [([1], 2), ([1], 2.5), ([1], "a"), ([1], [2]), ([], None), ([1], True), ([1], HUGE)]),
    (orders, [([1], 2), ([1], 2.5), ([1], "a"), ([1], HUGE), ([1, 2], True)]),
    (negates, [(1,), (2.5,), (True,), (-BIG - BIG,), ("a",)]),
    (number_or_not, [(True,), (False,), (None,)]),
    (unset_number, [(True,), (False,)]),
    (index_of_any_kind, [([1, 2], [3]), ("ab", [3, 4]), ([], []), ({0: 1}, [1]), (3, [])]),
    (compares_objects, [(Box(1), Box(1)), (1, 1.0), ([1], [1])]),
    (not_a_number, [(float("nan"),), (1,), (Box(1),)]),
    (calls_with_too_many, [([],)]),
    (calls_without, [(1,)]),
    (type_of_three, [("name",)]),
    (makes, [(int,), (5,), (Box,)]),
    (raises_a_class, [()]),
    (raises_nonsense, [(5,), (ValueError,), (ValueError("x"),), (int,)]),
    (asserts_with_message, [(None,), (1,)]),
    (looks_up_first, [(1,)]),
    (appends_what_raises, [([], 5), ((), 5), ([], Box(1))]),
    (ranges, [(3,), (0,), (-2,), (True,), (1.5,), ("a",), (-HUGE,)]),
    (long_range, [()]),
    (ranges_from, [(4,)]),
    (pairs, [("ab",), (iter([1, 2]),)]),
    (recurses, [(1,)]),
    (catches_a_tuple, [([],), ({},), (None,), ("abcdefgh",)]),
    (truth_and_number, [(None,), (1,)]),
]


@pytest.fixture(scope="module")
def native() -> dict[FunctionType, Any]:
    return translate([f for f, _ in CASES], [Box], jit.compile_kernel)


def visible(x: Any) -> Any:
    """What can be compared of a value, or of an error."""
    if isinstance(x, BaseException):
        return type(x), str(x)
    if isinstance(x, Box):
        return "box", visible(x.x) if hasattr(x, "x") else None
    if isinstance(x, tuple | list):
        return [type(x), *map(visible, x)]
    return type(x), x if type(x).__eq__ is not object.__eq__ else "an object"


def outcome(function: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    CALLS.clear()
    try:
        result = function(*arguments)
    except Exception as error:
        result = error
        if isinstance(error, RecursionError):
            return (RecursionError,)
    return visible(result), visible(CALLS), visible(arguments)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(f, a) for f, many in CASES for a in many],
    ids=lambda x: x.__name__ if isinstance(x, FunctionType) else None,
)
def test_means_what_python_means(
    function: FunctionType, arguments: tuple[Any, ...], native: dict[FunctionType, Any]
) -> None:
    wanted = outcome(function, copy.deepcopy(arguments))
    assert outcome(native[function], copy.deepcopy(arguments)) == wanted


def test_what_a_loop_held_is_let_go_of_at_its_end() -> None:
    native = translate([iterates, first_of], [], jit.compile_kernel)

    class Held(list):  # type: ignore[type-arg]
        pass

    for function in (iterates, first_of):
        held = Held([[1], [2]])
        before = sys.getrefcount(held), sys.getrefcount(held[0])
        for _ in range(10):
            native[function](held)
        assert (sys.getrefcount(held), sys.getrefcount(held[0])) == before


def first_of(xs):
    for x in xs:
        if x:
            break
    return x
