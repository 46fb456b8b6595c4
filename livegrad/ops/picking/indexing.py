"""Indexing: `x[key]` and `x[key] = value` for every kind of key PyTorch has, and related functions.

basic     ints, slices, None, Ellipsis        one INDEX node: a view
advanced  tensors and lists of indices         dims merged, then one index_select / index_put
masks     bool and uint8 tensors               their nonzero positions, read at once
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.device import CPU
from livegrad.dtypes import DType
from livegrad.graph.blame import as_items
from livegrad.graph.geometry import lies_where
from livegrad.graph.handle import Handle, node_of, shares_with
from livegrad.graph.infer import TYPE_NAMES
from livegrad.graph.layout import (
    Strides,
    contiguous_strides,
    elementwise_strides,
    expanded_strides,
    may_overlap,
    viewed_strides,
)
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.op import Op
from livegrad.graph.overlap import AT_ALL, check_copied, check_overlap
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.graph.views import view
from livegrad.graph.writes import (
    check_writable,
    is_whole_without_graph,
    prepare_write,
    rebind,
)
from livegrad.ops.bookkeeping.in_place import laid_out_as, overwriting
from livegrad.ops.elementwise.arithmetic import add, cast, clone, where as choose
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.picking.gathering import INDEX_SELECT, gather as gather, linear_index
from livegrad.ops.picking.index_writing import INDEX_ADD, INDEX_PUT
from livegrad.ops.picking.plain_keys import ALL, INT, Parsed, parse_plainly
from livegrad.ops.picking.plain_parts import (
    is_all,
    masked_plainly,
    plain_part,
    rows_plainly,
    set_plainly,
    write_part,
    wrote_as,
)
from livegrad.ops.shaping.movement import (
    EXPAND,
    INDEX,
    PERMUTE,
    expand,
    inverse_order,
    reshape_to,
    unsqueeze,
)
from livegrad.ops.shaping.reshaping import view as shaped
from livegrad.ops.shaping.slicing import FLIP
from livegrad.ops.shaping.strided import write_changed
from livegrad.ops.support.numbers import NUMBERS, TENSORS, cannot_convert, number_for

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]

_NEW = ("new",)
_SLICES: dict[int, tuple[str, int]] = {}


# -------------------------------------------------------------------------------- parsing keys


def _parts(key: Any) -> tuple[Any, ...]:
    """The parts of a key. A list that holds more than numbers stands for a tuple, as in PyTorch."""
    if type(key) is tuple:
        return key
    if isinstance(key, list | tuple) and len(key) < 32 and any(_is_part(x) for x in key):
        return tuple(key)
    return (key,)


def _is_part(x: Any) -> bool:
    return x is None or x is Ellipsis or isinstance(x, slice | list | tuple | Handle | np.ndarray)


def _parse(shape: Shape, parts: tuple[Any, ...]) -> Parsed:
    items: list[tuple[Any, ...]] = []
    args: list[int] = []
    out: list[int] = []
    advanced: list[tuple[int, Tensor]] = []
    turned: tuple[int, ...] = ()
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
            if length > 1 and part.step is not None and part.step.__index__() < 0:
                turned += (len(out),)
            out.append(length)
            taken += 1
        elif kind is int:
            items.append(INT)
            args.append(_checked(part, shape[taken], taken))
            taken += 1
        elif part is None:
            items.append(_NEW)
            out.append(1)
        elif part is Ellipsis:
            rest, used = len(shape) - used, len(shape)  # a second one stands for nothing
            items.extend([ALL] * rest)
            out.extend(shape[taken : taken + rest])
            taken += rest
        elif kind is bool:
            items.append(_NEW)
            advanced.append((len(out), counting(int(part))))
            out.append(1)
        else:
            tensors = _index_tensors(part, shape, taken)
            if tensors is None:
                items.append(INT)
                args.append(_checked(int(part), shape[taken], taken))
                taken += 1
                continue
            for index in tensors:
                items.append(ALL)
                advanced.append((len(out), index))
                out.append(shape[taken])
                taken += 1
    items.extend([ALL] * (len(shape) - taken))
    out.extend(shape[taken:])
    return Parsed(tuple(items), tuple(args), tuple(out), advanced, turned)


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
    if isinstance(part, np.ndarray) and part.dtype in (bool, np.uint8):
        return part.ndim
    first, depth = part, 0
    while isinstance(first, list | tuple) and first:
        first, depth = first[0], depth + 1
    return depth if isinstance(first, bool) else 1


def _is_mask(dtype: DType) -> bool:
    return dtype is dtypes.bool_ or dtype is dtypes.uint8


def _checked(index: int, size: int, dim: int) -> int:
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    return index + size if index < 0 else index


def _parse_slice(part: slice, size: int) -> tuple[tuple[Any, ...], int | None, int]:
    """The item of a slice, its start unless the whole dim is kept, and its length.

    Of a negative step it is the same part in ascending order. PyTorch refuses those; the array
    API standard has them.
    """
    if part.start is None and part.stop is None and part.step in (None, 1):
        return ALL, None, size
    step = 1 if part.step is None else part.step.__index__()
    if step == 0:
        raise ValueError("slice step cannot be zero; got 0; expected a positive or negative number")
    start, stop, _ = part.indices(size)
    if step < 0:
        count = max(-(-(stop - start) // step), 0)
        start, stop, step = start + (count - 1) * step, start + 1, -step
        if not count:
            start = stop = 0
    item = _SLICES.get(step)
    if item is None:
        item = _SLICES[step] = ("slice", step)
    return item, start, max(-(-(stop - start) // step), 0)


def _index_tensors(part: Any, shape: Shape, dim: int) -> list[Tensor] | None:
    """The index tensors (one per dim) that a part stands for; None for an int in disguise."""
    if isinstance(part, Handle):
        meta = node_of(part).meta
        if not _is_mask(meta.dtype):
            # One index is read, and gives a view. What a transform traces cannot be read.
            is_one = not meta.ndim and meta.dtype.category == dtypes.INT
            return None if is_one and LOCAL.state.flusher is None else [part]
        return _mask_positions(part, shape, dim)
    if isinstance(part, np.ndarray | list | tuple | range):
        if isinstance(part, list | tuple) and any(isinstance(x, Handle) for x in part):
            return _index_tensors(_as_tensor(list(part)), shape, dim)
        array = np.asarray(part)
        if array.dtype == bool or (isinstance(part, np.ndarray) and array.dtype == np.uint8):
            return _mask_positions(_as_tensor(array), shape, dim)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if not array.ndim:
            return None
        return [_as_tensor(_checked_array(array, shape[dim], dim))]
    if hasattr(part, "__index__"):
        return None
    error = TypeError if isinstance(part, str | bytes) else IndexError
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
    from livegrad.creation import tensor

    return data if isinstance(data, Handle) else tensor(data, device="cpu")


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
    return [from_array(x) for x in nonzero_places(mask._values("indexing by a mask"))]


def nonzero_places(values: Array) -> tuple[Array, ...]:
    """`np.nonzero`, in a third of the time where dims are several: by places in memory."""
    if values.ndim < 2:
        return np.nonzero(values)
    return np.unravel_index(np.flatnonzero(values), values.shape)


def _with_bools(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The parts with 0-d masks as bools, which reads them."""
    if not any(isinstance(p, TENSORS) and not p.ndim for p in parts):
        return parts
    return tuple([_bool_of(p) for p in parts])


