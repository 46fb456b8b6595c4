"""Simpler modules for evaluation: batch norms folded into what is before them, no dropout."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from livegrad.fx._symbolic_trace import symbolic_trace
from livegrad.fx.graph import Graph
from livegrad.fx.graph_module import GraphModule
from livegrad.fx.interpreter import Transformer
from livegrad.fx.node import Node
from livegrad.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from livegrad.nn.conv import Conv1d, Conv2d, Conv3d
from livegrad.nn.dropout import Dropout
from livegrad.nn.linear import Linear
from livegrad.nn.module import Module
from livegrad.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

_PATTERNS: list[tuple[type, type]] = [
    (Conv1d, BatchNorm1d),
    (Conv2d, BatchNorm2d),
    (Conv3d, BatchNorm3d),
    (Linear, BatchNorm1d),
]


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Module]) -> bool:
    """Whether a node, and the one it gets its input from, call modules of these classes."""
    if not node.args:
        return False
    for wanted, current in zip(pattern, (node.args[0], node), strict=False):
        if not isinstance(current, Node) or current.op != "call_module":
            return False
        if type(modules.get(str(current.target))) is not wanted:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Has a node call another module, at the same path."""
    path, _, name = str(node.target).rpartition(".")
    modules[str(node.target)] = new_module
    setattr(modules[path], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """The model with batch norms folded into the layers before them; for evaluation.

    With `no_trace`, the model is a GraphModule already.
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced: Any = model if no_trace else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph: Graph = copy.deepcopy(traced.graph)
    for pattern in _PATTERNS:
        for node in graph.nodes:
            if matches_module_pattern(pattern, node, modules):
                _fuse_node(graph, node, modules)
    return GraphModule(traced, graph)


def _fuse_node(graph: Graph, node: Node, modules: dict[str, Any]) -> None:
    before: Any = node.args[0]
    bn, layer = modules[str(node.target)], modules[str(before.target)]
    shared = sum([n.target == before.target for n in graph.nodes]) > 1
    if len(before.users) > 1 or shared or not bn.track_running_stats:
        return  # something else uses the layer, or what it gives
    fold = fuse_linear_bn_eval if isinstance(layer, Linear) else fuse_conv_bn_eval
    replace_node_module(before, modules, fold(layer, bn))
    node.replace_all_uses_with(before)
    graph.erase_node(node)


class _WithoutDropout(Transformer):
    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Dropout gives what it gets."""
        if isinstance(self.submodules[target], Dropout):
            return args[0]
        return super().call_module(target, args, kwargs)


def remove_dropout(model: Module) -> Module:
    """The model without its dropout modules."""
    return _WithoutDropout(symbolic_trace(model)).transform()


def extract_subgraph(
    orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """Some nodes of a graph as a module of their own, with these inputs and outputs."""
    graph = Graph()
    values: dict[Node, Node] = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        values[node] = graph.node_copy(node, lambda n: values[n])
    results = [values[node] for node in outputs]
    graph.output(results[0] if len(results) == 1 else tuple(results))
    graph.lint()
    return GraphModule(orig_module, graph)


__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "remove_dropout",
    "replace_node_module",
]
