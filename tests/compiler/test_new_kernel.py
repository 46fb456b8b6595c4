"""A kernel of one's own: an op with a template is one file, and one line to name it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.compiler.binder import patched
from livegrad.compiler.builder import Builder
from livegrad.compiler.draft import Draft
from livegrad.compiler.lowerings.base import Kernel
from livegrad.compiler.plan import Block, Step
from livegrad.graph.node import Node
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import record
from livegrad.graph.state import reference_mode

# ------------------------------------------------- what would be the file: livegrad/ops/rolling.py


def generate_neighbours(b: Builder) -> None:
    """Each float32 of a vector plus the next one; the first comes after the last.

    Argument block: 0 work items   1 result   2 values
    """
    args, begin, end, _ = b.params
    count, result, values = [
        b.load(type, b.gep(args, "i64", slot)) for slot, type in enumerate(("i64", "ptr", "ptr"))
    ]
    with b.loop(begin, end) as item:
        after = b.urem(b.add(item.index, 1), count)
        pair = [b.load("float", b.gep(values, "float", at)) for at in (item.index, after)]
        b.store(b.fadd(*pair), b.gep(result, "float", item.index))


class Neighbours(Kernel):
    """The template above; other dtypes go to NumPy."""

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        if node.meta.dtype is not lg.float32:
            return super().bind(draft, node)
        block = Block([node.meta.numel, 0, 0], patched(draft.where, node, *node.inputs))
        return [Step("neighbours", node.meta.shape, [block], (generate_neighbours,))]


def neighbours_op() -> Op:
    return Op(
        "neighbours",
        "kernel",
        infer=lambda metas, attrs, shape: metas[0],
        ref=lambda n, x: x + np.roll(x, -1),
        grads=(lambda g, y, x: g + g.roll(1),),
        lower=Neighbours(),
    )


# ------------------------------------------------------------------------------------------ tests


@pytest.fixture
def neighbours() -> Iterator[Any]:
    op = neighbours_op()
    yield lambda x: record(op, (x,))
    del REGISTRY["neighbours"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_new_kernel(neighbours: Any, dtype: Any) -> None:
    array = np.arange(7).astype(dtype) ** 2
    x = lg.tensor(array, requires_grad=True)
    y = neighbours(x * 2) + 1
    y.sum().backward()
    assert y.tolist() == (2 * array + 2 * np.roll(array, -1) + 1).tolist()
    assert x.grad.tolist() == [4.0] * 7
    with reference_mode():
        assert (neighbours(lg.tensor(array) * 2) + 1).tolist() == y.tolist()


def test_it_is_a_kernel_among_others(neighbours: Any) -> None:
    y = neighbours(lg.arange(5.0).exp()).tanh()
    assert y.shape == (5,)
    y.tolist()
    assert "neighbours" in lg.runtime.report.explanation()
