"""What steps are said to take: operations of products, memory over time, whose statistics."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad import nn
from livegrad.runtime.cpu.pieces.lives import Lived, bytes_of, lives_of
from livegrad.runtime.plans import forget_plans
from livegrad.runtime.sight import Policy
from livegrad.view import Graph
from tests.view.networks import watched

FIRST = 2 * 16 * 6 * 8  # operations of the first layer: 16 rows, 6 numbers, 8 of them


def graph(monkeypatch: pytest.MonkeyPatch, whole: bool) -> Graph:
    monkeypatch.setattr(Policy, "whole", whole)
    monkeypatch.setattr(Policy, "pieces", not whole)
    monkeypatch.setattr(Policy, "seeks", whole)
    forget_plans()  # one may be known from another test
    return watched(steps=6).graph()


@pytest.mark.parametrize("whole", [True, False])
def test_products_are_counted(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    g = graph(monkeypatch, whole)
    assert {k.tier for k in g.kernels if "matmul" in k.ops} == {"plan" if whole else "piece"}
    (first,) = g.find(op="linear", module="Net.first")
    assert FIRST <= first.flops <= FIRST + 2 * 16 * 8  # the bias is added
    (second,) = g.find(op="linear", module="Net.second")
    backward = g[-second.number]
    assert 2 * 2 * 16 * 8 * 3 <= backward.flops < 3 * 2 * 16 * 8 * 3


def test_gradients_have_kernels_of_their_own_piece_by_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    g = graph(monkeypatch, whole=False)
    (second,) = g.find(op="linear", module="Net.second")
    backward = g[-second.number]
    assert second.kernels
    assert backward.kernels
    assert max(second.kernels) < min(backward.kernels)
    assert backward.seconds > 0


@pytest.mark.parametrize("whole", [True, False])
def test_memory_over_time(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    g = graph(monkeypatch, whole)
    assert {life.what for life in g.lives} >= {"leaf", "value"}
    for life in g.lives:
        assert 0 <= life.first <= life.last < len(g.kernels)
    (first,) = g.find(op="linear", module="Net.first")
    if not whole:  # what relu's gradient reads lives until then
        (relu,) = g.find(op="relu")
        (life,) = [x for x in g.lives if x.node == relu.number and x.what == "value"]
        assert life.nbytes == relu.nbytes == 512
        assert life.last >= min(g[-first.number].kernels) - 1
        kept = [x for x in g.lives if x.what == "result"]
        sizes = [n.nbytes for n in g.find(op="gradient")]
        assert {x.nbytes for x in kept} >= set(sizes)


def test_lives_end_with_the_last_reader_before_memory_is_used_again() -> None:
    used = [([7], [100]), ([100], [200]), ([100, 200], [300]), ([300], [100]), ([100], [9])]
    blocks = {100: 64, 200: 64, 300: 128}
    found = lives_of(used, [0, 1, 2, 3, 4], [1, 1, 2, 1, 1], blocks, {9: (4, 40)})
    assert sorted(found) == [
        Lived(0, 64, 0, 3),
        Lived(1, 64, 1, 3),
        Lived(2, 128, 2, 4),
        Lived(3, 64, 4, 5),
        Lived(4, 40, 5, 5, is_kept=True),
    ]


def test_blocks_have_the_bytes_of_their_class() -> None:
    found = [bytes_of(size) for size in range(16)]
    assert found[:8] == [64 * i for i in range(1, 9)]
    assert found[8:16] == [640, 768, 896, 1024, 1280, 1536, 1792, 2048]


def test_statistics_of_norms_have_names() -> None:
    net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = lg.optim.SGD(net.parameters(), lr=0.1)
    with lg.watch() as watching:
        for _ in range(3):
            optimizer.zero_grad()
            net(lg.randn(5, 6)).mean().backward()
            optimizer.step()
    names = {n.name for n in watching.graph() if n.op == "parameter"}
    assert {"Sequential.1.running_mean", "Sequential.1.num_batches_tracked"} <= names
