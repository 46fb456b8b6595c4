"""Searching: where values belong in a sequence in order, and whether they are among others.

Few boundaries are all compared, in one fused loop; many are searched by halving, on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.elementwise.comparison import eq, ge, gt, logical_not
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import gather
from livegrad.ops.reductions.reduce import any as any_of, sum
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]

# Up to how many others a value is compared with each of them.
COMPARE_ALL = 64


# --------------------------------------------------------------------------------- searchsorted


def _searched_ref(n: Any, ordered: Array, values: Array) -> Array:
    side: Any = "right" if n.attrs[0] else "left"
    if ordered.ndim == 1:
        return np.asarray(np.searchsorted(ordered, values, side))
    rows = ordered.reshape(-1, ordered.shape[-1])
    wanted = values.reshape(len(rows), values.shape[-1])
    out = np.empty(wanted.shape, np.int64)
    for row, (have, want) in enumerate(zip(rows, wanted, strict=True)):
        out[row] = np.searchsorted(have, want, side)
    return out.reshape(values.shape)


SEARCHSORTED = Op(
    "searchsorted",
    "host",
    # Inputs (rows in order, values), attrs (right, dtype of the result).
    infer=lambda metas, attrs, shape: meta_of(metas[1].shape, attrs[1]),
    ref=_searched_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (np.linspace(-1.0, 1.0, 80), s.uniform(3, 5)),
            lambda a, x: searchsorted(a, x),
            smooth=False,
        ),
        lambda: s.Sample(
            (np.sort(s.uniform(2, 70)), s.uniform(2, 4, seed=1)),
            lambda a, x: searchsorted(a, x, right=True),
            smooth=False,
        ),
    ),
)


def _compared(ordered: Tensor, values: Tensor, right: bool) -> Tensor:
    """How many of a few boundaries come before each value; NaN comes after all."""
    few, many = node_of(ordered).meta.shape, node_of(values).meta.shape
    if len(few) > 1:
        ordered = reshape_to(ordered, (*few[:-1], 1, few[-1]))
    values = reshape_to(values, (*many, 1))
    return sum(logical_not((gt if right else ge)(ordered, values)), -1)


@exact
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """The index at which each value of `input` would go into the rows of a sequence in order.

    Args:
        right: whether a value goes behind those equal to it; `side="right"` says the same.
        sorter: the indices that put an unsorted sequence in order.

    Example:
        >>> lg.searchsorted(lg.tensor([1, 3, 5]), lg.tensor([0, 3, 9]))
        tensor([0, 1, 3])
    """
    right = _side("searchsorted", right, side)
    ordered = node_of(sorted_sequence).meta
    if not isinstance(input, Handle):
        input = filled((), input, ordered.dtype)
        if ordered.ndim != 1:
            raise RuntimeError(
                "searchsorted: input value can be a scalar only when boundaries tensor dimension "
                f"is 1; got {list(ordered.shape)}"
            )
    _check_search(ordered, node_of(input).meta)
    if sorter is not None:
        _check_sorter(ordered, node_of(sorter).meta)
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    return _search(sorted_sequence, input, right, out_int32)


def _search(ordered: Tensor, values: Tensor, right: bool, out_int32: bool) -> Tensor:
    meta = node_of(ordered).meta
    dtype = dtypes.int32 if out_int32 else dtypes.int64
    common = dtypes.promote_types(meta.dtype, node_of(values).meta.dtype)
    ordered, values = cast(ordered, common), cast(values, common)
    if meta.shape[-1] <= COMPARE_ALL:
        return cast(_compared(ordered, values, right), dtype)
    return record(SEARCHSORTED, (ordered, values), (right, dtype))


def _side(name: str, right: bool, side: str | None) -> bool:
    if side is None:
        return bool(right)
    if side not in ("left", "right"):
        raise RuntimeError(f"{name}: side can only be 'left' or 'right'; got {side!r}")
    if right and side == "left":
        raise RuntimeError(
            f"{name}: side and right can't be set to opposites; got side of left while right was "
            "True"
        )
    return side == "right"


def _check_search(ordered: Meta, values: Meta) -> None:
    if not ordered.ndim:
        raise RuntimeError(
            "searchsorted: boundaries tensor should have positive dimension; got a 0-dim tensor"
        )
    if ordered.ndim > 1 and ordered.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            "searchsorted: boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match; got {list(ordered.shape)} and "
            f"{list(values.shape)}"
        )
    _check_kinds("searchsorted", ordered, values)


def _check_kinds(name: str, ordered: Meta, values: Meta) -> None:
    common = dtypes.promote_types(ordered.dtype, values.dtype)
    if common is dtypes.bool_ or common.is_complex:
        raise not_implemented(name, common)


def _check_sorter(ordered: Meta, sorter: Meta) -> None:
    if sorter.shape != ordered.shape:
        raise RuntimeError(
            "searchsorted: boundary and sorter must have the same size; got "
            f"{list(ordered.shape)} and {list(sorter.shape)}"
        )
    if sorter.dtype is not dtypes.int64:
        raise RuntimeError(
            f"searchsorted: sorter must be a tensor of long dtype; got {sorter.dtype.name}"
        )


@exact
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """The number of the bucket each value falls into: that between two 1-d `boundaries`.

    Args:
        right: whether a value on a boundary belongs to the bucket on its right.

    Example:
        >>> lg.bucketize(lg.tensor([0, 3, 9]), lg.tensor([1, 3, 5]))
        tensor([0, 1, 3])
    """
    meta = node_of(boundaries).meta
    if meta.ndim != 1:
        raise RuntimeError(
            f"bucketize: boundaries tensor must be 1 dimension; got {list(meta.shape)}"
        )
    if not isinstance(input, Handle):
        input = filled((), input, meta.dtype)
    _check_kinds("bucketize", meta, node_of(input).meta)
    return _search(boundaries, input, bool(right), out_int32)


# ----------------------------------------------------------------------------------------- isin

ISIN = Op(
    "isin",
    "host",
    # Inputs (elements, test elements).
    infer=lambda metas, attrs, shape: meta_of(metas[0].shape, dtypes.bool_),
    ref=lambda n, x, among: np.isin(x, among),
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.integers(3, 4, high=99), s.integers(80, high=99, seed=1)),
            lambda x, y: isin(x, y),
            smooth=False,
        ),
        lambda: s.Sample((s.integers(5), 3), lambda x, y: isin(x, y), smooth=False),
    ),
)


@exact
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each of `elements` is among `test_elements` (or, inverted, is not).

    Args:
        assume_unique: changes nothing but the speed, and here not even that.

    Example:
        >>> lg.isin(lg.tensor([1, 2, 3]), lg.tensor([2, 5]))
        tensor([False,  True, False])
    """
    if not isinstance(elements, Handle) and not isinstance(test_elements, Handle):
        raise TypeError("isin: got two numbers; expected at least one tensor")
    if not isinstance(test_elements, Handle):
        found = eq(elements, test_elements)
        return logical_not(found) if invert else found
    others = node_of(test_elements).meta
    if not isinstance(elements, Handle):
        elements = filled((), elements, others.dtype)
    meta = node_of(elements).meta
    for dtype in (meta.dtype, others.dtype):
        if dtype is dtypes.bool_ or dtype.is_complex:
            raise RuntimeError(f"isin: unsupported input type {dtype.name}")
    if others.numel <= COMPARE_ALL:
        shape: Shape = (*meta.shape, 1)
        flat = reshape_to(test_elements, (others.numel,))
        found = any_of(eq(reshape_to(elements, shape), flat), -1)
    else:
        common = dtypes.promote_types(meta.dtype, others.dtype)
        found = record(ISIN, (cast(elements, common), cast(test_elements, common)))
    return logical_not(found) if invert else found
