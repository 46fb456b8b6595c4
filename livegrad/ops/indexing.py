"""Indexing: `x[key]` and `x[key] = value` for every kind of key PyTorch has, and related functions.

basic     ints, slices, None, Ellipsis        one INDEX node: a view
advanced  tensors and lists of indices         dims merged, then one index_select / index_put
masks     bool tensors                         their nonzero positions, read at once
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.record import Handle, node_of, rebind, record, view
from livegrad.ops.elementwise import cast, clone, where as choose
from livegrad.ops.gathering import (
    INDEX_ADD,
    INDEX_PUT,
    INDEX_SELECT,
    LINEAR_INDEX,
    gather as gather,
)
from livegrad.ops.generate import counting, filled
from livegrad.ops.movement import (
    EXPAND,
    INDEX,
    _reshape_to,
    expand,
    permute,
    reshape,
)
from livegrad.ops.slicing import _items_at

Tensor = Any
Array = np.ndarray[Any, Any]

_ALL = ("all",)
_INT = ("int",)
_NEW = ("new",)
_SLICES: dict[int, tuple[str, int]] = {}


class Parsed(NamedTuple):
    """A key split in two: what one INDEX node does, then index tensors at dims of its result."""

    items: tuple[tuple[Any, ...], ...]
    args: tuple[int, ...]
    shape: Shape
    advanced: list[tuple[int, Tensor]]


# -------------------------------------------------------------------------------- parsing keys


def _parse(shape: Shape, key: Any) -> Parsed:
    parts = key if type(key) is tuple else (key,)
    items: list[tuple[Any, ...]] = []
    args: list[int] = []
    out: list[int] = []
    advanced: list[tuple[int, Tensor]] = []
    taken = 0
    used = sum([_dims_used(part) for part in parts])
    if used > len(shape):
        raise _too_many(shape)
    for part in parts:
        kind = type(part)
        if kind is slice:
            item, start, length = _parse_slice(part, shape[taken])
            items.append(item)
            if start is not None:
                args.append(start)
            out.append(length)
            taken += 1
        elif kind is int:
            items.append(_INT)
            args.append(_checked(part, shape[taken], taken))
            taken += 1
        elif part is None:
            items.append(_NEW)
            out.append(1)
        elif part is Ellipsis:
            rest = len(shape) - used
            items.extend([_ALL] * rest)
            out.extend(shape[taken : taken + rest])
            taken += rest
        elif kind is bool:
            items.append(_NEW)
            advanced.append((len(out), counting(int(part))))
            out.append(1)
        else:
            tensors = _index_tensors(part, shape, taken)
            if tensors is None:
                items.append(_INT)
                args.append(_checked(int(part), shape[taken], taken))
                taken += 1
                continue
            for index in tensors:
                items.append(_ALL)
                advanced.append((len(out), index))
                out.append(shape[taken])
                taken += 1
    items.extend([_ALL] * (len(shape) - taken))
    out.extend(shape[taken:])
    return Parsed(tuple(items), tuple(args), tuple(out), advanced)


def _too_many(shape: Shape) -> IndexError:
    if not shape:
        return IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a "
            "number"
        )
    return IndexError(f"too many indices for tensor of dimension {len(shape)}")


def _dims_used(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, Handle):
        meta = node_of(part).meta
        return meta.ndim if _is_mask(meta.dtype) else 1
    if isinstance(part, np.ndarray) and part.dtype == bool:
        return part.ndim
    if isinstance(part, list) and part:
        first: Any = part
        depth = 0
        while isinstance(first, list) and first:
            first, depth = first[0], depth + 1
        return depth if isinstance(first, bool) else 1
    return 1


def _is_mask(dtype: DType) -> bool:
    return dtype is dtypes.bool_ or dtype is dtypes.uint8


def _checked(index: int, size: int, dim: int) -> int:
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    return index + size if index < 0 else index


def _parse_slice(part: slice, size: int) -> tuple[tuple[Any, ...], int | None, int]:
    """The item of a slice, its start unless the whole dim is kept, and its length."""
    if part.start is None and part.stop is None and part.step in (None, 1):
        return _ALL, None, size
    step = 1 if part.step is None else part.step.__index__()
    if step <= 0:
        raise ValueError(f"step must be greater than zero; got {step}. Use flip to reverse a dim")
    start, stop, _ = part.indices(size)
    item = _SLICES.get(step)
    if item is None:
        item = _SLICES[step] = ("slice", step)
    return item, start, max(-(-(stop - start) // step), 0)


def _index_tensors(part: Any, shape: Shape, dim: int) -> list[Tensor] | None:
    """The index tensors (one per dim) that a part stands for; None for an int in disguise."""
    if isinstance(part, Handle):
        meta = node_of(part).meta
        if not _is_mask(meta.dtype):
            return [part]
        return _mask_positions(part, shape, dim)
    if isinstance(part, np.ndarray | list | range):
        array = np.asarray(part)
        if array.dtype == object or any(isinstance(x, Handle) for x in part):
            return _index_tensors(_as_tensor(part), shape, dim)
        if array.dtype == bool:
            return _mask_positions(_as_tensor(array), shape, dim)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return [_as_tensor(_checked_array(array, shape[dim], dim))]
    if hasattr(part, "__index__"):
        return None
    error = TypeError if isinstance(part, str) else IndexError
    raise error(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {type(part).__name__})"
    )


def _checked_array(array: Array, size: int, dim: int) -> Array:
    if array.size:
        low, high = int(array.min()), int(array.max())
        _checked(low, size, dim)
        _checked(high, size, dim)
    return np.where(array < 0, array + size, array).astype(np.int64)


def _as_tensor(data: Any) -> Tensor:
    from livegrad.creation import as_tensor

    return as_tensor(data)


def _mask_positions(mask: Tensor, shape: Shape, dim: int) -> list[Tensor]:
    """One index tensor per dim of a mask: where it is true. Reads the mask."""
    wanted = shape[dim : dim + mask.ndim]
    for d, (size, have) in enumerate(zip(wanted, mask.shape, strict=True)):
        if size != have:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape "
                f"of the indexed tensor {list(shape)} at index {dim + d}"
            )
    if not mask.ndim:
        raise AssertionError("a 0-d mask is parsed as a bool")
    return [_as_tensor(x) for x in np.nonzero(mask._values("indexing by a mask"))]


def _plain_key(key: Any) -> Any:
    """The key with 0-d masks as bools."""
    parts = key if type(key) is tuple else (key,)
    if not any(isinstance(p, Handle) and not node_of(p).meta.ndim for p in parts):
        return key
    return tuple([_bool_of(p) for p in parts])


def _bool_of(part: Any) -> Any:
    if isinstance(part, Handle):
        meta = node_of(part).meta
        if not meta.ndim and meta.dtype is dtypes.bool_:
            return bool(part)
    return part


# ---------------------------------------------------------------------------- reading, writing


def getitem(self: Tensor, key: Any) -> Tensor:
    """`x[key]`: a view for ints and slices, a copy for index tensors and masks."""
    shape = node_of(self).meta.shape
    if type(key) is int and shape and -shape[0] <= key < shape[0]:  # the commonest, on a short way
        return view(INDEX, self, (_items_at(len(shape), 0, _INT),), (key % shape[0],), shape[1:])
    x, parsed = _basic(self, shape, key)
    if not parsed.advanced:
        return x
    x, dim, index, _ = _merged(x, parsed.advanced)
    return record(INDEX_SELECT, (x, index), (dim,))


def _basic(x: Tensor, shape: Shape, key: Any) -> tuple[Tensor, Parsed]:
    """The view that the basic part of a key gives, and the whole key parsed."""
    kind = type(key)
    if kind is not int and kind is not slice:
        key = _plain_key(key)
    parsed = _parse(shape, key)
    if parsed.advanced:
        if parsed.args or len(parsed.shape) != len(shape):
            x = view(INDEX, x, (parsed.items,), parsed.args, parsed.shape)
        x, rest = _scalars_first(x, parsed.advanced)
        return x, parsed._replace(advanced=rest)
    return view(INDEX, x, (parsed.items,), parsed.args, parsed.shape), parsed


def _scalars_first(
    x: Tensor, advanced: list[tuple[int, Tensor]]
) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """With several index tensors, 0-d ones select a slice first, as ints do."""
    scalars = [dim for dim, index in advanced if not node_of(index).meta.ndim]
    if not scalars or len(advanced) == 1:
        return x, advanced
    if len(scalars) == len(advanced):
        return x, advanced
    rest = []
    for dim, index in advanced:
        place = dim - sum([d < dim for d in scalars])  # counting the dims that are gone by now
        if dim in scalars:
            x = getitem(x, (slice(None),) * place + (int(index),))
        else:
            rest.append((place, index))
    return x, rest


def _merged(
    x: Tensor, advanced: list[tuple[int, Tensor]]
) -> tuple[Tensor, int, Tensor, tuple[int, ...]]:
    """A view of `x` whose indexed dims are one, that dim, and the index along it.

    Indexed dims that are not neighbours come to the front, as in NumPy and PyTorch.
    """
    shape = node_of(x).meta.shape
    dims = [dim for dim, _ in advanced]
    first = dims[0]
    if dims != list(range(first, first + len(dims))):
        x = permute(x, dims + [d for d in range(len(shape)) if d not in dims])
        shape, first = node_of(x).meta.shape, 0
    sizes = shape[first : first + len(dims)]
    if len(dims) > 1:
        x = reshape(x, shape[:first] + (prod(sizes),) + shape[first + len(dims) :])
    index = record(LINEAR_INDEX, [index for _, index in advanced], (), sizes)
    return x, first, index, sizes


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value`, broadcast and cast."""
    meta = node_of(self).meta
    if _is_whole_mask(key, meta) and _is_scalar(value):
        mask = _as_tensor(key)
        # Unlike in broadcasting, the mask covers the leading dims.
        wide = tuple(mask.shape) + (1,) * (meta.ndim - mask.ndim)
        number = value.item() if isinstance(value, np.generic) else value
        rebind(self, cast(choose(_reshape_to(mask, wide), number, self), meta.dtype))
        return
    x, parsed = _basic(self, meta.shape, key)
    if not parsed.advanced:
        rebind(x, _spread(value, parsed.shape, meta.dtype))
        return
    x, dim, index, _ = _merged(x, parsed.advanced)
    shape = node_of(x).meta.shape
    wanted = shape[:dim] + node_of(index).meta.shape + shape[dim + 1 :]
    rebind(x, record(INDEX_PUT, (x, index, _spread(value, wanted, meta.dtype)), (dim,)))


