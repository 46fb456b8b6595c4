"""Results written into tensors that the caller gives, `out=`, as PyTorch does it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from livegrad.dtypes import FLOAT, DType, bool_, uint8
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.overlap import AT_ALL, check_overlap
from livegrad.graph.site import is_inside
from livegrad.graph.state import LOCAL, setting
from livegrad.graph.views import see_through
from livegrad.graph.writes import check_writable, rebind
from livegrad.ops.elementwise.arithmetic import cast, clone
from livegrad.ops.shaping.resizing import take_shape
from livegrad.ops.support.out import Out

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def store(result: Any, out: Any, kind: Out) -> Any:
    """Writes `result`, a tensor or a tuple of them, into `out` and returns `out`."""
    if isinstance(result, Handle):
        return _put(result, _checked(out), kind)
    if not isinstance(out, tuple | list) or len(out) != len(result):
        raise TypeError(
            f"out: got {_described(out)}; expected a tuple of {len(result)} tensors, one for each "
            "result"
        )
    stored = [store(value, room, kind) for value, room in zip(result, out, strict=True)]
    named = hasattr(result, "_fields")
    return type(result)(*stored) if named else tuple(stored)


def kind_for(kind: Out, x: Any, out: Any) -> Out:
    """How the sizes of `x` get into `out`."""
    dtype, given = node_of(x).meta.dtype, dtype_of(out)
    casts = dtype.is_complex and (given is dtype or not given.is_complex)
    return kind._replace(exact=False) if casts else kind


def check_apart(result: Any, out: Any, operands: tuple[Any, ...], kind: Out) -> None:
    """RuntimeError for an `out` that shares memory with operands as PyTorch's must not.

    Where elements are computed one by one, each may be written where it was read.
    """
    if isinstance(result, Handle) and isinstance(out, Handle):
        if kind.apart:
            check_overlap(out, operands, AT_ALL)
        elif out._share is not None and node_of(result).op.kind == "elementwise":
            check_overlap(out, operands)


def check_constant(tensors: Iterable[Any]) -> None:
    """RuntimeError if a gradient would flow through one of these, which `out` has no place for."""
    if LOCAL.state.grad and any(isinstance(x, Handle) and x.requires_grad for x in tensors):
        raise RuntimeError(
            "out: functions with out=... arguments don't support automatic differentiation, but "
            "one of the arguments requires grad. Leave out= out, or use livegrad.no_grad()"
        )


def _checked(out: Any) -> Tensor:
    if not isinstance(out, Handle):
        raise TypeError(f"out: argument 'out' must be Tensor, not {type(out).__name__}")
    return out


def dtype_of(out: Any) -> DType:
    """The dtype of what is given as `out`."""
    return node_of(_checked(out)).meta.dtype


def _described(out: Any) -> str:
    return f"{len(out)} of them" if isinstance(out, tuple | list) else type(out).__name__


def _put(value: Tensor, out: Tensor, kind: Out) -> Tensor:
    made, room = node_of(value), node_of(out)
    # A result that has no gradient, such as that of a comparison, leaves the history alone.
    if made.meta.dtype.category >= FLOAT or made.op.grads is not None:
        check_constant((value, out))
    dtype = room.meta.dtype
    if kind.exact and made.meta.dtype is not dtype:
        raise RuntimeError(
            f"out: Expected out tensor to have dtype {made.meta.dtype.name}, but got {dtype.name} "
            "instead"
        )
    if kind.truths and dtype not in (bool_, uint8):
        raise RuntimeError(f"out: Expected out tensor to have bools or uint8, but got {dtype.name}")
    if made.meta.dtype.category > dtype.category and not kind.truths:
        raise kind.refusal(
            f"out: result type {made.meta.dtype.name} can't be cast to the desired output type "
            f"{dtype.name}"
        )
    # A value of its own: a result may be, or be a view of, one of the arguments.
    value = clone(cast(value, dtype))
    if made.meta.shape == room.meta.shape:
        return _unrecorded(out, value)
    one_by_one = made.op.kind == "elementwise"
    return _resized(out, value, one_by_one if kind.as_it_is is None else kind.as_it_is)


def _unrecorded(out: Tensor, value: Tensor) -> Tensor:
    """A write that leaves `out` the leaf, or the place in the graph, that it is."""
    with setting(grad=False):
        return rebind(out, value)


def _levels_to_user() -> int:
    """How many frames above its caller the user's line is, for a warning to name it."""
    frame: Any = sys._getframe(1)
    levels = 1
    while frame.f_back is not None and is_inside(frame.f_code.co_filename):
        frame, levels = frame.f_back, levels + 1
    return levels


def _resized(out: Tensor, value: Tensor, as_it_is: bool) -> Tensor:
    """`out` with another shape; PyTorch warns that it should have been empty.

    An expanded one is refused only `as_it_is`: in its new shape it has no elements in one place.
    """
    meta, wanted = node_of(out).meta, node_of(value).meta
    if meta.numel:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(meta.shape)}, which does not match the required output shape "
            f"{list(wanted.shape)}. Give an empty tensor, or one of that shape",
            stacklevel=_levels_to_user(),
        )
    with setting(grad=False):
        check_writable(out, expanded=not as_it_is)
    if out._share is None and node_of(out).grad_to is None:  # nobody else sees where it lies
        out._node = value._node
        out._writes += 1
        see_through(value, out)
        return out
    with setting(grad=False):
        take_shape(out, wanted.shape, wanted.stride())
    return _unrecorded(out, value)
