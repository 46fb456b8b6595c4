"""Which nodes share a kernel: graphs planned without generating any code."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.compiler.expand import Recorded, expand
from livegrad.compiler.fuse import MOST_MEMBERS, fuse
from livegrad.compiler.groups import Group
from livegrad.compiler.legalise import legalise
from livegrad.compiler.place import ALIGN, arrange
from livegrad.compiler.plan import Life
from livegrad.graph.node import Node
from livegrad.graph.state import scratch_state


def groups_of(program: Callable[[], Any]) -> list[Group]:
    """The groups that the ops of `program`, run on computed leaves, end up in."""
    with scratch_state() as scratch:
        results = program()
        nodes = scratch.nodes
    pending = set(nodes)
    leaves: dict[Node, None] = {}
    for node in nodes:
        leaves.update(dict.fromkeys([x for x in node.inputs if x not in pending]))
    kept = [nodes.index(x._node) for x in (results if isinstance(results, tuple) else (results,))]
    return fuse(legalise(expand(Recorded(nodes, list(leaves), kept))))[0]


def ones(*shape: int) -> Any:
    return lg.tensor(np.ones(shape, np.float32))


def ops(group: Group) -> str:
    return " ".join([m.op.name for m in group.members])


def test_elementwise_chain_is_one_kernel() -> None:
    x, b = ones(5, 7), ones(7)
    (group,) = groups_of(lambda: lg.tanh(lg.exp(x) * 2 + b))
    assert (group.kind, group.dims) == ("rows", ())


def test_softmax_is_one_kernel() -> None:
    x = ones(5, 7)
    (group,) = groups_of(lambda: lg.softmax(x, -1))
    assert (group.kind, group.dims) == ("rows", (1,))


def test_column_sum_computes_what_it_folds() -> None:
    x = ones(5, 7)
    (group,) = groups_of(lambda: (lg.tanh(x) * 2).sum(0))
    assert (group.kind, group.dims, ops(group)) == ("columns", (0,), "tanh mul sum")


def test_column_sum_over_two_dims_stores_what_it_cannot_walk() -> None:
    x = ones(3, 5, 7)
    first, second = groups_of(lambda: lg.tanh(x.flip(0)).sum((0, 1)))
    assert (first.kind, second.kind) == ("rows", "columns")


def test_parts_are_stored_by_the_kernel_that_computes_them() -> None:
    x = ones(5, 7)
    kernel, whole = groups_of(lambda: lg.cat([lg.tanh(x), lg.exp(x)], 1))
    assert sorted(ops(kernel).split()) == ["exp", "part", "part", "tanh"]
    assert ops(whole) == "assembly"


def test_long_chains_are_cut() -> None:
    x = ones(8)

    def chain() -> Any:
        y = x
        for _ in range(250):
            y = lg.tanh(y)
        return y

    found = groups_of(chain)
    assert [len(g.members) for g in found] == [MOST_MEMBERS, MOST_MEMBERS, 250 - 2 * MOST_MEMBERS]


def test_every_group_runs_after_what_it_reads() -> None:
    x = ones(5, 7)

    def program() -> Any:
        y = lg.softmax(x, 0)
        z = lg.cat([y, lg.tanh(x)], 0)
        w = z @ z.t()
        return w.sum(), (y - w[0, 0]).mean(1), w

    done: set[Node] = set()
    for group in groups_of(program):
        for member in group.members:
            for read in member.inputs:
                while read.op.kind == "movement":
                    read = read.inputs[0]
                if read.op.kind not in ("leaf", "generate") and read not in group.index:
                    inlined = read.op.kind == "elementwise"
                    assert read in done or inlined, f"{group} reads {read} too early"
        done.update(group.members)


@pytest.mark.slow
def test_planning_time_is_linear() -> None:
    x, w = ones(4, 16), ones(16, 16)

    def steps(count: int) -> float:
        def program() -> Any:
            h = x
            for _ in range(count):
                h = lg.tanh(h @ w + x)
            return h

        started = time.process_time()
        groups_of(program)
        return (time.process_time() - started) / count

    steps(100)
    assert steps(2000) < 4 * steps(200)


def test_place_reuses_memory_when_lifetimes_allow() -> None:
    lives = [Life(100, t, t + 1) for t in range(50)]
    assert arrange(lives) == 2 * 2 * ALIGN
    for a in lives:
        for b in lives:
            if a is not b and a.first <= b.last and b.first <= a.last:
                assert abs(a.offset - b.offset) >= 2 * ALIGN


def test_place_fills_gaps() -> None:
    big, early = Life(640, 0, 9), Life(320, 0, 1)
    late, small = Life(256, 2, 9), Life(64, 2, 9)
    assert arrange([small, late, early, big]) == 640 + 320
    assert {late.offset, small.offset} == {640, 640 + 256}
