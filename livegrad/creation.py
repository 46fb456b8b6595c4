"""Creation: tensors from data, and tensors filled with one number."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.device import CPU, has_data, home
from livegrad.dtypes import DType
from livegrad.graph import elsewhere
from livegrad.graph.above import Above
from livegrad.graph.blame import as_index
from livegrad.graph.family import node_to_read
from livegrad.graph.handle import Handle, leaf, leaf_node, node_of, wrap
from livegrad.graph.layout import Strides, is_dense, like_strides, span, strides_in_order
from livegrad.graph.meta import Shape, meta_of
from livegrad.graph.node import Node, leaf_ref
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.graph.views import see_through
from livegrad.ops.bookkeeping.in_place import laid_out_as, placed_like
from livegrad.ops.elementwise.arithmetic import clone
from livegrad.ops.making import generate
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.data import array_of
from livegrad.ops.shaping.movement import DETACH, sizes_of
from livegrad.ops.shaping.strided import as_strided
from livegrad.ops.support.numbers import ARRAYS, NUMBERS, check_array
from livegrad.ops.support.out import creating
from livegrad.runtime.memory import allocate_zeros, copied
from livegrad.runtime.shared import borrow
from livegrad.runtime.values import buffer_of_floats, buffer_of_ints
from livegrad.settings import check_layout, is_sparse_layout, strided

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
_refs = sys.getrefcount


# ------------------------------------------------------------------------------- leaf tensors


def as_leaf(x: Tensor, requires_grad: bool) -> Tensor:
    """`x`, a tensor nobody has computed with yet, made to collect a gradient if wanted."""
    if requires_grad:
        dtype = node_of(x).meta.dtype
        if dtype.category < dtypes.FLOAT:
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients; "
                f"got {dtype.name}. Convert with .float() first"
            )
        own_node(x).grad_to = leaf_ref(x)
    return x


def own_node(x: Tensor) -> Node:
    """The node of a leaf; a new one if another may refer to the one it has.

    What was computed from that one goes on with the flag that the leaf had then.
    """
    node, share = node_of(x), x._share
    whole = share is not None and not share.path
    holders = 1 + (node.buffer is None)  # the tensor, and the list of what is pending
    if share is not None:
        if share.cell.memory is not None:
            if whole:  # which has its values from there, and is told the flag
                share.cell._node = node
            return node
        if share.cell._node is node and whole:
            holders += 1
    if _refs(node) - _UNHELD <= holders:
        return node
    own = record(DETACH, (wrap(node),))
    own._node.spent = node.spent
    see_through(own, x)
    x._node = own._node
    if share is not None and whole:
        share.cell._node = own._node
    return own._node


def _count_own_references() -> int:
    """What `_refs` says, inside `own_node`, of a node that nobody else refers to."""
    node = object()
    return _refs(node)


_UNHELD = _count_own_references()


# -------------------------------------------------------------------------------- from data


def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor with a copy of `data`: a number, nested lists, a NumPy array or a tensor.

    Python floats get the default dtype, integers int64; NumPy arrays keep their dtype.

    Args:
        data: a number, nested lists, a NumPy array or a tensor; it is copied.
        dtype: of the result; None: as the data is.
        requires_grad: whether gradients are collected for it.

    Example:
        >>> lg.tensor([[1.0, 2.0], [3.0, 4.0]])
        tensor([[1., 2.],
                [3., 4.]])
        >>> lg.tensor([1, 2], dtype=lg.float32)
        tensor([1., 2.])
    """
    if home(device) is CPU:
        plain = None
        if type(data) in _PLAIN:
            plain = _of_plain_numbers(data, dtype)
        elif type(data) is np.ndarray and dtype is None:
            plain = _of_plain_array(data)
        if plain is not None:
            return as_leaf(plain, requires_grad)
    target = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Handle):
        if data.layout is not strided:
            same = data.detach().clone()
            return (same if target is None else same.to(target)).requires_grad_(requires_grad)
        copy = _copy(data, target)
        return as_leaf(copy if device is None else copy.to(device=device), requires_grad)
    if isinstance(data, ARRAYS):
        array = np.asarray(data)
    else:
        # Where Python's integers do not fit int64, NumPy must be told what they are.
        array, inferred = array_of(data, np.uint64 if target is dtypes.uint64 else None)
        target = inferred if target is None else target
    if not isinstance(data, np.ndarray) and array.dtype != bool:
        check_array(array, target or dtypes.int64)
    strides = _copied_strides(data) if isinstance(data, np.ndarray) else None
    return as_leaf(elsewhere.placed(from_array(array, target, strides), device), requires_grad)


_SEVERAL = (list, tuple)
_PLAIN = (*_SEVERAL, int, float)


