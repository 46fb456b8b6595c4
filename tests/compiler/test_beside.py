"""Small kernels of one kind run together, unless one needs another or what they read is large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.compiler.beside import MOST_TOGETHER
from livegrad.compiler.expand import Recorded
from livegrad.compiler.pipeline import compile_plan
from livegrad.graph.node import Node
from livegrad.graph.state import scratch_state
from livegrad.runtime import sight

RNG = np.random.default_rng(0)


def matrix(*shape: int) -> Any:
    return lg.tensor(RNG.standard_normal(shape).astype(np.float32))


def blocks(program: Callable[[], tuple[Any, ...]]) -> list[int]:
    """How many blocks each step of a program has."""
    with scratch_state() as scratch:
        results = program()
        nodes = scratch.nodes
    pending = set(nodes)
    leaves: dict[Node, None] = {}
    for node in nodes:
        leaves.update(dict.fromkeys([x for x in node.inputs if x not in pending]))
    kept = [nodes.index(x._node) for x in results]
    plan = compile_plan(Recorded(nodes, list(leaves), kept))
    return [len(step.blocks) for step in plan.steps]


def test_sums_of_columns_run_together() -> None:
    given = [matrix(64, n) for n in (10, 84, 120)]
    assert blocks(lambda: tuple([x.sum(0) for x in given])) == [3]


def test_products_of_one_kind_run_together() -> None:
    pairs = [(matrix(64, m), matrix(64, n)) for m, n in ((10, 84), (84, 120), (120, 40))]
    assert blocks(lambda: tuple([a.t() @ b for a, b in pairs])) == [3]


def test_products_whose_operands_lie_otherwise_do_not() -> None:
    a, b, c = matrix(30, 30), matrix(30, 30), matrix(30, 30)
    assert blocks(lambda: (a.t() @ b, a @ c, b.t() @ c)) == [2, 1]


def test_what_needs_another_does_not() -> None:
    x = matrix(9, 9)

    def program() -> tuple[Any, ...]:
        first = x @ x
        return first, first @ x

    assert blocks(program) == [1, 1]


def test_what_is_read_in_between_does_not() -> None:
    """The first sum is needed before the second is there."""
    x = matrix(9, 9)

    def program() -> tuple[Any, ...]:
        first = x.sum(0)
        spread = lg.softmax(x * first, 1)
        return first, spread, spread.sum(0)

    assert max(blocks(program)) == 1


def test_large_ones_do_not() -> None:
    given = [matrix(1024, n) for n in (256, 320)]
    assert blocks(lambda: tuple([x.sum(0) for x in given])) == [1, 1]


def test_no_more_than_some_run_together() -> None:
    given = [matrix(5, n) for n in range(2, MOST_TOGETHER + 5)]
    assert blocks(lambda: tuple([x.sum(0) for x in given])) == [MOST_TOGETHER, 3]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_are_those_of_each_alone(threads: int) -> None:
    before = lg.get_num_threads()
    lg.set_num_threads(threads)
    try:
        given = [matrix(64, n) for n in (1, 10, 84, 400, 1000)]
        alone = [lg.softmax(x, 1).sum(0).numpy() for x in given]
        spread = [lg.softmax(x, 1) for x in given]
        together = [x.sum(0) for x in spread]
        lg.stack([x.sum() for x in together]).sum().item()
        for one, other in zip(alone, together, strict=True):
            assert one.tobytes() == other.numpy().tobytes()
    finally:
        lg.set_num_threads(before)


def test_kernels_of_a_piece_find_the_code_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both products of a gradient in half precision run together."""
    monkeypatch.setattr(sight.Policy, "pieces", True)
    a = lg.full((3, 5), 2.0, dtype=lg.float16).requires_grad_()
    b = lg.full((5, 4), 3.0, dtype=lg.float16).requires_grad_()
    (a @ b).float().sum().backward()
    assert a.grad.tolist() == [[12.0] * 5] * 3
    assert b.grad.tolist() == [[6.0] * 4] * 5
