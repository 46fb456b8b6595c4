"""Masking: elements chosen by a tensor of bools, and where a tensor is not 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import elementwise, record
from livegrad.graph.views import row_major
from livegrad.ops.bookkeeping.in_place import laid_out_as
from livegrad.ops.elementwise.arithmetic import cast, clone, sub, where as choose
from livegrad.ops.elementwise.comparison import clamp, eq, logical_not
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.picking.checking import known_outside, within
from livegrad.ops.picking.gathering import INDEX_SELECT, check_index
from livegrad.ops.picking.index_writing import spread_number
from livegrad.ops.picking.indexing import getitem, nonzero_places, put_at
from livegrad.ops.reductions.counting import values_of
from livegrad.ops.reductions.scan import cumsum
from livegrad.ops.shaping.movement import EXPAND, expand, reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.numbers import NUMBERS, number_for
from livegrad.ops.support.out import exact, refusing_expanded

if TYPE_CHECKING:
    from livegrad.tensor import Tensor
    from livegrad.typing import Operand

Array = np.ndarray[Any, Any]


def _check_mask(name: str, mask: Tensor) -> None:
    dtype = node_of(mask).meta.dtype
    if dtype is not dtypes.bool_:
        raise RuntimeError(
            f"{name}: expected mask to be a boolean tensor; got {dtype.name}. Compare first, such "
            "as x > 0"
        )


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`input` with one number (or 0-d tensor) where `mask` holds.

    Args:
        mask: bools that broadcast with the tensor.
        value: what is written.

    Example:
        >>> x = lg.tensor([1, 2, 3])
        >>> x.masked_fill(x > 1, 0)
        tensor([1, 0, 0])
    """
    dtype = node_of(input).meta.dtype
    _check_mask("masked_fill", mask)
    if isinstance(value, Handle):
        return row_major(choose(mask, spread_number("masked_fill", value, (), dtype), input))
    return row_major(choose(mask, number_for("masked_fill", value, dtype), input))


@refusing_expanded
@exact
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of `input` where `mask` holds, in one dim. Reads the mask.

    Args:
        input: a tensor.
        mask: bools that broadcast with it.

    Example:
        >>> x = lg.tensor([1, -2, 3])
        >>> lg.masked_select(x, x > 0)
        tensor([1, 3])
    """
    _check_mask("masked_select", mask)
    shape = broadcast_shapes("masked_select", [node_of(input).meta.shape, node_of(mask).meta.shape])
    if node_of(input).meta.shape == node_of(mask).meta.shape and shape:
        return getitem(input, mask)
    if not shape:
        return getitem(reshape_to(input, (1,)), reshape_to(mask, (1,)))
    return getitem(expand(input, shape), expand(mask, shape))


# ----------------------------------------------------------------------------- masked_scatter


CHECK_SOURCE = within(
    "check_source",
    -1,  # the place before the first element that is taken
    "masked_scatter: number of elements of source < number of ones in mask; got a source of "
    "{count} elements",
)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with the elements where `mask` holds taken from `source`, in order."""
    _check_mask("masked_scatter", mask)
    meta, given = node_of(input).meta, node_of(source).meta
    if given.dtype is not meta.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes; got "
            f"{meta.dtype.name} and {given.dtype.name}"
        )
    shape = broadcast_shapes("masked_scatter", [meta.shape, node_of(mask).meta.shape])
    size = meta_of(shape, dtypes.bool_).numel
    if not size:
        return record(EXPAND, (input,), (), (), shape)
    flat = reshape_to(record(EXPAND, (mask,), (), (), shape), (size,))
    # The n-th True takes the n-th element; what False takes is not used.
    place = sub(cumsum(cast(flat, dtypes.int64), 0), 1)
    place = elementwise(CHECK_SOURCE, (place, given.numel))
    if not given.numel:
        source = filled((1,), 0, given.dtype)
    values = reshape_to(source, (max(given.numel, 1),))
    taken = record(INDEX_SELECT, (values, place), (0,))
    return row_major(choose(mask, reshape_to(taken, shape), input))


# ------------------------------------------------------------------------------- where not 0


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@refusing_expanded
@exact
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of all elements that are not 0, one row each. Reads the values.

    Args:
        input: a tensor.
        as_tuple: one vector for each dim, to index with.

    Example:
        >>> lg.nonzero(lg.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    node_of(input)  # or it is no tensor
    values = values_of(input, "nonzero()")
    if as_tuple:
        return tuple([from_array(x) for x in nonzero_places(np.atleast_1d(values))])
    places = _rows_of_places(values)
    return laid_out_as(from_array(places), (1, len(places)))


def _rows_of_places(values: Array) -> Array:
    """`np.argwhere`, in less time."""
    if not values.ndim:
        return np.zeros((int(values != 0), 0), np.int64)
    return np.stack(nonzero_places(values), 1)


def argwhere(input: Tensor) -> Tensor:
    """The indices of all elements that are not 0, one row each."""
    return nonzero(input)


def _nonzero_static_ref(n: Any, x: Array) -> Array:
    out = np.full(n.meta.shape, n.args[0], np.int64)
    places = _rows_of_places(x)[: len(out)]
    out[: len(places)] = places
    return out


NONZERO_STATIC = Op(
    "nonzero_static",
    "host",
    # The first rows of `nonzero`, as many as the shape says: args (what fills the others,).
    infer=lambda metas, attrs, shape: meta_of(shape, dtypes.int64),
    ref=_nonzero_static_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.integers(3, 4, high=2),), lambda x: nonzero_static(x, size=5), smooth=False
        ),
        lambda: s.Sample(
            (s.integers(3, high=2),),
            lambda x: nonzero_static(x, size=4, fill_value=7),
            smooth=False,
        ),
    ),
)


