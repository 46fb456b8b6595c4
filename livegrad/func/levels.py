"""What all derivatives share: variables, pulling gradients back to them, results without them.

A variable is a copy of a tensor through which gradients flow although nothing may ask for them
further up. So derivatives of derivatives are the same walk again, and a result depends on what
lies outside of the function (a parameter that requires grad, a variable of an outer transform)
just if the graph says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.autograd.reverse import reverse
from livegrad.autograd.tangents import first_walk
from livegrad.func import tree
from livegrad.graph.handle import Handle, node_of, wrap
from livegrad.graph.node import Interior, LeafRef, Node
from livegrad.graph.state import LOCAL, setting
from livegrad.ops.elementwise.arithmetic import cast, clone

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


class Level:
    """One transform of a function: its variables, and gradients with respect to them."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.outer_grad = LOCAL.state.grad

    def __enter__(self) -> Level:
        LOCAL.state.grad = True
        return self

    def __exit__(self, *exception: object) -> None:
        LOCAL.state.grad = self.outer_grad

    def variable(self, x: Any) -> Tensor:
        """A copy of `x` to differentiate for."""
        if not isinstance(x, Handle):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        v = clone(x)
        node: Node = v._node
        if node.grad_to is None and node.meta.dtype.category >= dtypes.FLOAT:
            node.grad_to = True
        self.nodes.append(node)
        return v

    def variables(self, value: Any) -> Any:
        """A nested value with variables for its tensors."""
        return tree.mapped(self.variable, value)

    def pull(
        self, outputs: Sequence[Tensor], weights: Sequence[Tensor], to: Sequence[Node]
    ) -> list[Any]:
        """The gradients of weighed outputs for some variables; None where there is none."""
        seeds = [
            (node_of(y), _fitting(g, y))
            for y, g in zip(outputs, weights, strict=True)
            if node_of(y).grad_to is not None
        ]
        if not seeds:
            return [None] * len(to)
        _, arrived = reverse(seeds, True, {id(node) for node in to}, set(to))
        found = dict(arrived)
        return [found.get(node) for node in to]

    def rows(
        self, outputs: Sequence[Tensor], weights: Sequence[Tensor], to: Sequence[Node]
    ) -> list[Any]:
        """The same as the first walk of forward mode, of which the second is taken."""
        with first_walk():
            return self.pull(outputs, weights, to)

    def released(self, value: Any) -> Any:
        """A nested value whose tensors require grad only because of what is outside."""
        return tree.mapped(self._released, value)

    def _released(self, y: Any) -> Any:
        if not isinstance(y, Handle) or node_of(y).grad_to is None:
            return y
        with setting(grad=self.outer_grad and reaches_outside(node_of(y), set(self.nodes))):
            return clone(y)


def _fitting(g: Tensor, y: Tensor) -> Tensor:
    meta, wanted = node_of(g).meta, node_of(y).meta
    if meta.shape != wanted.shape:
        raise RuntimeError(
            f"Mismatch in shape: the cotangent has shape {list(meta.shape)} and the output "
            f"{list(wanted.shape)}."
        )
    return wrap(g._node) if meta.dtype is wanted.dtype else cast(g, wanted.dtype)


def reaches_outside(root: Node, own: set[Node]) -> bool:
    """Whether a gradient from `root` flows to anything but the variables in `own`."""
    seen = {root}
    todo = [root]
    while todo:
        node = todo.pop()
        to = node.grad_to
        if type(to) is LeafRef or node.cut is not None:
            return True
        ways = to.edges if isinstance(to, Interior) and to.edges is not None else node.inputs
        flowing = [x for x in ways if x.grad_to is not None]
        if not flowing and node not in own:
            return True  # a variable of another transform
        for x in flowing:
            if x not in seen:
                seen.add(x)
                todo.append(x)
    return False


def is_float(x: Any) -> bool:
    """Whether a derivative of `x` makes sense."""
    return isinstance(x, Handle) and node_of(x).meta.dtype.category >= dtypes.FLOAT