def _bool_of(part: Any) -> Any:
    if isinstance(part, Handle):
        meta = node_of(part).meta
        return bool(part) if not meta.ndim and _is_mask(meta.dtype) else part
    if isinstance(part, np.ndarray) and not part.ndim and part.dtype in (bool, np.uint8):
        return bool(part)
    return part


# ---------------------------------------------------------------------------- reading, writing


def getitem(self: Tensor, key: Any) -> Tensor:
    """`x[key]`: a view for ints and slices, a copy for index tensors and masks."""
    plain: Tensor | None = plain_part(self, key)
    if plain is None:
        plain = rows_plainly(self, key)
    if plain is None:
        plain = masked_plainly(self, key)
    if plain is not None:
        return plain
    x, parsed = _basic(self, self._node.meta.shape, key)
    if not parsed.advanced:
        return x
    source = node_of(x).meta
    x, dim, index = _merged(x, parsed.advanced)
    out = record(INDEX_SELECT, (x, index), (dim,))
    dims = [d for d, _ in parsed.advanced]
    indices = [node_of(index).meta for _, index in parsed.advanced]
    shape = node_of(out).meta.shape
    # Of what is empty, PyTorch may change the order of dims that have equal strides.
    if 0 not in shape and all([meta.strides is None for meta in (source, *indices)]):
        return out
    return laid_out_as(out, _picked_strides(source, dims, indices, dim, shape))


