"""The gradient that a tensor holds: what may be assigned to `.grad`, and how it is cleared."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import TYPE_NAMES
from livegrad.graph.writes import rebind
from livegrad.ops.elementwise.arithmetic import add, cast
from livegrad.ops.shaping.movement import expand


def _check_gradient(x: Any, gradient: Any) -> None:
    """PyTorch's error unless `gradient` could be that of `x`."""
    if not isinstance(gradient, Handle):
        kind = type(gradient).__name__
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type {kind}"
        )
    if gradient is x:
        raise RuntimeError("can't assign Variable as its own grad")
    own, given = node_of(x).meta, node_of(gradient).meta
    if given.dtype is not own.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{TYPE_NAMES[given.dtype.name]}' to a "
            f"tensor with dtype '{TYPE_NAMES[own.dtype.name]}'. Convert it with .to() first"
        )
    if given.shape != own.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(given.shape)}' to a tensor of size "
            f"'{list(own.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )


def in_shape_of(x: Any, gradient: Any) -> Any:
    """A gradient that came for a leaf, which may have been reshaped in place since it was used."""
    shape, came = node_of(x).meta.shape, gradient._node.meta.shape
    return gradient if came == shape or len(came) > len(shape) else expand(gradient, shape)


def add_in_place(gradient: Any, more: Any) -> None:
    """Adds to the gradient of a tensor, which keeps the dtype that it may have got with that."""
    total = add(gradient, more)
    dtype = gradient._node.meta.dtype
    rebind(gradient, total if total._node.meta.dtype is dtype else cast(total, dtype))


def clear(gradient: Any) -> None:
    """Makes a gradient zero, without the history that it may have."""
    if node_of(gradient).grad_to is not None:
        gradient.detach_()
    gradient.zero_()


def _assign(x: Any, gradient: Any) -> None:
    if gradient is not None:
        _check_gradient(x, gradient)
    x._grad = gradient


def _forget(x: Any) -> None:
    x._grad = None


# Gradients are read far more often than assigned from outside: no Python runs for that.
held_gradient: Any = property(
    attrgetter("_grad"),
    _assign,
    _forget,
    """The gradient collected so far, or None.

    Example:
        >>> w = lg.ones(2, requires_grad=True)
        >>> (3 * w).sum().backward()
        >>> w.grad
        tensor([3., 3.])
    """,
)
