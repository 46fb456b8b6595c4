"""Parameters that an update has made what they are: which numbers of the optimiser did it."""

from __future__ import annotations

from typing import Any

from livegrad.debug.report import Blame
from livegrad.debug.search import Found
from livegrad.debug.values import range_of
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.node import LeafRef, Site
from livegrad.runtime.values import array_of

_OPTIONS = ("lr", "eps", "weight_decay", "momentum", "betas", "alpha", "rho")


def of_update(made: Blame, found: Found, optimizer: Any, site: Site | None) -> Blame:
    """Blames a parameter that was not finite before the step on the step before.

    The gradients of that step were finite, else it would have been told; so its update is to blame,
    or somebody who wrote to the parameter since.
    """
    to = found.node.grad_to
    tensor = to() if isinstance(to, LeafRef) else None
    group = next((g for g in optimizer.param_groups if any(p is tensor for p in g["params"])), None)
    if group is None or optimizer.steps_taken < 2:
        return made
    update = Blame(type(optimizer).__name__, "update", site)
    update.result, update.chain = made.result, made.chain
    numbers = [f"{key}={group[key]}" for key in _OPTIONS if key in group]
    update.note = (
        f"the parameter {made.op} and its gradient were finite in that step, which updated it with "
        f"{', '.join(numbers)}{_state(optimizer.state.get(tensor, {}))}. (Or the program has "
        "written to it since.)"
    )
    return update


def _state(state: dict[str, Any]) -> str:
    """What is in the optimiser's state of a parameter."""
    nodes = {key: node_of(x) for key, x in state.items() if isinstance(x, Handle)}
    told = [
        f"{key} {range_of(array_of(node), node.meta)}"
        for key, node in nodes.items()
        if node.buffer is not None
    ]
    return "; its " + ", ".join(told) if told else ""


__all__ = ["of_update"]