def _is_whole_mask(key: Any, meta: Meta) -> bool:
    if not isinstance(key, Handle | np.ndarray):
        return False
    mask = isinstance(key, np.ndarray) and key.dtype == bool
    if isinstance(key, Handle):
        mask = node_of(key).meta.dtype is dtypes.bool_
    shape = tuple(key.shape)  # type: ignore[union-attr]
    return mask and bool(shape) and shape == meta.shape[: len(shape)]


def _is_scalar(value: Any) -> bool:
    if isinstance(value, bool | int | float | np.generic):
        return True
    return isinstance(value, Handle) and not node_of(value).meta.ndim


def _spread(value: Any, shape: Shape, dtype: DType) -> Tensor:
    """A value to be written, as a tensor of the written part's shape and dtype."""
    if isinstance(value, bool | int | float):
        return filled(shape, value, dtype)
    value = cast(_as_tensor(value), dtype)
    have = node_of(value).meta.shape
    if have == shape:
        return clone(value)
    extra = len(have) - len(shape)
    if extra > 0 and set(have[:extra]) == {1}:
        have = have[extra:]
        value = _reshape_to(value, have)
    lead = len(shape) - len(have)
    fits = lead >= 0 and all(n in (1, w) for n, w in zip(have, shape[lead:], strict=True))
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing "
            f"result of shape {list(shape)}"
        )
    return record(EXPAND, (value,), (), (), shape)


