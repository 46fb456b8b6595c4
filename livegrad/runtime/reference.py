"""Reference execution: one node at a time with NumPy. The oracle of all tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad.device import CPU, backend_of
from livegrad.graph.handle import wrap
from livegrad.graph.node import Node
from livegrad.graph.state import setting
from livegrad.runtime.memory import Buffer
from livegrad.runtime.values import (
    Array,
    array_of,
    cast,
    from_compute,
    number_as,
    to_compute,
)


def evaluate(node: Node) -> None:
    """Computes one node, whose inputs are computed, with its reference."""
    if node.op.kind == "update":
        return  # it has no value of its own; ops/bookkeeping/update.py runs the rule
    values = reference_value(node)
    array = np.asarray(values)
    if array.shape != node.meta.shape:
        raise AssertionError(
            f"reference of {node.op.name} gave shape {array.shape}, inferred {node.meta.shape}"
        )
    stored = from_compute(array, node.meta.dtype)
    device = node.meta.device
    if device is CPU:
        node.buffer = Buffer.from_array(stored)
    else:
        node.buffer = backend_of(device).copy_in(stored.reshape(node.meta.shape), node.meta)
    if node.grad_to is None:
        node.inputs = ()


def reference_value(node: Node) -> Any:
    """The value of one node by its op's reference, in the compute dtype of its result."""
    op = node.op
    if op.ref is None:
        return _through_expansion(node)
    with np.errstate(all="ignore"):
        if op.kind == "elementwise":
            return op.ref(*elementwise_operands(node))
        from livegrad.runtime.cpu import blas  # not before something is computed

        arrays = [to_compute(array_of(x), x.meta.dtype) for x in node.inputs]
        return blas.on_one_thread(op.ref, node, *arrays)


def elementwise_operands(node: Node) -> list[Any]:
    """Inputs cast to the compute dtype, with the numbers in their places."""
    compute, pattern = node.attrs[0], node.attrs[1]
    tensors, numbers = iter(node.inputs), iter(node.args)
    operands: list[Any] = []
    for position, letter in enumerate(pattern):
        if letter == "s":
            operands.append(number_as(next(numbers), compute, node.op.narrows))
            continue
        x = next(tensors)
        array = array_of(x)
        converts = node.op.converts(position)
        operands.append(cast(array, x.meta.dtype, compute) if converts else array)
    return operands


def _through_expansion(node: Node) -> Array:
    assert node.op.expand is not None
    with setting(grad=False, reference=True, caster=None):
        out = node.op.expand(node, *[wrap(x) for x in node.inputs])
    return to_compute(array_of(out._node), out._node.meta.dtype)
