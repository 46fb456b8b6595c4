"""What the gradient rules of one node have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def shared(y: Tensor, make: Callable[[], Tensor]) -> Tensor:
    """What `make` records, once for all the rules of one node: `y` is made anew for each node."""
    found = y.__dict__.get("_shared")
    if found is None:
        found = y.__dict__["_shared"] = make()
    return found
