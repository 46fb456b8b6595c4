"""Why a kernel has in it what it has, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livegrad.view.nodes import GraphKernel

if TYPE_CHECKING:
    from livegrad.view.asking import Graph

# Kinds of kernels that have a template of their own: others cannot be put into them.
_OWN = {
    "scatter": "it writes wherever its indices say, so nothing that reads the whole can share it",
    "scan": "each element needs the one before it",
    "recurrent": "each time step needs the one before it",
    "host": "NumPy runs it",
    "copy": "it only moves values to where they are needed",
    "panels": "it lays a matrix out as the product after it reads it",
}


def why(graph: Graph, kernel: GraphKernel) -> str:
    """What a kernel consists of, and why it has not more in it."""
    lines = [str(kernel)]
    names = [str(graph.nodes[number]) for number in kernel.nodes if number in graph.nodes]
    lines += [f"  computes {name}" for name in names]
    if kernel.planned:
        lines.append(f"  planned in this step: {kernel.planned}")
    if kernel.tier == "piece":
        lines.append(
            "  by itself: this structure is new, so it was run op by op; once it has come often "
            "enough it is planned as a whole, and fused"
        )
        return "\n".join(lines)
    for source in kernel.reads:
        lines.append(f"  not in one with {graph.kernels[source]}:")
        lines.append(f"    {between(graph.kernels[source], kernel)}")
    readers = [each for each in graph.kernels if kernel.number in each.reads]
    for reader in readers:
        lines.append(f"  not in one with {reader}:")
        lines.append(f"    {between(kernel, reader)}")
    if not kernel.reads and not readers:
        lines.append("  nothing else in this step reads it, or is read by it")
    return "\n".join(lines)


def between(first: GraphKernel, second: GraphKernel) -> str:
    """Why a value goes from one kernel to another through memory."""
    for each in (first, second):
        if each.kind in _OWN:
            return f"{each.kind}: {_OWN[each.kind]}"
    if first.flush != second.flush:
        return "the program read a value in between, or another flush came first"
    if second.kind == "product" and first.kind == "product":
        return "a product needs whole rows and columns of what it multiplies"
    if second.kind == "product":
        return "a product reads each element many times: it has to be there already"
    if any(op in _REDUCING for op in first.ops) and first.shape != second.shape:
        return "the sum has to be complete before it is read, and the loops differ"
    if first.shape != second.shape:
        return f"their loops differ: {list(first.shape)} and {list(second.shape)}"
    if len(first.ops) + len(second.ops) > 96:
        return "together they would be more operations than a kernel may have (96)"
    return "it is read by several kernels, or kept by the program, so it is stored once"


_REDUCING = {"sum", "mean", "amax", "amin", "prod", "argmax", "argmin", "var", "any", "all"}
