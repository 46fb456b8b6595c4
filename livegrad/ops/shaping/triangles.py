"""Triangles of matrices: one side of a diagonal, as values or as indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.elsewhere import placed
from livegrad.graph.meta import Meta
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast, sub, where
from livegrad.ops.elementwise.comparison import ge, le
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.generate import counting
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.out import exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Attrs = tuple[Any, ...]


def _triangle(n: Any, x: Tensor, compare: Callable[..., Tensor]) -> Tensor:
    rows, columns = x.shape[-2:]
    row = reshape_to(counting(rows), (rows, 1))
    part = where(compare(sub(counting(columns), row), n.args[0]), x, 0)
    return cast(part, n.meta.dtype)  # a bool and the number 0 make an integer


def _tril(n: Any, x: Tensor) -> Tensor:
    return _triangle(n, x, le)


def _triu(n: Any, x: Tensor) -> Tensor:
    return _triangle(n, x, ge)


def _triangle_infer(metas: tuple[Meta, ...], attrs: Attrs, shape: Any) -> Meta:
    if metas[0].ndim < 2:
        raise RuntimeError(
            f"tril/triu: input tensor must have at least 2 dimensions; got {metas[0].shape}"
        )
    return metas[0]


TRIL: Op = Op(
    "tril",
    "composite",
    # Zero above the diagonal args (diagonal,).
    infer=_triangle_infer,
    ref=lambda n, x: np.tril(x, n.args[0]),
    expand=_tril,
    grads=(lambda g, y, x: record(TRIL, (g,), (), y._node.args),),
    saves="",
    batch=batched.as_it_is,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4),), lambda x: tril(x)),
        lambda: s.Sample((s.uniform(2, 4, 3),), lambda x: tril(x, -1)),
    ),
)
TRIU: Op = Op(
    "triu",
    "composite",
    # Zero below the diagonal args (diagonal,).
    infer=_triangle_infer,
    ref=lambda n, x: np.triu(x, n.args[0]),
    expand=_triu,
    grads=(lambda g, y, x: record(TRIU, (g,), (), y._node.args),),
    saves="",
    batch=batched.as_it_is,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4),), lambda x: triu(x)),
        lambda: s.Sample((s.uniform(2, 4, 3),), lambda x: triu(x, 1)),
    ),
)


@exact
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices, up to a diagonal; zeros above it.

    Args:
        input: matrices.
        diagonal: how far above the main one it goes.

    Example:
        >>> lg.tril(lg.ones(3, 3))
        tensor([[1., 0., 0.],
                [1., 1., 0.],
                [1., 1., 1.]])
    """
    return record(TRIL, (input,), (), (as_index(diagonal),))


@exact
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices, from a diagonal on; zeros below it.

    Args:
        input: matrices.
        diagonal: how far above the main one it begins.

    Example:
        >>> lg.triu(lg.ones(3, 3), diagonal=1)
        tensor([[0., 1., 1.],
                [0., 0., 1.],
                [0., 0., 0.]])
    """
    return record(TRIU, (input,), (), (as_index(diagonal),))


# ------------------------------------------------------------------------------------ indices


def _indices(name: str, lower: bool, row: int, col: int, offset: int, dtype: Any) -> Tensor:
    row, col, offset = as_index(row), as_index(col), as_index(offset)
    if row < 0 or col < 0:
        raise RuntimeError(f"{name}: row and col must be non-negative; got {row} and {col}")
    target = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    if target not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f'"{name}" not implemented for {target.name}; expected int64 or int32')
    try:
        found = np.tril_indices(row, offset, col) if lower else np.triu_indices(row, offset, col)
    except (MemoryError, OverflowError, ValueError) as error:
        raise RuntimeError(f"{name}: can't allocate memory for {row} by {col}: {error}") from None
    return from_array(np.stack(found), target)


def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Rows and columns (2 by n) of the elements of the lower triangle of a row by col matrix."""
    return placed(_indices("tril_indices", True, row, col, offset, dtype), device)


def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Rows and columns (2 by n) of the elements of the upper triangle of a row by col matrix."""
    return placed(_indices("triu_indices", False, row, col, offset, dtype), device)
