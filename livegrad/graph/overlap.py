"""Operands that share memory with what is written: refused where PyTorch refuses them.

b[1:].add_(b[:-1])        one element of b is read and another one is written in its place
b[1:].add_(b[1:])         each element is read where it is written: fine
b[1:].add_(b[:-1].conj()) PyTorch computes with a copy of what shows conjugates: fine

Here each would have a meaning, because values are kept as they were; but a program that runs with
PyTorch has none of the former, and whoever writes one by mistake is to hear of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from livegrad.graph.geometry import offset_of, root_of
from livegrad.graph.handle import Handle, node_of, path_of, shows_conjugates
from livegrad.graph.layout import is_dense

# What is refused: operands that share some places with what is written, but are not laid out
# alike; or all that share any.
PARTLY, AT_ALL = "partly", "at all"


def check_overlap(x: Any, operands: Iterable[Any], refused: str = PARTLY) -> None:
    """RuntimeError if one of `operands` overlaps with `x`, which is to be computed from them."""
    for other in operands:
        if isinstance(other, tuple | list):
            check_overlap(x, other, refused)
        elif isinstance(other, Handle) and _overlap(x, other) in (refused, PARTLY):
            if shows_conjugates(path_of(x)) or shows_conjugates(path_of(other)):
                continue
            raise _refusal()


def check_copied(x: Any, source: Any) -> None:
    """RuntimeError if `source` overlaps with `x`, to which it is to be copied as it is."""
    if _overlap(x, source) is PARTLY:
        raise _refusal()


def _refusal() -> RuntimeError:
    return RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        "to a single memory location. Please clone() the tensor before performing the operation."
    )


def _overlap(x: Any, other: Any) -> str | None:
    """How two tensors overlap; None if they do not, or if that is not looked into."""
    if other is x:
        return AT_ALL
    if x._share is None or other._share is None:
        return None
    node_of(x), node_of(other)  # a tensor that shares its cell with nobody gives it up
    if x._share is None or other._share is None or root_of(x)[0] is not root_of(other)[0]:
        return None
    if not _is_dense(x) or not _is_dense(other):
        return None
    (begin, end), (first, last) = _stretch(x), _stretch(other)
    if begin == end or first == last:
        return None
    if (begin, end) == (first, last):
        return AT_ALL if x._node.meta.stride() == other._node.meta.stride() else PARTLY
    return PARTLY if begin < last and first < end else None


def _is_dense(x: Any) -> bool:
    meta = x._node.meta
    return is_dense(meta.shape, meta.stride())


def _stretch(x: Any) -> tuple[int, int]:
    """Where the memory of a tensor without gaps begins and ends, in bytes."""
    meta = x._node.meta
    begin = offset_of(x) * meta.dtype.itemsize
    return begin, begin + meta.nbytes
