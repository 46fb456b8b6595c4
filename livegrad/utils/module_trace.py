"""What a model records, and which of its modules records it; nothing is computed.

trace = trace_modules(model, (x,))
trace.calls      every call of a module: its name, the shapes it gave, its nodes
trace.nodes      what was recorded, in order
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from livegrad.autograd import no_grad
from livegrad.func.trace import Trace
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.node import Node
from livegrad.graph.state import LOCAL, flush
from livegrad.nn.module import Module

Shapes = list[tuple[int, ...]]


@dataclass
class Call:
    """One call of a module: nodes `start` to `stop` were recorded within it.

    `parent` is the place of the call within which it happened, -1 for the model itself. `bytes`
    is the size of its outputs.
    """

    name: str
    module: Module
    parent: int
    depth: int
    start: int
    stop: int = 0
    outputs: Shapes = field(default_factory=list)
    bytes: int = 0
    output_nodes: list[Node] = field(default_factory=list)


@dataclass
class ModuleTrace:
    """What `trace_modules` saw."""

    nodes: list[Node]
    calls: list[Call]
    inputs: list[Node]

    def owners(self) -> list[int]:
        """For each node, the place of the innermost call that recorded it."""
        found = [0] * len(self.nodes)
        for place, call in enumerate(self.calls):  # inner calls come after outer ones
            found[call.start : call.stop] = [place] * (call.stop - call.start)
        return found


def trace_modules(
    model: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> ModuleTrace:
    """Calls the model without computing anything, except values that it reads itself.

    It is called as it is: set `eval()` and restore buffers around this if that matters.
    """
    given = [node_of(t) for t in tensors_in((args, kwargs))]
    with no_grad(), _Recording() as trace, _watched(model) as calls:
        model(*args, **kwargs or {})
    return ModuleTrace(trace.nodes, calls, given)


def tensors_in(value: Any) -> list[Any]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(value, Handle):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [t for x in value for t in tensors_in(x)]
    return []


class _Recording(Trace):
    """A trace whose values may be read."""

    def flush(self, reason: str, roots: tuple[Node, ...]) -> None:
        """Computes what is pending outside, which the values may depend on, and then these."""
        if roots:
            with self._outside():
                flush(reason)
                flush(reason, *roots)


@contextmanager
def _watched(model: Module) -> Iterator[list[Call]]:
    """Within it, calls of the model's modules are noted in the list."""
    calls: list[Call] = []
    within: list[int] = []
    before: list[tuple[Module, Any]] = []
    for name, module in model.named_modules():
        own = vars(module)
        before.append((module, own.get("forward")))
        # In place of `forward` rather than by hooks, which would leave the module marked.
        own["forward"] = _noting(name, module, module.forward, calls, within)
    try:
        yield calls
    finally:
        for module, forward in before:
            if forward is None:
                del vars(module)["forward"]
            else:
                vars(module)["forward"] = forward


def _noting(
    name: str, module: Module, forward: Callable[..., Any], calls: list[Call], within: list[int]
) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        parent = within[-1] if within else -1
        call = Call(name, module, parent, len(within), len(LOCAL.state.nodes))
        within.append(len(calls))
        calls.append(call)
        try:
            result = forward(*args, **kwargs)
        finally:
            within.pop()
            call.stop = len(LOCAL.state.nodes)
        for tensor in tensors_in(result):
            node = node_of(tensor)
            call.outputs.append(node.meta.shape)
            call.bytes += node.meta.nbytes
            call.output_nodes.append(node)
        return result

    return noted