def _picked_strides(
    source: Meta, dims: list[int], indices: list[Meta], at: int, shape: Shape
) -> Strides:
    """The strides of what index tensors, along some dims, pick out of a value.

    PyTorch walks over all of them together, each with dims of size 1 where the value's own are.
    """
    rest = [step for d, step in enumerate(source.stride()) if d not in dims]
    picked = shape[at : at + len(shape) - len(rest)]
    alone = (1,) * at + picked + (1,) * (len(rest) - at)
    read = [(shape, (*rest[:at], *(0,) * len(picked), *rest[at:]))]
    for meta in indices:
        strides = expanded_strides(meta.shape, meta.stride(), picked)
        seen = viewed_strides(picked, strides, alone) or contiguous_strides(alone)
        read.append((alone, seen))
    return elementwise_strides(shape, read)


def _basic(x: Tensor, shape: Shape, key: Any) -> tuple[Tensor, Parsed]:
    """The view that the basic part of a key gives, and the whole key parsed."""
    parsed = parse_plainly(shape, key) or _parse(shape, _with_bools(_parts(key)))
    if parsed.advanced:
        if parsed.args or len(parsed.shape) != len(shape):
            x = view(INDEX, x, (parsed.items,), parsed.args, parsed.shape)
        x, rest = _scalars_first(_turned(x, parsed), parsed.advanced)
        parsed.advanced = rest
        return x, parsed
    return _turned(view(INDEX, x, (parsed.items,), parsed.args, parsed.shape), parsed), parsed


def _turned(x: Tensor, parsed: Parsed) -> Tensor:
    if not parsed.turned:
        return x
    return view(FLIP, x, (parsed.turned,), tuple([parsed.shape[d] - 1 for d in parsed.turned]))


def _scalars_first(
    x: Tensor, advanced: list[tuple[int, Tensor]]
) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """Beside other index tensors, 0-d ones select a slice first, as ints do.

    Alone they are left to one look-up, which need not read them now.
    """
    scalars = [dim for dim, index in advanced if not node_of(index).meta.ndim]
    if not scalars or len(scalars) == len(advanced):
        return x, advanced
    rest = []
    for dim, index in advanced:
        place = dim - sum([d < dim for d in scalars])  # counting the dims that are gone by now
        if dim in scalars:
            x = getitem(x, (slice(None),) * place + (int(index),))
        else:
            rest.append((place, index))
    return x, rest


def _merged(x: Tensor, advanced: list[tuple[int, Tensor]]) -> tuple[Tensor, int, Tensor]:
    """`x` with its indexed dims as one, that dim, and the index along it.

    Indexed dims that are not neighbours come to the front, as in NumPy and PyTorch.
    """
    shape = node_of(x).meta.shape
    dims = [dim for dim, _ in advanced]
    first = dims[0]
    if not _are_neighbours(dims):
        order = tuple(dims + [d for d in range(len(shape)) if d not in dims])
        x = record(PERMUTE, (x,), (order,))
        shape, first = node_of(x).meta.shape, 0
    sizes = shape[first : first + len(dims)]
    if len(dims) > 1:
        x = reshape_to(x, shape[:first] + (prod(sizes),) + shape[first + len(dims) :])
    return x, first, linear_index([index for _, index in advanced], tuple(dims), sizes)


