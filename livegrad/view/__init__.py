"""The live graph, to be looked at: `livegrad.view()`, `livegrad.watch()`, `livegrad.graph(x)`.

    import livegrad as lg

    lg.view()                               a page in the browser, live
    with lg.watch() as w: …                 a record; w.graph(), w.save("step.html")
    lg.graph(loss)                          what a tensor was computed from

`livegrad view script.py` does the same for a program as it is. docs/view.md tells more.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from livegrad.view import command as command
from livegrad.view.asking import Graph
from livegrad.view.nodes import GraphKernel, GraphNode
from livegrad.view.record import StepRecord
from livegrad.view.session import View, Watch, graph, view, watch

__all__ = [
    "Graph",
    "GraphKernel",
    "GraphNode",
    "StepRecord",
    "View",
    "Watch",
    "graph",
    "view",
    "watch",
]


class _Callable(ModuleType):
    """`livegrad.view` is a package, and what it is there for: `livegrad.view()`."""

    def __call__(self, *files: Any, **options: Any) -> View:
        return view(*files, **options)


sys.modules[__name__].__class__ = _Callable
