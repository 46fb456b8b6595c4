"""Copies of views: what a view shows, as a tensor of its own; and copies with a view replaced.

select(x, 0, 1)                the view
select_copy(x, 0, 1)           a copy of it
select_scatter(x, v, 0, 1)     a copy of x in which it is v
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from livegrad.graph.handle import node_of, path_of
from livegrad.graph.views import row_major
from livegrad.ops.bookkeeping.in_place import placed_like
from livegrad.ops.elementwise.arithmetic import cast, clone
from livegrad.ops.shaping import diagonals, movement, reshaping, slicing, strided
from livegrad.ops.support.out import exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _copying(view: Callable[..., Any]) -> Callable[..., Any]:
    """The function that copies what `view`, a function, shows."""

    @exact
    @wraps(view)
    def copy(*args: Any, **options: Any) -> Any:
        shown = view(*args, **options)
        return tuple(map(_copied, shown)) if isinstance(shown, tuple) else _copied(shown)

    copy.__name__ = copy.__qualname__ = f"{view.__name__}_copy"
    copy.__doc__ = f"What `{view.__name__}` shows, as a copy."
    return copy


def _copied(x: Tensor) -> Tensor:
    return row_major(clone(x))


as_strided_copy = _copying(strided.as_strided)
detach_copy = _copying(movement.detach)
diagonal_copy = _copying(diagonals.diagonal)
expand_copy = _copying(movement.expand)
narrow_copy = _copying(slicing.narrow)
permute_copy = _copying(movement.permute)
select_copy = _copying(slicing.select)
slice_copy = _copying(slicing.slice_along)
split_copy = _copying(slicing.split)
split_with_sizes_copy = _copying(slicing.split_with_sizes)
squeeze_copy = _copying(movement.squeeze)
t_copy = _copying(movement.t)
transpose_copy = _copying(movement.transpose)
unbind_copy = _copying(slicing.unbind)
unfold_copy = _copying(strided.unfold)
unsqueeze_copy = _copying(movement.unsqueeze)
view_copy = _copying(reshaping.view)


@exact
def alias_copy(input: Tensor) -> Tensor:
    """A copy of `input`."""
    return clone(input)


# --------------------------------------------------------------------- a view of it replaced


def _replaced(name: str, input: Tensor, src: Tensor, view: Tensor) -> Tensor:
    """A copy of `input` with `src` in place of what `view`, made by one view op, shows."""
    given, wanted = node_of(src).meta, node_of(view).meta
    if given.shape != wanted.shape:
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self; got src size "
            f"{list(given.shape)}, slice size {list(wanted.shape)}"
        )
    op, attrs, args, _ = path_of(view)[-1]
    assert op.write is not None
    return placed_like(op.write(input, cast(src, wanted.dtype), attrs, args), input)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` as its slice at `index` along `dim`."""
    return _replaced("select_scatter", input, src, slicing.select(input, dim, index))


@exact
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of `input` with `src` in place of every `step`-th from `start` to `end`."""
    view = slicing.slice_along(input, dim, start, end, step)
    return _replaced("slice_scatter", input, src, view)


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of `input` with `src` on its diagonal."""
    view = diagonals.diagonal(input, offset, dim1, dim2)
    return _replaced("diagonal_scatter", input, src, view)