@exact
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """`nonzero` cut or filled up to `size` rows, so that the shape does not depend on values."""
    size, fill_value = as_index(size), as_index(fill_value)
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer; got {size}")
    return record(NONZERO_STATIC, (input,), (), (fill_value,), (size, node_of(input).meta.ndim))


def _check_choice(number: Any, dtype: dtypes.DType) -> None:
    """RuntimeError for a number that would not be what it is beside tensors of `dtype`."""
    if type(number) is float:
        number_for("where", number, dtypes.get_default_dtype())
    elif type(number) is int and dtype.category == dtypes.INT:
        number_for("where", number, dtype)


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Operand, other: Operand) -> Tensor: ...
@exact
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """Elementwise `input` where `condition` holds, else `other`; alone, where it does hold.

    Args:
        condition: bools.
        input: taken where it holds; a tensor or a number.
        other: taken elsewhere; a tensor or a number.

    Example:
        >>> x = lg.tensor([-1.0, 2.0])
        >>> lg.where(x > 0, x, 0.0)
        tensor([0., 2.])
    """
    if not isinstance(condition, Handle):
        raise TypeError(
            f"where(): argument 'condition' must be Tensor, not {type(condition).__name__}"
        )
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if node_of(condition).meta.dtype is dtypes.uint8:
        condition = cast(condition, dtypes.bool_)
    if not isinstance(input, Handle) and not isinstance(other, Handle):
        # Two numbers: the dtype is theirs, as a tensor of no dims has it.
        for x in (input, other):
            if not isinstance(x, NUMBERS):
                raise TypeError(f"where(): expected tensors or numbers; got {type(x).__name__}")
        dtype = dtypes.promote_types(*[dtypes.scalar_dtype(type(x)) for x in (input, other)])
        input = filled((), input, dtype)
    for number, tensor in ((input, other), (other, input)):
        if isinstance(tensor, Handle):
            _check_choice(number, node_of(tensor).meta.dtype)
    return choose(condition, input, other)


_BAD_CLASS = (
    "one_hot: class values must be non-negative and smaller than num_classes; got {value} for "
    "{count} classes"
)
CHECK_CLASS = within("check_class", 0, _BAD_CLASS)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dim with 1 at the class each element names, 0 elsewhere (int64).

    Args:
        tensor: class numbers.
        num_classes: -1: one more than the greatest.

    Example:
        >>> F.one_hot(lg.tensor([0, 2]))
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    meta = node_of(tensor).meta
    if meta.dtype is not dtypes.int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type int64; got {meta.dtype.name}. "
            "Convert it with .long()"
        )
    num_classes = as_index(num_classes)
    if num_classes == -1:
        if not meta.numel:
            raise RuntimeError("one_hot: can not infer total number of classes from empty tensor.")
        values = tensor._values("one_hot()")
        if values.min() < 0:
            raise RuntimeError("one_hot: class values must be non-negative")
        num_classes = int(values.max()) + 1
    elif meta.numel:
        if num_classes < 1:
            raise RuntimeError(f"one_hot: num_classes should be positive; got {num_classes}")
        meta_of((*meta.shape, num_classes), dtypes.int64)  # raises if there cannot be so many
        wrong = known_outside(tensor, 0, num_classes, 0)
        if wrong is not None:
            raise RuntimeError(_BAD_CLASS.format(value=wrong, count=num_classes))
        tensor = elementwise(CHECK_CLASS, (tensor, num_classes))
    wide = reshape_to(tensor, (*meta.shape, 1))
    return row_major(cast(eq(wide, counting(num_classes)), dtypes.int64))


# ------------------------------------------------------------------------ indices and a mask


def _unsafe_masked_index(input: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    """`input[indices]` where `mask` holds, `fill` elsewhere, whatever the indices there are."""
    key = _clamped(input, mask, indices)
    if not node_of(input).meta.numel:
        shape = broadcast_shapes("masked_index", [node_of(mask).meta.shape])
        return filled(shape, fill, node_of(input).meta.dtype)
    return masked_fill(getitem(input, key), logical_not(mask), fill)


def _unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: Any, values: Tensor
) -> Tensor:
    """`input` with `values` added at the indices where `mask` holds."""
    key = _clamped(input, mask, indices)
    if not node_of(input).meta.numel:
        return clone(input)
    return put_at(input, key, masked_fill(values, logical_not(mask), 0), accumulate=True)


def _clamped(x: Tensor, mask: Tensor, indices: Any) -> tuple[Any, ...]:
    """A key of these index tensors, with those that are out of range inside it."""
    _check_mask("masked_index", mask)
    key: list[Any] = []
    for index, size in zip(indices, node_of(x).meta.shape, strict=False):
        if index is None:
            key.append(slice(None))
            continue
        check_index("masked_index", node_of(index).meta)
        key.append(clamp(index, -size, max(size - 1, -size)))
    return tuple(key)