def index_put(
    input: Tensor, indices: tuple[Tensor, ...], values: Tensor, accumulate: bool = False
) -> Tensor:
    """`input` with `values` written (or added) at the places the index tensors name."""
    out = clone(input)
    meta = node_of(out).meta
    x, parsed = _basic(out, meta.shape, tuple(indices))
    x, dim, index, _ = _merged(x, parsed.advanced)
    shape = node_of(x).meta.shape
    wanted = shape[:dim] + node_of(index).meta.shape + shape[dim + 1 :]
    op = INDEX_ADD if accumulate else INDEX_PUT
    rebind(x, record(op, (x, index, _spread(values, wanted, meta.dtype)), (dim,)))
    return out


# ---------------------------------------------------------------------------------- with masks


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`input` with one number where `mask` holds."""
    dtype = node_of(input).meta.dtype
    _check_mask("masked_fill", mask)
    if isinstance(value, Handle):
        if node_of(value).meta.ndim:
            raise RuntimeError(
                "masked_fill: only supports a 0-dimensional value tensor, but got tensor with "
                f"{node_of(value).meta.ndim} dimension(s)"
            )
        value = cast(value, dtype)
    elif dtype.category != dtypes.FLOAT:
        if isinstance(value, float) and not value.is_integer():
            raise RuntimeError(
                f"masked_fill: value {value} cannot be converted to type {dtype.name} without "
                "overflow"
            )
        value = bool(value) if dtype.category == dtypes.BOOL else int(value)
    return choose(mask, value, input)


def _check_mask(name: str, mask: Tensor) -> None:
    dtype = node_of(mask).meta.dtype
    if dtype is not dtypes.bool_:
        raise RuntimeError(
            f"{name}: expected mask to be a boolean tensor; got {dtype.name}. Compare first, such "
            "as x > 0"
        )


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of `input` where `mask` holds, in one dim. Reads the mask."""
    from livegrad.graph.record import broadcast_shapes

    _check_mask("masked_select", mask)
    shape = broadcast_shapes("masked_select", [node_of(input).meta.shape, node_of(mask).meta.shape])
    if not shape:
        return getitem(_reshape_to(input, (1,)), _reshape_to(mask, (1,)))
    return getitem(expand(input, shape), expand(mask, shape))


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with the elements where `mask` holds taken from `source`, in order."""
    _check_mask("masked_scatter", mask)
    out = clone(input)
    places = expand(mask, node_of(input).meta.shape)
    count = int(places._values("masked_scatter()").sum())
    setitem(out, places, _reshape_to(source, (node_of(source).meta.numel,))[:count])
    return out


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of all elements that are not 0, one row each. Reads the values."""
    values = input._values("nonzero()")
    if as_tuple:
        found = np.nonzero(np.atleast_1d(values))
        return tuple([_as_tensor(x) for x in found])
    places = np.argwhere(values) if values.ndim else np.zeros((int(values != 0), 0), np.int64)
    return _as_tensor(places)


def argwhere(input: Tensor) -> Tensor:
    """The indices of all elements that are not 0, one row each."""
    return nonzero(input)


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """Elementwise `input` where `condition` holds, else `other`; alone, where it does hold."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return choose(condition, input, other)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dim with 1 at the class each element names, 0 elsewhere (int64)."""
    from livegrad.ops.comparison import eq

    meta = node_of(tensor).meta
    if meta.dtype is not dtypes.int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type int64; got {meta.dtype.name}. "
            "Convert it with .long()"
        )
    if num_classes == -1:
        if not meta.numel:
            raise RuntimeError("one_hot: can not infer total number of classes from empty tensor.")
        num_classes = int(tensor._values("one_hot()").max()) + 1
    wide = _reshape_to(tensor, (*meta.shape, 1))
    return cast(eq(wide, counting(num_classes)), dtypes.int64)
