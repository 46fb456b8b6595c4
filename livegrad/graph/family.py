"""What a view is a view of, history included, and views whose history cannot follow a write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from livegrad.graph.handle import Share, is_current, may_be_stale, node_of
from livegrad.graph.node import Node, is_in_vain
from livegrad.graph.state import setting
from livegrad.native.hot import hot

NO_GRAD, IN_FUNCTION = "no_grad", "Function"


def family_node(x: Any) -> Node:
    """The node of what a view is a view of, history included; its own if it no longer is one."""
    share = x._share
    is_view = share is not None and (share.root is not None or not share.is_detached())
    return node_of_whole(share) if is_view else x._node


@hot
def node_of_whole(share: Share) -> Node:
    """The node of the whole of a view: of the detached tensor that it is a view of, if any."""
    node: Node = (share.cell if share.root is None else share.root)._node
    return node


@hot
def node_to_read(x: Any) -> Node:
    """The node of a tensor whose values are wanted: its history may be gone."""
    share = x._share
    if share is None or share.made_at is None or is_current(share):
        return node_of(x)
    return _node_without_history(x)


def _node_without_history(x: Any) -> Node:
    with setting(grad=False):
        return node_of(x)


@contextmanager
def stale_or_not(x: Any) -> Iterator[None]:
    """Within it, a view whose history is gone can be used, for what does not ask for that."""
    made_at = x._share.made_at if may_be_stale(x) else None
    if made_at is not None:
        x._share.made_at = None
    try:
        yield
    finally:
        if made_at is not None and x._share is not None:
            x._share.made_at = made_at


def requires_as_family(x: Any) -> bool:
    """Whether a view requires a gradient: of its own, or as what it is a view of does."""
    to = x._node.grad_to
    return family_node(x).grad_to is not None or (to is not None and not is_in_vain(to))


def check_not_stale(x: Any) -> None:
    """RuntimeError for the history of a view that may not be followed to what was written.

    It is one of several that a function returned, or was made under no_grad or in a Function.
    """
    share = x._share
    if share is None or share.made_at is None or share.made_at == share.writes():
        return
    if x._node.interior or family_node(x).grad_to is not None:
        raise written_view(x, "its base or another view of its base has been modified")


def written_view(x: Any, what: str) -> RuntimeError:
    """The error for a write to a view, or to what it shows, whose history cannot follow it."""
    made = x._share.made
    if made is NO_GRAD:
        return RuntimeError(
            f"A view was created in no_grad mode and {what} inplace with grad mode enabled. Given "
            "that this use case is ambiguous and error-prone, it is forbidden. Move both inside or "
            "both outside the no_grad block"
        )
    if made is IN_FUNCTION:
        return RuntimeError(
            f"A view was created inside a custom Function (or because an input was returned as-is) "
            f"and {what} inplace, which would override the custom backward associated with the "
            "custom Function, leading to incorrect gradients. Clone the output of the Function."
        )
    return RuntimeError(
        f"Output {made} is a view and {what} inplace. This view is the output of a function "
        "that returns multiple views. Such functions do not allow the output views to be modified "
        "inplace. You should replace the inplace operation by an out-of-place one."
    )
