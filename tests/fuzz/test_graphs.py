"""Random programs: fusing, cutting and threads must change nothing; NumPy must agree.

    LIVEGRAD_FUZZ_EXAMPLES=5000 pytest tests/fuzz          more of them, other ones every time

For each program:
- run op by op, every op (of backward too) agrees with its reference on the same inputs
- uncut, cut by reads, op by op, piece by piece, as a whole, with little ops run when recorded, with
  one thread and two: the same bits
- tame programs also agree with the reference from end to end, gradients included
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st
from programs import (
    DTYPES,
    INSTRUCTIONS,
    INTEGERS,
    ROUGH_BINARY,
    SHAPES,
    Cutting,
    Leaf,
    Outcome,
    Program,
    check_op,
    close,
    execute,
    one_op_at_a_time,
    reference,
    same_bits,
)

import livegrad as lg
from livegrad.graph.state import Runtime
from livegrad.runtime import alone
from livegrad.runtime.sight import Policy

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("LIVEGRAD_FUZZ_EXAMPLES", "0"))
DEFAULT_EXAMPLES = 120
# Of float64, relative to the largest number of a result.
END_TO_END = 1e-9

SETTINGS = settings(
    max_examples=EXAMPLES or DEFAULT_EXAMPLES,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)

numbers = st.integers(0, 255)
ABOUT_PRODUCTS = (
    "product", "product", "linear", "transpose", "permute", "slices", "expand", "reshape", "flip",
    "unary", "binary", "squeeze", "write_view", "split", "drop",
)  # fmt: skip


def leaves(first: int, last: int) -> st.SearchStrategy[Leaf]:
    """Leaves of a range of dtypes."""
    return st.builds(
        Leaf,
        st.integers(0, len(SHAPES) - 1),
        st.integers(first, last),
        st.integers(0, 100),
        st.booleans(),
    )


def programs(
    first: int, last: int, tame: bool = False, names: Sequence[str] = tuple(sorted(INSTRUCTIONS))
) -> st.SearchStrategy[Program]:
    """Programs of at most twenty instructions, on leaves of a range of dtypes."""
    code = st.tuples(st.sampled_from(names), numbers, numbers, numbers, numbers)
    return st.builds(
        Program,
        st.lists(leaves(first, last), min_size=1, max_size=4).map(tuple),
        st.lists(code, min_size=1, max_size=20).map(tuple),
        st.frozensets(st.integers(0, 20), max_size=6),
        st.integers(1, 4095),
        st.just(tame),
    )


def check_same(what: str, a: Outcome, b: Outcome) -> None:
    """Two compiled runs of a program gave the same, bit for bit."""
    assert a.refused == b.refused, (what, a.refused, b.refused)
    assert a.kinds == b.kinds, what
    for number, (x, y) in enumerate(zip(a.results, b.results, strict=True)):
        assert same_bits(x, y), f"{what}: result {number} differs\n{x}\n{y}"
    for number, (x, y) in enumerate(zip(a.grads, b.grads, strict=True)):
        assert same_bits(x, y), f"{what}: gradient {number} differs\n{x}\n{y}"


def check_program(program: Program) -> None:
    """All checks on one program."""
    wanted = reference(program)
    with one_op_at_a_time(check_op):
        single = execute(program, wanted.decisions)
    assert single.refused == wanted.refused
    assert single.kinds == wanted.kinds
    lg.set_num_threads(1)
    uncut = execute(program, wanted.decisions)
    check_same("uncut and op by op", uncut, single)
    with planned_as_a_whole():
        check_same("piece by piece and as a whole", uncut, execute(program, wanted.decisions))
    with run_when_recorded():
        check_same("uncut and when recorded", uncut, execute(program, wanted.decisions))
    lg.set_num_threads(2)
    check_same("one thread and two", uncut, execute(program, wanted.decisions))
    if program.reads:
        check_same("uncut and cut", uncut, execute(program, wanted.decisions, Cutting))
    if program.tame:
        check_agrees(uncut, wanted)


@contextmanager
def planned_as_a_whole() -> Iterator[None]:
    """Within it nothing is run piece by piece, as new structures are."""
    before = Policy.whole, Runtime.by_pieces
    Policy.whole, Runtime.by_pieces = True, False
    try:
        yield
    finally:
        Policy.whole, Runtime.by_pieces = before


@contextmanager
def run_when_recorded() -> Iterator[None]:
    """Within it, operations on little data are run when they are recorded, at first sight."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(alone, "_SIGHTS", 1)
        patched.setattr(alone, "_SIGHTS_OF_NUMBERS", 1)
        alone.turn_on()
        try:
            yield
        finally:
            alone.forget()


def check_agrees(got: Outcome, wanted: Outcome) -> None:
    """The compiled run agrees with the reference from end to end."""
    pairs = zip(got.results + got.grads, wanted.results + wanted.grads, strict=True)
    for number, (x, y) in enumerate(pairs):
        if y is None:
            assert x is None
        elif y.size:
            size = 1 + np.abs(np.nan_to_num(y)).max()
            assert np.all(close(x, y, END_TO_END * size)), f"result {number} is off\n{x}\n{y}"


@SETTINGS
@given(programs(1, 1, tame=True))
def test_tame(program: Program) -> None:
    check_program(program)


@SETTINGS
@given(programs(0, 1))
def test_floats(program: Program) -> None:
    check_program(program)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_divided_by_no_0(dtype: lg.dtype) -> None:
    """Where such a quotient is dropped, nothing is raised; but op by op it is."""
    x, refusals = lg.ones(3, dtype=dtype), []
    for rule in ROUGH_BINARY:
        try:
            rule(x, 0 * x).tolist()
        except (RuntimeError, TypeError) as error:
            refusals.append(str(error))
    assert not [words for words in refusals if "ZeroDivisionError" in words]


@SETTINGS
@given(programs(0, len(DTYPES) - 1))
def test_all_dtypes(program: Program) -> None:
    check_program(program)


@SETTINGS
@given(programs(1, 1, tame=True, names=ABOUT_PRODUCTS))
def test_products_read_in_place(program: Program) -> None:
    check_program(program)
