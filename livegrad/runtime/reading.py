"""Reading a number: what `item()`, `bool()` and the like do, on the shortest way that there is.

an element of what is computed     where it lies; nothing is run        at_once.py
a plan is known for what is pending     it is run                       flush_again
else                                                                    flush
"""

from __future__ import annotations

from typing import Any

from livegrad.dtypes import FLOAT
from livegrad.graph.above import Above
from livegrad.graph.events import READ, tell_read
from livegrad.graph.family import node_to_read
from livegrad.graph.node import Node
from livegrad.graph.state import LOCAL
from livegrad.graph.watch import BLAMING
from livegrad.native.hot import hot
from livegrad.runtime.at_once import read_at_once
from livegrad.runtime.flush import compute
from livegrad.runtime.values import number_of


@hot
def read_number(x: Any, reason: str) -> Any:
    """The value of a tensor of one element as a Python number; computes what is pending."""
    node = node_to_read(x)
    if node.meta.numel != 1:
        raise _not_one(node)
    if node.buffer is None and not read_at_once(node):
        if BLAMING.reads and node.meta.dtype.category >= FLOAT:
            _compute_watched(reason, node)
        else:
            compute(reason, node)
    try:
        number = number_of(node)
    except NotImplementedError:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors") from None
    if READ:
        tell_read(node, number, reason)
    return number


@hot
def _compute_watched(reason: str, node: Node) -> None:
    """`compute`, and a look at the value: what it was computed from is held meanwhile."""
    nodes = LOCAL.state.nodes
    inputs = [x.inputs for x in nodes]
    compute(reason, node)
    number = number_of(node)
    if number != number and BLAMING.enabled:
        _look_into(node, nodes, inputs)


def _look_into(node: Node, nodes: list[Node], inputs: list[tuple[Node, ...]]) -> None:
    Above.blaming().read_not_finite(node, nodes, inputs)


def _not_one(node: Node) -> RuntimeError:
    return RuntimeError(f"a Tensor with {node.meta.numel} elements cannot be converted to Scalar")
