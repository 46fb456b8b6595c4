"""Tracing: a function is run on placeholders, and what it records is kept apart.

    with Trace() as trace:
        x = trace.placeholder(meta, True)     a tensor that has no value, and never will
        y = f(x)
    trace.nodes, trace.handles                what f recorded, in order

A placeholder cannot be read. A value that does not depend on one can: it is computed as always.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from livegrad.graph.handle import leaf_node, wrap
from livegrad.graph.node import Node, to_nowhere
from livegrad.graph.state import LOCAL, flush

if TYPE_CHECKING:
    from livegrad.graph.meta import Meta
    from livegrad.tensor import Tensor


class Trace:
    """Nodes recorded apart from what the thread has pending."""

    def __init__(self) -> None:
        self.placeholders: set[Node] = set()
        # Constants, by the nodes that they were made like.
        self.made_like: dict[Node, Node] = {}
        self.nodes: list[Node] = []
        self.handles: list[Any] = []
        self._independent: set[Node] = set()
        self._fields: tuple[Any, ...] = ()
        self._outer: Trace | None = None

    def __enter__(self) -> Trace:
        state = LOCAL.state
        self._outer, LOCAL.state.flusher = LOCAL.state.flusher, self
        kept = state.grad, state.inference, state.site, state.caster
        self._fields = state.enter_scratch()
        state.grad, state.inference, state.site, state.caster = kept
        state.held, state.reference = True, False
        return self

    def __exit__(self, *exception: object) -> None:
        state = LOCAL.state
        self.nodes, self.handles = state.nodes, state.handles
        state.leave_scratch(self._fields)
        LOCAL.state.flusher = self._outer

    @contextmanager
    def _outside(self) -> Iterator[None]:
        """Within it, the thread records as before the trace."""
        state = LOCAL.state
        inner = state.fields()
        state.put_back(self._fields)
        LOCAL.state.flusher = self._outer
        try:
            yield
        finally:
            self._fields = state.fields()
            LOCAL.state.flusher = self
            state.put_back(inner)

    def placeholder(self, meta: Meta, requires_grad: bool) -> Tensor:
        """A tensor without a value; a gradient that arrives there goes nowhere."""
        node = leaf_node(meta, None)
        node.grad_to = to_nowhere() if requires_grad else None
        self.placeholders.add(node)
        return wrap(node)

    def flush(self, reason: str, roots: tuple[Node, ...]) -> None:
        """Computes what does not depend on placeholders, and refuses the rest."""
        for root in roots:
            if self.depends(root):
                raise _unreadable(reason)
        if roots:
            with self._outside():
                flush(reason, *roots)

    def check_write(self, x: Any, value: Any) -> None:
        """RuntimeError for a value of many examples, to be written to what all have in common.

        What the function has made for itself is there for each of them.
        """
        old = x._node if x._share is None else x._share.cell._node
        if self.depends(value._node) and not self.depends(old) and not _is_recorded_here(old):
            raise RuntimeError(
                "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists "
                "a Tensor `other` in extra_args that has more elements than `self`. This happened "
                "due to `other` being vmapped over but `self` not being vmapped over. Please try "
                "to use out-of-place operators instead of inplace arithmetic"
            )

    def is_made_for_each(self, root: Node) -> bool:
        """Whether a constant is computed from one that was made like what depends on examples."""
        seen: set[Node] = set()
        todo = [root]
        while todo:
            node = todo.pop()
            if node in self.made_like and self.depends(self.made_like[node]):
                return True
            if node not in seen:
                seen.add(node)
                todo += node.inputs
        return False

    def depends(self, root: Node) -> bool:
        """Whether the value of a node depends on a placeholder."""
        seen: set[Node] = set()
        todo = [root]
        while todo:
            node = todo.pop()
            if node in self.placeholders:
                return True
            if node not in seen and node not in self._independent and node.buffer is None:
                seen.add(node)
                todo += node.inputs
        self._independent |= seen
        return False


def _is_recorded_here(node: Node) -> bool:
    """Whether a node is one of those that the trace has recorded."""
    state = LOCAL.state
    place = node.index - state.base
    return 0 <= place < len(state.nodes) and state.nodes[place] is node


def _unreadable(reason: str) -> RuntimeError:
    if reason.startswith("bool"):
        return RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
            "flow. We don't support that yet. Use where() to choose between values"
        )
    return RuntimeError(
        f"vmap: It looks like you're calling .item() on a Tensor ({reason} needs its value). We "
        "don't support vmap over what depends on values. Rewrite it with operations on tensors"
    )
