"""LIVEGRAD_DEBUG: what the compiler does, printed as it does it.

LIVEGRAD_DEBUG is a comma-separated list of: graph (recorded nodes of each flush), plan (each
pass), kernels (signatures), ir (LLVM IR), misses (why a plan was not found), verify (check passes
and IR), times (time every kernel, for explain()), native (why hot functions stay Python's), tiers
(what each flush was run by, and why).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from livegrad.environment import words
from livegrad.graph.node import Node, describe_site

_FLAGS = words("LIVEGRAD_DEBUG", "graph plan kernels ir misses verify times native tiers")


def wants(flag: str) -> bool:
    """Whether LIVEGRAD_DEBUG asks for `flag`."""
    return flag in _FLAGS


def out(text: str) -> None:
    """Prints to standard error, so that a program's own output stays clean."""
    print(text, file=sys.stderr)


def node_lines(nodes: Sequence[Node]) -> list[str]:
    """A numbered list of nodes: `%3 = add(%1, %2) float32[4, 8]   model.py:12`."""
    numbers = {node: i for i, node in enumerate(nodes)}
    lines = []
    for i, node in enumerate(nodes):
        inputs = ", ".join(f"%{numbers.get(x, '?')}" for x in node.inputs)
        attrs = f" {node.attrs}" if node.op.kind != "elementwise" and node.attrs else ""
        args = f" args{node.args}" if node.args else ""
        made = f"{node.op.name}({inputs}){attrs}{args} {node.meta}"
        lines.append(f"  %{i} = {made}   {describe_site(node.site)}")
    return lines


def show(title: str, lines: Sequence[str]) -> None:
    """Prints what has a title."""
    out("\n".join([f"{title}:", *lines]))