def _of_plain_numbers(data: Any, dtype: Any) -> Tensor | None:
    """The commonest on a short way: an int or a float, several of them, or rows of several; None of
    others. `dtype` is the one that was asked for."""
    shape: tuple[int, ...] = ()
    numbers: Any = (data,)
    if type(data) in _SEVERAL:
        numbers, shape = data, (len(data),)
        if data and type(data[0]) in _SEVERAL:
            width = len(data[0])
            if not all([type(row) in _SEVERAL and len(row) == width for row in data]):
                return None
            numbers, shape = [x for row in data for x in row], (len(data), width)
    kind = type(numbers[0]) if numbers else None
    if kind is int and dtype in (None, dtypes.int64):
        buffer, target = buffer_of_ints(numbers), dtypes.int64
    elif kind is float and (dtype or dtypes.get_default_dtype()) is dtypes.float32:
        buffer, target = buffer_of_floats(numbers), dtypes.float32
    else:
        return None
    return None if buffer is None else leaf(meta_of(shape, target), buffer)


def _of_plain_array(array: Array) -> Tensor | None:
    """The same of an array whose bytes are those of a dtype, in row-major order."""
    dtype, shape = dtypes.BY_STORAGE.get(array.dtype), array.shape
    if dtype is None or 1 in shape or 0 in shape or not array.flags.c_contiguous:
        return None
    return leaf(meta_of(shape, dtype), copied(array))


