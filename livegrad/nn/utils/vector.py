"""Parameters as one long vector, and back."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from livegrad.graph.state import flush
from livegrad.ops.elementwise.arithmetic import clone
from livegrad.ops.shaping.joining import cat
from livegrad.tensor import Tensor

_refs = sys.getrefcount


def parameters_to_vector(parameters: Iterable[Any]) -> Tensor:
    """All parameters in one vector; gradients flow through it."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Makes parameters of consecutive parts of `vec`, whose memory and dtype they have then."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected Tensor, but got: {type(vec).__module__}.{type(vec).__name__}")
    # Parts of one storage cost more to update: of a vector that nobody will see again they are
    # taken apart. What is pending is referred to by the list of that, too.
    flush("vector_to_parameters")
    is_seen = vec._share is not None or _refs(vec) > _UNNAMED
    start = 0
    for p in parameters:
        stop = start + p.numel()
        part = vec[start:stop].view_as(p).data
        p.data = part if is_seen else clone(part)
        start = stop


def _count_references(vec: Any) -> int:
    return _refs(vec)


# What `_refs` says of an argument that has no name where the call is.
_UNNAMED = _count_references(object())
