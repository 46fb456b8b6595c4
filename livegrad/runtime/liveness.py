"""What is alive after a flush, and what may be overwritten: the rules, stated once.

Python asks when it looks for a plan (snapshot.py, running.py), and so does the native follower
(cpu/follow.py), for which these functions are translated: they are written in the subset, and of
objects that are lent to them (native/words.py). Who asks counts the references that are not its
own: `others`.
"""

from __future__ import annotations

from typing import Any

from livegrad.graph.node import LeafRef, Node
from livegrad.runtime.memory import Buffer


def is_kept(others: int, stands_for: Any, node: Node) -> bool:
    """Whether the program can still see a pending value: through a handle that others refer to,
    and that has not moved on to another node."""
    return others > 0 and stands_for is node


def is_claim(node: Node) -> bool:
    """Whether a kept node belongs to a graph that backward may still walk."""
    to = node.grad_to
    return to is not None and node.spent is False and type(to) is not LeafRef


def keeps_inputs(node: Node) -> bool:
    """Whether a node refers to its inputs when it is computed: it is a part of a graph."""
    to = node.grad_to
    return to is not None and type(to) is not LeafRef


def may_overwrite(others: int, buffer: Buffer, others_of_buffer: int) -> bool:
    """Whether the old value of a written tensor may be overwritten: nobody else sees it.

    Memory without a home is somebody else's: a loaded file, mapped to be read only.
    """
    return others <= 0 and others_of_buffer <= 0 and buffer.home is not None
