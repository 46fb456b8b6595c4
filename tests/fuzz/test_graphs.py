"""Random programs: fusing, cutting and threads must change nothing; NumPy must agree.

    LIVEGRAD_FUZZ_EXAMPLES=5000 pytest tests/fuzz          more of them, other ones every time

For each program:
- run op by op, every op (of backward too) agrees with its reference on the same inputs
- uncut, cut by reads, op by op, with one thread and two: the same bits
- tame programs also agree with the reference from end to end, gradients included
"""

from __future__ import annotations

import os

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from programs import (
    DTYPES,
    INSTRUCTIONS,
    SHAPES,
    Cutting,
    Leaf,
    Outcome,
    Program,
    check_op,
    execute,
    one_op_at_a_time,
    reference,
    same_bits,
)

import livegrad as lg
from livegrad.dtypes import bfloat16_to_float32

EXAMPLES = int(os.environ.get("LIVEGRAD_FUZZ_EXAMPLES", "0"))
DEFAULT_EXAMPLES = 120

SETTINGS = settings(
    max_examples=EXAMPLES or DEFAULT_EXAMPLES,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    print_blob=False,
)

numbers = st.integers(0, 255)
code = st.tuples(st.sampled_from(sorted(INSTRUCTIONS)), numbers, numbers, numbers, numbers)


def leaves(dtypes: int) -> st.SearchStrategy[Leaf]:
    """Leaves of the first so many dtypes; gradients are wanted mostly."""
    return st.builds(
        Leaf,
        st.integers(0, len(SHAPES) - 1),
        st.integers(0, dtypes - 1),
        st.integers(0, 100),
        st.booleans(),
    )


def programs(dtypes: int, tame: bool = False) -> st.SearchStrategy[Program]:
    """Programs of at most twenty instructions."""
    return st.builds(
        Program,
        st.lists(leaves(dtypes), min_size=1, max_size=4).map(tuple),
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
        alone = execute(program, wanted.decisions)
    assert alone.refused == wanted.refused
    assert alone.kinds == wanted.kinds
    lg.set_num_threads(1)
    uncut = execute(program, wanted.decisions)
    check_same("uncut and op by op", uncut, alone)
    lg.set_num_threads(2)
    check_same("one thread and two", uncut, execute(program, wanted.decisions))
    if program.reads:
        check_same("uncut and cut", uncut, execute(program, wanted.decisions, Cutting))
    if program.tame:
        check_agrees(uncut, wanted)


def check_agrees(got: Outcome, wanted: Outcome) -> None:
    """The compiled run agrees with the reference from end to end."""
    kinds = [dtype for _, dtype in got.kinds]
    pairs = [*zip(got.results, wanted.results, kinds, strict=True)]
    pairs += [(x, y, None) for x, y in zip(got.grads, wanted.grads, strict=True)]
    for number, (x, y, dtype) in enumerate(pairs):
        if y is None:
            assert x is None
            continue
        if dtype is lg.bfloat16:
            x, y = bfloat16_to_float32(x), bfloat16_to_float32(y)
        if y.size:
            scale = 1 + np.abs(y).max()
            bound = 1e-9 if y.dtype == np.float64 else 1e-3
            worst = np.abs(x.astype(np.float64) - y).max() / scale
            assert worst < bound, f"result {number} is off by {worst}\n{x}\n{y}"


@SETTINGS
@given(programs(1, tame=True))
def test_float32_tame(program: Program) -> None:
    check_program(program)


@SETTINGS
@given(programs(2))
def test_floats(program: Program) -> None:
    check_program(program)


@SETTINGS
@given(programs(len(DTYPES)))
def test_all_dtypes(program: Program) -> None:
    check_program(program)
