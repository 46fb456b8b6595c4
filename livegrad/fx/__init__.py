"""Programs as graphs that can be read, changed and written as code: `torch.fx` for livegrad.

    symbolic_trace(model)   runs it with proxies ──► Graph: one Node for each call
    GraphModule             a module whose `forward` is the code of a graph
    Interpreter             runs a graph node by node, and may do otherwise at each

How: docs/design.md, *Programs as graphs*.
"""

from __future__ import annotations

from livegrad.fx import (
    _symbolic_trace as _symbolic_trace,
    experimental as experimental,
    graph as graph,
    graph_module as graph_module,
    immutable_collections as immutable_collections,
    interpreter as interpreter,
    node as node,
    passes as passes,
    proxy as proxy,
    subgraph_rewriter as subgraph_rewriter,
)
from livegrad.fx._symbolic_trace import PH, Tracer, symbolic_trace
from livegrad.fx.graph import CodeGen, Graph
from livegrad.fx.graph_module import GraphModule
from livegrad.fx.interpreter import Interpreter, Transformer
from livegrad.fx.node import Node, has_side_effect, map_arg
from livegrad.fx.proxy import Proxy
from livegrad.fx.subgraph_rewriter import replace_pattern
from livegrad.fx.wrapping import wrap

__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "PH",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
