"""Programs recorded for the compiler, without running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import livegrad as lg
from livegrad.compiler.expand import Recorded
from livegrad.graph.node import Node
from livegrad.graph.state import scratch_state


def data(*shape: int, dtype: Any = np.float32) -> lg.Tensor:
    """Numbers that are always the same."""
    return lg.tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype))


def recorded_of(program: Callable[..., Any], *inputs: lg.Tensor) -> Recorded:
    """What `program` records when it is run on computed tensors; its results are kept."""
    with scratch_state() as scratch:
        results = program(*inputs)
        nodes = list(scratch.nodes)
    pending = set(nodes)
    leaves: dict[Node, None] = {}
    for node in nodes:
        leaves.update(dict.fromkeys([x for x in node.inputs if x not in pending]))
    results = results if isinstance(results, tuple | list) else (results,)
    return Recorded(nodes, list(leaves), [nodes.index(x._node) for x in results])
