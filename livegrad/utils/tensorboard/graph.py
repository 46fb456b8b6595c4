"""A model's recorded graph as a GraphDef, its nodes in the scopes of their modules."""

from __future__ import annotations

from typing import Any

from livegrad.graph.handle import node_of
from livegrad.graph.node import Node, describe_site
from livegrad.utils.module_trace import ModuleTrace, trace_modules
from livegrad.utils.tensorboard.summaries import shape
from livegrad.utils.tensorboard.wire import block, integer, pair

_FLOAT32 = 1
_TYPES = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8,
    "int64": 9, "bool": 10, "bfloat16": 14, "complex128": 18, "float16": 19,
}  # fmt: skip


def graph_def(model: Any, inputs: tuple[Any, ...]) -> bytes:
    """GraphDef of what a model does with inputs; nothing is computed."""
    leaves = {node_of(p): name for name, p in [*model.named_parameters(), *model.named_buffers()]}
    was_training = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        trace = trace_modules(model, inputs)
    finally:
        for module, training in was_training:
            module.training = training
    names = _Names(type(model).__name__, trace, leaves)
    nodes = [block(1, message) for message in names.messages()]
    return b"".join(nodes) + block(4, integer(1, 22))


class _Names:
    """Names of all nodes: the path of the module, then the operation, numbered if need be."""

    def __init__(self, top: str, trace: ModuleTrace, leaves: dict[Node, str]) -> None:
        self.top = top
        self.trace = trace
        self.leaves = leaves
        self.names: dict[Node, str] = {}
        self.used: dict[str, int] = {}
        self.scopes = self._scopes()

    def _unique(self, name: str) -> str:
        number = self.used.get(name, 0)
        self.used[name] = number + 1
        return f"{name}_{number}" if number else name

    def _scopes(self) -> list[str]:
        """The scope of each call; a module that is called again gets a number."""
        found: list[str] = []
        for call in self.trace.calls:
            if call.parent < 0:
                found.append(self._unique(self.top))
                continue
            outer = self.trace.calls[call.parent]
            # A module may be called by another than the one that holds it.
            inside = call.name.startswith(f"{outer.name}.") or not outer.name
            own = call.name[len(outer.name) :].lstrip(".") if inside else call.name
            found.append(self._unique(f"{found[call.parent]}/{own.replace('.', '/')}"))
        return found

    def messages(self) -> list[bytes]:
        """NodeDefs: inputs, then operations with the parameters they read, then outputs."""
        made = []
        for number, node in enumerate(self.trace.inputs):
            if node not in self.names:
                self.names[node] = self._unique(f"input_{number}" if number else "input")
                made.append(self._message(node, "Placeholder", ()))
        for node, place in zip(self.trace.nodes, self.trace.owners(), strict=True):
            scope = self.scopes[place]
            unnamed = [x for x in dict.fromkeys(node.inputs) if x not in self.names]
            made += [self._leaf(x, scope) for x in unnamed]
            self.names[node] = self._unique(f"{scope}/{node.op.name}")
            made.append(self._message(node, node.op.name, node.inputs))
        return [*made, *self._outputs()]

    def _leaf(self, node: Node, scope: str) -> bytes:
        known = self.leaves.get(node)
        short = known.rpartition(".")[2] if known else "constant"
        self.names[node] = self._unique(f"{scope}/{short}")
        return self._message(node, "Parameter" if known else "Const", ())

    def _outputs(self) -> list[bytes]:
        found = []
        for node in self.trace.calls[0].output_nodes:
            name = self._unique("output")
            found.append(block(1, name) + block(2, "Output") + block(3, self.names[node]))
        return found

    def _message(self, node: Node, op: str, inputs: tuple[Node, ...]) -> bytes:
        shapes = block(1, block(7, shape(node.meta.shape)))
        kind = integer(6, _TYPES.get(node.meta.dtype.name, _FLOAT32))
        message = block(1, self.names[node]) + block(2, op)
        message += b"".join(block(3, self.names[x]) for x in inputs)
        message += pair(5, "_output_shapes", shapes) + pair(5, "T", kind)
        return message + pair(5, "line", block(2, describe_site(node.site)))
