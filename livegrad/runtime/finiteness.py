"""Gradients that are not finite: noticed before an update, and looked into while all is there.

A plan notices by itself: it has a kernel for it, and stops. What is run piece by piece is looked at
here, before the graph is let go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad.graph.above import Above
from livegrad.graph.asked import asked_of, asks
from livegrad.graph.node import Node
from livegrad.native.hot import hot
from livegrad.ops.bookkeeping.finite import settle
from livegrad.runtime.memory import Buffer


def look_into(nodes: Sequence[Node]) -> None:
    """Has what is wrong found out; then the question is answered, and the plan goes through."""
    asking = [node for node in nodes if asks(node)]
    Above.blaming().gradients_not_finite(
        [x for node in asking for x in asked_of(node)], asking[0].site
    )
    for node in asking:
        settle(node)


@hot
def look_at_listed(
    asking: Sequence[Node], kept: list[tuple[Node, Buffer]], are_finite: Any
) -> None:
    """Looks at the gradients that updates and questions among what is pending ask about.

    Those that were computed just now are in `kept`; their nodes have not been given them yet.
    `are_finite` is the device's way to look.
    """
    asked: list[Node] = []
    for node in asking:
        asked += asked_of(node)
    if not asked:
        return
    made: dict[int, Buffer] = dict()  # noqa: C408
    for node, buffer in kept:
        made[id(node)] = buffer
    if not are_finite([(x.meta, made.get(id(x), x.buffer)) for x in asked]):
        look_into(asking)