def _copied_strides(array: Array) -> Strides | None:
    """The strides of a copy of an array, in which dims lie in the same order; None: row-major."""
    shape = array.shape
    if array.flags.c_contiguous and 1 not in shape and 0 not in shape:
        return None
    if not _can_share(array):
        return None
    return like_strides(array.shape, tuple([step // array.itemsize for step in array.strides]))


def _copy(x: Tensor, dtype: DType | None) -> Tensor:
    """A leaf with the values of the tensor `x`."""
    out = clone(x.detach())
    return out if dtype is None else out.to(dtype)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor: a tensor as wanted itself, an array of the dtype shares its memory.

    Args:
        data: a tensor, a NumPy array, lists or a number.
        dtype: None: as the data is.

    Example:
        >>> lg.as_tensor([1, 2])
        tensor([1, 2])
    """
    if isinstance(data, Handle):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, np.ndarray) and _can_share(data) and home(device) is CPU:
        own = dtypes.from_numpy_dtype(data.dtype)
        if dtype is None or dtypes.as_dtype(dtype) is own:
            return borrow(data, meta_of(data.shape, own))
    return tensor(data, dtype=dtype, device=device)


def _can_share(array: Array) -> bool:
    """Whether a tensor can look at the memory of an array."""
    if not array.dtype.isnative or not array.flags.aligned:
        return False
    if array.flags.c_contiguous:
        return True
    return all([step >= 0 and step % max(array.itemsize, 1) == 0 for step in array.strides])


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor: with `copy=True` one of its own memory, with `copy=False` never a copy.

    Of an object with the buffer protocol (bytes, `array.array`) the bytes are values of `dtype`.
    """
    if not isinstance(obj, Handle | np.ndarray | np.generic):
        if hasattr(obj, "__dlpack__"):
            obj = np.from_dlpack(obj)
        elif _has_buffer(obj):
            obj = frombuffer(obj, dtype=dtype or dtypes.get_default_dtype())
    shared = obj if isinstance(obj, Handle) else None
    if isinstance(obj, np.ndarray) and not copy and _can_share(obj):
        shared = as_tensor(obj)
    copies = copy or shared is None
    out = tensor(obj, dtype=dtype, device=device) if copies else as_tensor(shared, dtype, device)
    if copy is False and out is not shared:
        raise ValueError("asarray: this cannot be a tensor without a copy")
    return out.requires_grad_() if requires_grad else out


def from_numpy(array: Array) -> Tensor:
    """A tensor that shares the memory of a NumPy array: each sees what is written to the other.

    Args:
        array: of a dtype that tensors have; it is not copied.

    Example:
        >>> import numpy as np
        >>> array = np.zeros(3)
        >>> lg.from_numpy(array).add_(1)
        tensor([1., 1., 1.], dtype=livegrad.float64)
        >>> array
        array([1., 1., 1.])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    if not array.flags.c_contiguous and any([step < 0 for step in array.strides]):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array with array.copy().)"
        )
    meta = meta_of(array.shape, dtypes.from_numpy_dtype(array.dtype))
    if not _can_share(array):
        raise ValueError(
            "from_numpy: given numpy array has strides or byte order that tensors do not have; "
            "copy it with array.copy(), or use tensor(array)"
        )
    return borrow(array, meta)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector that shares the memory of an object with the buffer protocol."""
    target = dtypes.as_dtype(dtype)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError(
            f"frombuffer: object does not implement Python buffer protocol; got "
            f"{type(buffer).__name__}; expected bytes, an array or the like"
        ) from None
    offset, count = as_index(offset), as_index(count)
    whole = view.nbytes - offset
    if count == 0 or whole < 0 or (count < 0 and (not whole or whole % target.itemsize)):
        raise ValueError(
            f"frombuffer: got {whole} bytes after offset {offset}, count {count}; expected a whole "
            f"number of elements of {target.itemsize} bytes"
        )
    if count * target.itemsize > whole:
        raise ValueError(
            f"frombuffer: requested buffer length ({count} elements) must not be greater than "
            f"actual buffer length ({whole} bytes)"
        )
    stored = np.frombuffer(buffer, target.storage, count, offset)
    return as_leaf(borrow(stored, meta_of(stored.shape, target)), requires_grad)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of another library's CPU tensor, through DLPack.

    It may also be a capsule, which another library has made of one.
    """
    if isinstance(ext_tensor, Handle):
        if copy:
            return clone(ext_tensor)
        array = ext_tensor._exported()
    elif type(ext_tensor).__name__ == "PyCapsule":
        array = _Capsule(ext_tensor).array()
    else:
        array = np.from_dlpack(ext_tensor)
    return from_array(array) if copy else from_numpy(array)


class _Capsule:
    """A DLPack capsule as what NumPy wants to ask for one."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def array(self) -> Array:
        """Its memory; capsules of the first version cannot say whether that may be written to."""
        unsaid = '"dltensor"' in repr(self.capsule)
        array = np.from_dlpack(self)
        return np.asarray(_Writable(array)) if unsaid else array

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class _Writable:
    """The memory of an array, which it keeps, as one that may be written to."""

    def __init__(self, array: Array) -> None:
        self.array = array
        seen = array.__array_interface__
        self.__array_interface__ = {**seen, "data": (seen["data"][0], False)}


def scalar_tensor(
    value: float,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """A 0-d tensor of the default dtype."""
    check_layout("scalar_tensor", layout)
    target = dtype or dtypes.get_default_dtype()
    return full((), value, dtype=target, device=device, requires_grad=requires_grad)


# -------------------------------------------------------------------------------- one number


def _filled(
    shape: Shape, value: Any, dtype: Any, device: Any, requires_grad: bool, name: str
) -> Tensor:
    for size in shape:
        if size < 0:
            raise RuntimeError(
                f"{name}: trying to create tensor with negative dimension {size}: {list(shape)}"
            )
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if has_data(device):
        out = elsewhere.placed(generate.filled(shape, value, target), device)
    else:
        out = elsewhere.empty(shape, target)
    return as_leaf(out, True) if requires_grad else out


def _sparse(shape: Shape, layout: dict[str, Any], dtype: Any, requires_grad: bool) -> Tensor:
    """A tensor of a sparse layout, without elements."""
    out: Tensor = Above.sparse().making.empty(shape, layout["layout"], dtype, requires_grad)
    return out


@creating
def zeros(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """Zeros of the given shape.

    Args:
        size: the shape, as numbers or as one tuple.
        dtype: None: the default float.
        requires_grad: whether gradients are collected for it.

    Example:
        >>> lg.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
    """
    check_layout("zeros", layout)
    shape = sizes_of("zeros", sizes, size)
    if is_sparse_layout(layout.get("layout")):
        return _sparse(shape, layout, dtype, requires_grad)
    return _filled(shape, 0, dtype, device, requires_grad, "zeros")


@creating
def ones(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """Ones of the given shape.

    Args:
        size: the shape, as numbers or as one tuple.
        dtype: None: the default float.
        requires_grad: whether gradients are collected for it.

    Example:
        >>> lg.ones(3, dtype=lg.int64)
        tensor([1, 1, 1])
    """
    check_layout("ones", layout)
    return _filled(sizes_of("ones", sizes, size), 1, dtype, device, requires_grad, "ones")


@creating
def empty(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """A tensor of the given shape whose values do not matter (zeros here).

    Args:
        size: the shape, as numbers or as one tuple.
        dtype: None: the default float.

    Example:
        >>> lg.empty(2, 3).shape
        livegrad.Size([2, 3])
    """
    check_layout("empty", layout)
    shape = sizes_of("empty", sizes, size)
    if is_sparse_layout(layout.get("layout")):
        return _sparse(shape, layout, dtype, requires_grad)
    return _filled(shape, 0, dtype, device, requires_grad, "empty")


@creating
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """The given shape filled with one number, whose kind gives the dtype unless `dtype` does.

    Args:
        size: the shape, as a tuple.
        fill_value: the number.
        dtype: None: float, int or bool, as the number is.

    Example:
        >>> lg.full((2, 2), 7)
        tensor([[7, 7],
                [7, 7]])
    """
    check_layout("full", layout)
    if isinstance(size, int):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    shape = sizes_of("full", (size,))
    if isinstance(fill_value, Handle | np.generic | np.ndarray):
        fill_value = fill_value.item()
    if not isinstance(fill_value, NUMBERS):
        raise TypeError(
            f"full(): argument 'fill_value' must be Number, not {type(fill_value).__name__}"
        )
    if dtype is None:
        dtype = dtypes.scalar_dtype(type(fill_value))
    return _filled(shape, fill_value, dtype, device, requires_grad, "full")


def _like(x: Tensor, dtype: Any, device: Any) -> tuple[Shape, DType, Any]:
    """Shape, dtype and device of `x`, unless others are given."""
    meta = node_to_read(x).meta
    target = meta.dtype if dtype is None else dtypes.as_dtype(dtype)
    return meta.shape, target, meta.device if device is None else device


def zeros_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """Zeros of the shape and dtype of `input`.

    Args:
        input: gives shape, dtype and layout.
        dtype: None: that of `input`.

    Example:
        >>> lg.zeros_like(lg.ones(2))
        tensor([0., 0.])
    """
    check_layout("zeros_like", layout)
    shape, target, place = _like(input, dtype, device)
    if is_sparse_layout(layout.get("layout")):
        return _sparse(shape, layout, target, requires_grad)
    out = _filled(shape, 0, target, place, False, "zeros_like")
    return as_leaf(placed_like(out, input, layout.get("memory_format")), requires_grad)


def zeros_at_once(x: Tensor) -> Tensor:
    """`zeros_like` that are there, for an update which writes to them: as those after it find them.

    So a first step is flushed as all others are, and has their plan.
    """
    meta = node_of(x).meta
    if meta.device is not CPU or meta.strides is not None or LOCAL.state.flusher is not None:
        return zeros_like(x)
    return wrap(leaf_node(meta, allocate_zeros(meta.nbytes)))


def ones_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """Ones of the shape and dtype of `input`.

    Args:
        input: gives shape, dtype and layout.
        dtype: None: that of `input`.

    Example:
        >>> lg.ones_like(lg.tensor([5, 6]))
        tensor([1, 1])
    """
    check_layout("ones_like", layout)
    shape, target, place = _like(input, dtype, device)
    out = _filled(shape, 1, target, place, False, "ones_like")
    return as_leaf(placed_like(out, input, layout.get("memory_format")), requires_grad)


def empty_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """A tensor of the shape and dtype of `input` whose values do not matter."""
    check_layout("empty_like", layout)
    shape, target, place = _like(input, dtype, device)
    if is_sparse_layout(layout.get("layout")):
        return _sparse(shape, layout, target, requires_grad)
    out = _filled(shape, 0, target, place, False, "empty_like")
    return as_leaf(placed_like(out, input, layout.get("memory_format")), requires_grad)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """The shape and dtype of `input` filled with one number.

    Example:
        >>> lg.full_like(lg.zeros(2), 7)
        tensor([7., 7.])
    """
    check_layout("full_like", layout)
    shape, target, place = _like(input, dtype, device)
    out = full(shape, fill_value, dtype=target, device=place)
    return as_leaf(placed_like(out, input, layout.get("memory_format")), requires_grad)


def empty_strided(size: Any, stride: Any, **options: Any) -> Tensor:
    """A tensor with the given strides whose values do not matter."""
    shape, strides = sizes_of("empty_strided", (size,)), sizes_of("empty_strided", (stride,))
    if len(shape) != len(strides):
        raise RuntimeError(
            "empty_strided: dimensionality of sizes must match dimensionality of strides; got "
            f"{len(shape)} and {len(strides)}"
        )
    if any(step < 0 for step in strides):
        raise RuntimeError(f"empty_strided: strides must be non-negative; got {list(strides)}")
    requires_grad = options.pop("requires_grad", False)
    if is_dense(shape, strides):
        return as_leaf(laid_out_as(empty(shape, **options), strides), requires_grad)
    out = as_strided(empty(span(shape, strides), **options), shape, strides)
    out._was_view = False  # it is all that there is of its memory, to whoever asks
    return as_leaf(out, requires_grad)


def new_empty_strided(input: Tensor, size: Any, stride: Any, **options: Any) -> Tensor:
    """`empty_strided` with the dtype of `input`."""
    if options.get("dtype") is None:
        options["dtype"] = node_of(input).meta.dtype
    if options.get("device") is None:
        options["device"] = node_of(input).meta.device
    return empty_strided(size, stride, **options)


def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Tensor:
    """A tensor whose dims lie in memory in the given order, from the outermost on."""
    shape = sizes_of("empty_permuted", (size,))
    order = sizes_of("empty_permuted", (physical_layout,))
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(
            f"empty_permuted: got physical_layout {list(order)} for {len(shape)} dims; expected "
            "each dim once"
        )
    return empty_strided(shape, strides_in_order(shape, order[::-1]), **options)
