"""Collation: a list of samples becomes one batch of tensors, of the samples' structure."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from livegrad.creation import tensor
from livegrad.dtypes import DType, from_numpy_dtype
from livegrad.graph.handle import node_of
from livegrad.ops.making.constants import from_array
from livegrad.ops.shaping.joining import stack
from livegrad.ops.support.strangers import asks
from livegrad.tensor import Tensor
from livegrad.utils.data.info import get_worker_info
from livegrad.utils.data.memory import leaf_of

Array = np.ndarray[Any, Any]
CollateMap = dict[Any, Callable[..., Any]]

_NOT_NUMBERS = "SaUO"  # letters of NumPy dtypes: strings and objects
np_str_obj_array_pattern = re.compile(f"[{_NOT_NUMBERS}]")  # the same for code made for torch


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers inside nested containers as tensors; the rest stays as it is."""
    if isinstance(data, Tensor):
        return data
    if type(data).__module__ == "numpy" and not isinstance(data, str | bytes):
        if isinstance(data, np.ndarray) and data.dtype.kind in _NOT_NUMBERS:
            return data
        return from_array(np.asarray(data))
    if isinstance(data, Mapping):
        return _rebuilt_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        return _rebuilt_tuple(data, [default_convert(x) for x in data])
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _rebuilt_sequence(data, [default_convert(x) for x in data])
    return data


def default_collate(batch: Any) -> Any:
    """Samples as one batch: numbers, arrays and tensors are stacked along a new first dim.

    Mappings, named tuples and sequences keep their structure (a tuple becomes a list), strings stay
    a list. In a worker, what is stacked is written to shared memory at once.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """`default_collate` with another table from types to `function(batch, *, collate_fn_map)`."""
    first = batch[0]
    if collate_fn_map is not None:
        function = _function_for(first, collate_fn_map)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        columns = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return _rebuilt_mapping(first, columns)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        parts = [collate(x, collate_fn_map=collate_fn_map) for x in zip(*batch, strict=False)]
        return type(first)(*parts)
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [collate(x, collate_fn_map=collate_fn_map) for x in zip(*batch, strict=True)]
        return parts if isinstance(first, tuple) else _rebuilt_sequence(first, parts)
    raise _bad_type(type(first))


def _function_for(first: Any, table: CollateMap) -> Callable[..., Any] | None:
    """The function for a type, or for the first of its bases in the table."""
    function = table.get(type(first))
    if function is not None:
        return function
    for kind, candidate in table.items():
        if isinstance(first, kind):
            return candidate
    return None


def _bad_type(found: Any) -> TypeError:
    return TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {found}"
    )


# ----------------------------------------------------------------------------- containers again


def _rebuilt_mapping(like: Any, values: dict[Any, Any]) -> Any:
    """A mapping of the type of `like` with other values; a dict if that type does not allow it."""
    try:
        if not isinstance(like, MutableMapping):
            return type(like)(values)
        # A copy, because the type may have more about it than its items.
        clone = copy.copy(like)
        clone.update(values)
        return clone
    except TypeError:
        return values


def _rebuilt_tuple(like: Any, values: list[Any]) -> Any:
    return type(like)(*values) if hasattr(like, "_fields") else values


def _rebuilt_sequence(like: Any, values: list[Any]) -> Any:
    """A sequence of the type of `like`; a list if that type does not allow it."""
    if type(like) is list:
        return values
    try:
        if not isinstance(like, MutableSequence):
            return type(like)(values)
        clone = copy.copy(like)
        for i, value in enumerate(values):
            clone[i] = value
        return clone
    except TypeError:
        return values


# -------------------------------------------------------------------------------------- stacking


def _check_shapes(arrays: Sequence[Array]) -> None:
    shape = arrays[0].shape
    for i, array in enumerate(arrays):
        if array.shape != shape:
            raise RuntimeError(
                "stack expects each tensor to be equal size, but got "
                f"{list(shape)} at entry 0 and {list(array.shape)} at entry {i}"
            )


def _stacked(arrays: Sequence[Array], dtype: DType) -> Any:
    """Arrays of one shape, holding stored values of `dtype`, as one tensor."""
    _check_shapes(arrays)
    count, shape = len(arrays), arrays[0].shape

    def fill(out: Array) -> None:
        if not shape:
            out[...] = arrays
        else:
            # Joined along the first dim they lie as if stacked.
            np.concatenate(arrays, 0, out.reshape(count * shape[0], *shape[1:]))

    return leaf_of((count, *shape), dtype, fill)


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Tensors stacked."""
    nodes = [node_of(x) for x in batch]
    dtype = nodes[0].meta.dtype
    of_subclass = not type(batch[0]).__module__.startswith("livegrad.")
    if of_subclass or any(n.meta.dtype is not dtype or n.grad_to is not None for n in nodes):
        return stack(list(batch))
    if get_worker_info() is None and any(n.buffer is None for n in nodes):
        return stack(list(batch))  # recorded, to be computed with what uses it
    return _stacked([x._values("a batch") for x in batch], dtype)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Arrays stacked to a tensor."""
    kind = batch[0].dtype
    if kind.kind in _NOT_NUMBERS:
        raise _bad_type(kind)
    if any(array.dtype != kind for array in batch):
        return collate([from_array(array) for array in batch], collate_fn_map=collate_fn_map)
    return _stacked(batch, from_numpy_dtype(kind))


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """NumPy's numbers as a tensor of their dtype."""
    return from_array(np.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Python's floats as float64, which loses nothing."""
    return from_array(np.array(batch, np.float64))


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Integers as int64, truth values as bool."""
    return tensor(list(batch))


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Strings as they are."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def collates_tensors_as_usual() -> bool:
    """Whether nobody has put another function for tensors into the table."""
    return default_collate_fn_map.get(Tensor) is collate_tensor_fn


asks(__name__)
