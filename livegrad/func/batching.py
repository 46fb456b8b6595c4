"""Batching: the rules of kinds of ops for many examples at once, and what is done without one.

Ops have rules of their own in their records (`batch`), or shared ones (`ops/support/batched.py`).
Operations without a rule are expanded if they are composites, else done example by example
(`one_by_one`). Every op's samples are run through vmap by tests/func/test_every_op.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from livegrad.device import CPU
from livegrad.graph import elsewhere
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Shape, meta_of, on_device
from livegrad.graph.record import append, record
from livegrad.ops.making.generate import filled_as
from livegrad.ops.shaping.joining import stack
from livegrad.ops.shaping.movement import INDEX
from livegrad.ops.support.batched import aligned_all, folding

if TYPE_CHECKING:
    from livegrad.graph.node import Node, Spec
    from livegrad.tensor import Tensor

Rule = Callable[[Any, int, "list[Tensor]", tuple[bool, ...]], Any]


def find_rule(node: Node) -> Rule | None:
    """The rule for a node: of its op, or of the op's kind."""
    return node.op.batch or _KINDS.get(node.op.kind)


# ---------------------------------------------------------------------------------- operands


def example(x: Tensor, i: int) -> Tensor:
    """The i-th example of a batched tensor."""
    shape = node_of(x).meta.shape
    items = (("int",), *[("all",)] * (len(shape) - 1))
    return record(INDEX, (x,), (items,), (i,), shape[1:])


def one_by_one(
    n: Any,
    size: int,
    xs: list[Tensor],
    batched: tuple[bool, ...],
    args: Sequence[tuple[Any, ...]] | None = None,
) -> Tensor:
    """The operation for each example (with args of its own), and the results side by side."""
    if size == 0:
        return filled_as(on_device(meta_of((0, *n.meta.shape), n.meta.dtype), xs[0].device), 0)
    results = []
    for i in range(size):
        inputs = [node_of(example(x, i) if b else x) for x, b in zip(xs, batched, strict=True)]
        flows = any(x.grad_to is not None for x in inputs)
        numbers = n.args if args is None else args[i]
        results.append(_appended(n.spec, tuple(inputs), numbers, n.spec.grad if flows else None))
    return stack(results)


# ----------------------------------------------------------------------------- kinds of ops


def elementwise_rule(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """Dims are aligned; dtypes stay what they are, although a 0-d operand now has a dim."""
    nodes = tuple([node_of(x) for x in aligned_all(n.meta.ndim, xs, batched)])
    return same_spec(n, nodes, (size, *n.meta.shape), n.attrs)


def same_spec(n: Any, nodes: tuple[Node, ...], shape: Shape, attrs: tuple[Any, ...]) -> Tensor:
    """The node's operation on other inputs, without asking its inference rule for the result."""
    op = n.op
    metas = tuple([on_device(x.meta, CPU) for x in nodes])
    key = ("batched", metas, attrs, n.meta.dtype)
    spec = op.cache.get(key)
    if spec is None:
        spec = op.remember(key, attrs, metas, meta_of(shape, n.meta.dtype))
    flows = any(x.grad_to is not None for x in nodes)
    return _appended(spec, nodes, n.args, spec.grad if flows else None)


def _appended(spec: Spec, nodes: tuple[Node, ...], args: tuple[Any, ...], grad: Any) -> Tensor:
    """The node of an operation whose spec is known."""
    for x in nodes:
        if x.meta.device is not CPU:
            return elsewhere.recorded(spec, nodes, args, grad, x.meta.device)
    return append(spec, nodes, args, grad)


_KINDS: dict[str, Rule] = {"elementwise": elementwise_rule, "reduce": folding}
