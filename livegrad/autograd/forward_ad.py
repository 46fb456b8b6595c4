"""Forward mode under the names of `torch.autograd.forward_ad`: dual numbers.

A dual tensor is a variable that remembers its tangent. Nothing is propagated while a program runs:
`unpack_dual` asks the graph for the Jacobian-vector product (see `livegrad.func.jvp`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

from livegrad.graph.handle import Handle, node_of
from livegrad.graph.node import Node

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


class _Duals(local):
    """The dual tensors of this thread, while there is a level."""

    level: Any = None
    tangents: dict[Node, Tensor]


_duals = _Duals()


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent, None if it has none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Starts forward mode; dual tensors can be made until `exit_dual_level`."""
    from livegrad.func.levels import Level

    if _duals.level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _duals.level, _duals.tangents = Level(), {}
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends forward mode; tangents are forgotten."""
    if _duals.level is None:
        raise RuntimeError("Trying to exit a forward AD level that was not entered")
    for node in _duals.level.nodes:
        if not any(x.grad_to is not None for x in node.inputs):
            node.grad_to = None
    _duals.level, _duals.tangents = None, {}


@contextmanager
def dual_level() -> Iterator[int]:
    """Forward mode for a block."""
    level = enter_dual_level()
    try:
        yield level
    finally:
        exit_dual_level(level=level)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """`tensor` with a tangent, along which what is computed from it is differentiated."""
    if _duals.level is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for what, x in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(x, Handle) or node_of(x).meta.dtype.category < 2:
            raise ValueError(f"Expected {what} to be floating point or complex, but got {x!r}")
    own, other = node_of(tensor).meta, node_of(tangent).meta
    if own.shape != other.shape or own.dtype.category < other.dtype.category:
        raise RuntimeError(
            "make_dual: Expected tangent to have the shape of the tensor, and to be no complex one "
            f"of a real tensor; got {other} and {own}"
        )
    with _duals.level as duals:
        dual: Tensor = duals.variable(tensor)
    _duals.tangents[node_of(dual)] = tangent
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of `tensor`, and its tangent if it was computed from dual tensors."""
    duals = _duals.level
    if duals is None or node_of(tensor).grad_to is None:
        return UnpackedDualTensor(tensor, None)
    from livegrad.ops.making.generate import zeros_like

    given = _duals.tangents.get(node_of(tensor))
    if given is not None:
        (primal,) = duals.released((tensor,))
        return UnpackedDualTensor(primal, given)
    with duals:
        starts = list(_duals.tangents)
        weight = duals.variable(zeros_like(tensor))
        rows = duals.rows([tensor], [weight], starts)
        pairs = [
            (row, _duals.tangents[node].to(row.dtype))
            for row, node in zip(rows, starts, strict=True)
            if row is not None
        ]
        (found,) = duals.pull([r for r, _ in pairs], [t for _, t in pairs], [node_of(weight)])
        tangent = found if found is not None or not pairs else zeros_like(tensor)
        return UnpackedDualTensor(*duals.released((tensor, tangent)))