def _are_neighbours(dims: list[int]) -> bool:
    return dims == list(range(dims[0], dims[0] + len(dims)))


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value`, broadcast and cast."""
    if set_plainly(self, key, value) or _is_written_by_steps(self, key, value):
        return
    meta = node_of(self).meta
    if not isinstance(value, TENSORS):
        value = _number(value, meta.dtype)
    if key is False:  # names nothing
        return
    if key is True:
        key = None
    if _is_whole_mask(key, meta) and _is_scalar(value):
        mask = cast(_as_tensor(key), dtypes.bool_)
        if mask.ndim:
            check_mask(self, key)
            if isinstance(value, Handle):
                _check_is_real(value, meta.dtype)
        value = cast(value, meta.dtype) if isinstance(value, Handle) else value
        prepare_write(self)
        # Unlike in broadcasting, the mask covers the leading dims.
        wide = tuple(mask.shape) + (1,) * (meta.ndim - mask.ndim)
        write_chosen(self, cast(choose(reshape_to(mask, wide), value, self), meta.dtype))
        return
    if isinstance(value, Handle) and node_of(value).meta.dtype is not meta.dtype:
        _check_put(_parts(key), meta, value, _fills_by_item(key, value))
    if node_of(self).grad_to is not None and _lists_of_indices(_parts(key)):
        check_writable(self, expanded=True)  # before the indices are looked at
    if is_whole_without_graph(self) and _write_part(self, meta, key, value):
        return
    x, parsed = _basic(self, meta.shape, key)
    if parsed.advanced:
        _check_indices(x, parsed, value, key)
        prepare_write(x)
        write_chosen(x, _written(x, parsed.advanced, value, meta.dtype, INDEX_PUT))
    else:
        if isinstance(value, Handle):
            _check_copied(x, parsed.shape, value)
        part = _spread(value, parsed.shape, meta.dtype)
        itself = value is self or (isinstance(value, Handle) and lies_where(x, value))
        if is_all(parsed, meta.shape):  # the tensor itself, and no view of it
            x, part = self, overwriting(self, part)
        rebind(x, part, expanded=itself)


def _is_written_by_steps(x: Tensor, key: Any, value: Any) -> bool:
    """`is_written_already` of slices with a step."""
    if not isinstance(value, Handle) or not shares_with(x, value):
        return False
    parsed = _parsed_without_tensors(x._node.meta.shape, key)
    if parsed is None or parsed.turned:
        return False
    return wrote_as(x, value, (parsed.items,), parsed.args)


def _parsed_without_tensors(shape: Shape, key: Any) -> Parsed | None:
    """A key of ints and slices alone; None of any other."""
    plain = parse_plainly(shape, key)
    if plain is not None:
        return plain
    parts = key if type(key) is tuple else (key,)
    if not all([type(part) is int or type(part) is slice for part in parts]):
        return None
    return _parse(shape, parts)


def _write_part(x: Tensor, meta: Meta, key: Any, value: Any) -> bool:
    """Writes to a part of a whole tensor what has to be made to fit; whether it did."""
    if isinstance(value, Handle):
        given = value._node
        if given.grad_to is not None or given.meta.device is not CPU:
            return False
        if value is x or shares_with(x, value):
            return False
    parsed = _parsed_without_tensors(meta.shape, key)
    if parsed is None or parsed.turned or is_all(parsed, meta.shape):
        return False
    write_part(x, _spread(value, parsed.shape, meta.dtype), parsed)
    return True


def _check_indices(x: Tensor, parsed: Parsed, value: Any, key: Any) -> None:
    """RuntimeError for an index, or a value, that overlaps with what is written, as in PyTorch.

    An index without dims is read before anything is written.
    """
    if _fills_by_item(key, value):
        check_mask(x, key, parsed.advanced[0][0])
        if isinstance(value, Handle):
            _check_is_real(value, node_of(x).meta.dtype)
        return
    check_overlap(x, [p for p in _parts(key) if getattr(p, "ndim", 1)], AT_ALL)
    if isinstance(value, Handle) and (value._share is not None or value is x):
        check_overlap(x, (_without_leading_ones(value),), AT_ALL)


def _check_copied(x: Tensor, shape: Shape, value: Tensor) -> None:
    """RuntimeError for a value, broadcast to `shape`, that overlaps with what is written."""
    if value.shape == shape:
        check_copied(x, value)
    elif value.ndim and value._share is not None and x._share is not None:
        check_copied(x, expand(_without_leading_ones(value), shape))


def _check_is_real(value: Tensor, dtype: DType) -> None:
    """RuntimeError for a number with an imaginary part that a mask is to be filled with."""
    if value.dtype.is_complex and not dtype.is_complex and dtype is not dtypes.bool_:
        number = value.item()
        if number.imag:
            raise cannot_convert("masked_fill_", number, dtype)


def _without_leading_ones(value: Tensor) -> Tensor:
    """The view of a value that PyTorch broadcasts."""
    shape = tuple(value.shape)
    kept = next((d for d, size in enumerate(shape) if size != 1), len(shape))
    return shaped(value, shape[kept:]) if kept else value


def _lists_of_indices(parts: tuple[Any, ...]) -> list[Any]:
    return [p for p in parts if _is_list_of_indices(p)]


def fills_a_mask(parts: Any, value: Any) -> bool:
    """Whether one value is written where one mask says so: masked_fill_, in PyTorch."""
    tensors = _lists_of_indices(_parts(parts))
    if len(tensors) != 1 or not _is_mask_part(tensors[0]):
        return False
    return node_of(value).meta.numel == 1 if isinstance(value, Handle) else _is_scalar(value)


def check_mask(x: Tensor, parts: Any, first: int = 0) -> None:
    """RuntimeError for a mask, of dims from `first` on, that lies partly where it is written."""
    (mask,) = _lists_of_indices(_parts(parts))
    if isinstance(mask, Handle) and shares_with(x, mask):
        for _ in range(first + len(mask.shape), len(x.shape)):
            mask = unsqueeze(mask, -1)
        check_overlap(x, (mask,))


def _fills_by_item(key: Any, value: Any) -> bool:
    """Whether `x[key] = value` fills a mask: not one without dims, unlike in index_put_."""
    parts = _parts(key)
    if not fills_a_mask(parts, value):
        return False
    (mask,) = _lists_of_indices(parts)
    return not isinstance(mask, bool) and getattr(mask, "ndim", 1) > 0


def _check_put(parts: tuple[Any, ...], meta: Meta, value: Tensor, fills: bool) -> None:
    """RuntimeError for values of another dtype, unless they are one number for a mask alone.

    A write without index tensors is a copy, which converts.
    """
    if fills or not _lists_of_indices(parts):
        return
    raise RuntimeError(
        "Index put requires the source and destination dtypes match, got "
        f"{TYPE_NAMES[meta.dtype.name]} for the destination and "
        f"{TYPE_NAMES[node_of(value).meta.dtype.name]} for the source."
    )


def _is_list_of_indices(part: Any) -> bool:
    if isinstance(part, Handle):
        meta = node_of(part).meta
        return meta.ndim > 0 or _is_mask(meta.dtype)
    return isinstance(part, list | tuple | range | bool) or (
        isinstance(part, np.ndarray) and part.ndim > 0
    )


def _is_mask_part(part: Any) -> bool:
    if isinstance(part, Handle):
        return _is_mask(node_of(part).meta.dtype)
    return np.asarray(part).dtype in (bool, np.uint8)


def write_chosen(x: Tensor, value: Tensor) -> None:
    """Writes elements that an index or a mask has chosen, of which several may lie in one place."""
    meta = node_of(x).meta
    if meta.strides is not None and may_overlap(meta.shape, meta.strides):
        write_changed(x, value)
    else:
        rebind(x, value, expanded=True)


def _number(value: Any, dtype: DType) -> Any:
    """A number to be written to a tensor of `dtype`."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, NUMBERS):
        raise TypeError(f"can't assign a {type(value).__name__} to a {dtype.name} tensor")
    return number_for("setitem", value, dtype)


def _written(
    x: Tensor, advanced: list[tuple[int, Tensor]], value: Any, dtype: DType, op: Op
) -> Tensor:
    """`x` with a value written (or added) where index tensors say, to take its place."""
    whole = node_of(x).meta.shape
    x, dim, index = _merged(x, advanced)
    shape = node_of(x).meta.shape
    wanted = shape[:dim] + node_of(index).meta.shape + shape[dim + 1 :]
    out = record(op, (x, index, _spread(value, wanted, dtype)), (dim,))
    return _unmerged(out, advanced, whole)


def _unmerged(x: Tensor, advanced: list[tuple[int, Tensor]], shape: Shape) -> Tensor:
    """Takes back what `_merged` did to the dims of a tensor of `shape`."""
    dims = [dim for dim, _ in advanced]
    if _are_neighbours(dims):
        return reshape_to(x, shape)
    order = dims + [d for d in range(len(shape)) if d not in dims]
    x = reshape_to(x, tuple([shape[d] for d in order]))
    return record(PERMUTE, (x,), (inverse_order(tuple(order)),))


def _is_whole_mask(key: Any, meta: Meta) -> bool:
    if isinstance(key, Handle):
        mask, shape = _is_mask(node_of(key).meta.dtype), node_of(key).meta.shape
    elif isinstance(key, np.ndarray):
        mask, shape = key.dtype in (bool, np.uint8), key.shape
    else:
        return False
    return mask and bool(shape) and shape == meta.shape[: len(shape)]


def _is_scalar(value: Any) -> bool:
    if isinstance(value, TENSORS):
        return isinstance(value, Handle) and not node_of(value).meta.ndim
    return True


def _spread(value: Any, shape: Shape, dtype: DType) -> Tensor:
    """A value to be written, as a tensor of the written part's shape and dtype."""
    if isinstance(value, NUMBERS):
        return filled(shape, value, dtype)
    value = cast(_as_tensor(value), dtype)
    have = node_of(value).meta.shape
    if have == shape:
        return clone(value)
    extra = len(have) - len(shape)
    if extra > 0 and set(have[:extra]) == {1}:
        have = have[extra:]
        value = reshape_to(value, have)
    lead = len(shape) - len(have)
    fits = lead >= 0 and all(n in (1, w) for n, w in zip(have, shape[lead:], strict=True))
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing "
            f"result of shape {list(shape)}"
        )
    return record(EXPAND, (value,), (), (), shape)


def index_put(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Tensor:
    """`input` with `values` written (or added) at the places the index tensors name."""
    indices = as_items(indices, "tuple of Tensors")
    for i, index in enumerate(indices):
        if not isinstance(index, Handle):
            raise TypeError(
                f"index_put(): expected Tensor as element {i} in argument 0, but got "
                f"{type(index).__name__}"
            )
    meta = node_of(input).meta
    used = sum([max(_dims_used(index), 1) for index in indices])
    if used > meta.ndim:
        raise IndexError(f"too many indices for tensor of dimension {meta.ndim} (got {used})")
    if node_of(values).meta.dtype is not meta.dtype:
        fills = fills_a_mask(indices, values) and not accumulate
        _check_put(tuple(indices), meta, values, fills)
        values = cast(values, meta.dtype)
    return put_at(input, tuple(indices), values, accumulate)


def put_at(input: Tensor, key: tuple[Any, ...], values: Tensor, accumulate: bool) -> Tensor:
    """A copy of `input` with `values` written (or added) at any key."""
    dtype = node_of(input).meta.dtype
    out = clone(input)
    x, parsed = _basic(out, node_of(input).meta.shape, key)
    if parsed.advanced:
        op = INDEX_ADD if accumulate else INDEX_PUT
        rebind(x, _written(x, parsed.advanced, values, dtype, op))
    else:
        value = _spread(values, parsed.shape, dtype)
        rebind(x, add(x, value) if accumulate else value)
    return out
