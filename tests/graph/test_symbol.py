"""Symbols: integers that remember how they were computed, and guards for what they decided."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from livegrad.dtypes import float32
from livegrad.graph.meta import _interned, meta_of
from livegrad.graph.symbol import Session, Symbol, SymbolicFloat, least, most, real


def evaluated(session: Session, sizes: list[int], *terms: str) -> list[Any] | None:
    """The values of terms for other sizes; None if a guard does not hold."""
    names: dict[str, Any] = dict(zip(session.inputs, sizes, strict=True))
    for line in session.lines:
        exec(line, names)
    if not all(eval(guard, names) for guard in session.guards):
        return None
    return [eval(term, names) for term in terms]


def test_a_symbol_is_its_integer_and_knows_its_term() -> None:
    with Session([64, 10]) as session:
        n = session.sizes[64] * session.sizes[10] + 1
    assert isinstance(n, Symbol)
    assert n == 641
    assert evaluated(session, [3, 5], n.term) == [16]


def test_comparisons_are_guards() -> None:
    with Session([64, 10]) as session:
        a, b = session.sizes[64], session.sizes[10]
        assert a > b
        assert a != b
        assert a % 2 == 0
        assert b
    assert evaluated(session, [12, 11]) == []
    assert evaluated(session, [11, 12]) is None
    assert evaluated(session, [13, 11]) is None


def test_integers_and_floats_made_of_a_symbol_fix_it() -> None:
    for use in (int, float, lambda n: n * 0.5, lambda n: n == 64.0):
        with Session([64]) as session:
            use(session.sizes[64])
        assert evaluated(session, [64]) == []
        assert evaluated(session, [65]) is None


def test_floats_that_keep_their_terms() -> None:
    with Session([64]) as session:
        n = session.sizes[64]
        found = [real(n), 1 / n, n / 3]
    assert all(isinstance(x, SymbolicFloat) for x in found)
    assert found == [64.0, 1 / 64, 64 / 3]
    assert evaluated(session, [5], *[x.term for x in found]) == [5.0, 0.2, 5 / 3]


def test_least_and_most_decide_nothing() -> None:
    with Session([64]) as session:
        n = session.sizes[64]
        found = [least(n, 10), most(n, 10), least(n, 100), most(100, n)]
    assert found == [10, 64, 64, 100]
    assert evaluated(session, [7], *[x.term for x in found]) == [7, 10, 7, 100]
    assert (least(3, 4), most(3, 4)) == (3, 4)


def test_shapes_have_one_symbol_for_each_value() -> None:
    known = len(_interned)
    with Session([8, 4]) as session:
        a, b = session.sizes[8], session.sizes[4]
        assert meta_of((a, b), float32) is meta_of((b + b, a // 2), float32)
        assert meta_of((a, b), float32) is not meta_of((8, 4), float32)
        assert type(meta_of((a // 8, b), float32).shape[0]) is int
    assert evaluated(session, [8, 4]) == []
    assert evaluated(session, [10, 4]) is None  # not twice the other
    assert len(_interned) <= known + 1  # that of (8, 4)


def test_symbols_of_another_session_are_integers() -> None:
    with Session([64]) as session:
        old = session.sizes[64]
    with Session([10]) as session:
        n = session.sizes[10]
        found = [old + n, n + old, least(old, n), old - old]
        assert n < old
        assert meta_of((old, 3), float32).shape == (64, 3)
    assert [x.term for x in found[:3]] == [f"t{i}" for i in range(3)]
    assert type(found[3]) is int
    assert evaluated(session, [7], *[x.term for x in found[:3]]) == [71, 71, 7]
    assert evaluated(session, [65]) is None


def test_symbols_are_integers_once_the_session_is_over() -> None:
    with Session([64]) as session:
        n = session.sizes[64]
    lines, guards = len(session.lines), len(session.guards)
    assert type(n + 1) is int
    assert n < 65
    assert real(n) == 64.0
    assert (len(session.lines), len(session.guards)) == (lines, guards)


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, least, most,
    min, max, lambda a, b: a if a < b else b + 1, lambda a, b: prod([a, b, 2]),
    lambda a, b: sum([a, b]), lambda a, b: -a + b, lambda a, b: a & b,
    lambda a, b: a or b, lambda a, b: b if a >= 7 else a,
]  # fmt: skip


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 99), st.integers(0, 99)), max_size=12
    ),
    st.lists(st.integers(2, 12), min_size=3, max_size=3, unique=True),
    st.lists(st.integers(2, 12), min_size=3, max_size=3),
)
def test_terms_give_what_the_program_gives(
    program: list[tuple[Any, int, int]], learnt: list[int], sizes: list[int]
) -> None:
    """If all guards hold for other sizes, the terms are what the program computes with them."""

    def run(values: list[Any]) -> list[Any]:
        for operation, a, b in program:
            left, right = values[a % len(values)], values[b % len(values)]
            if operation in (operator.floordiv, operator.mod) and not right:
                continue
            values.append(operation(left, right))
        return values

    with Session(learnt) as session:
        found = run([*[session.sizes[n] for n in learnt], 3])
    assert found == run([*learnt, 3])
    terms = [x.term if isinstance(x, Symbol) else repr(int(x)) for x in found]
    try:
        values = evaluated(session, sizes, *terms)
    except ZeroDivisionError:
        return
    if values is not None:
        assert values == run([*sizes, 3])


def test_sessions_do_not_nest() -> None:
    with Session([2]), pytest.raises(AssertionError), Session([3]):
        pass
