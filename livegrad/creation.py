"""Creation: tensors from data, and tensors filled by a rule."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.device import as_device
from livegrad.dtypes import DType
from livegrad.graph.meta import Shape, meta_of
from livegrad.graph.record import Handle, leaf, node_of
from livegrad.ops import generate
from livegrad.ops.elementwise import clone
from livegrad.ops.movement import sizes_of
from livegrad.runtime.cpu.memory import allocate
from livegrad.runtime.reference import from_compute

Tensor = Any
Array = np.ndarray[Any, Any]


# ------------------------------------------------------------------------------- leaf tensors


def as_leaf(x: Tensor, requires_grad: bool) -> Tensor:
    """`x`, a tensor nobody has computed with yet, made to collect a gradient if wanted."""
    if requires_grad:
        node = node_of(x)
        if not node.meta.dtype.is_floating_point:
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients; "
                f"got {node.meta.dtype.name}. Convert with .float() first"
            )
        node.grad_to = weakref.ref(x)
    return x


def from_array(array: Array, dtype: DType | None = None) -> Tensor:
    """A tensor holding a copy of `array`, converted to `dtype` (its own by default)."""
    target = dtypes.from_numpy_dtype(array.dtype) if dtype is None else dtype
    return leaf(meta_of(array.shape, target), buffer_from(from_compute(array, target)))


def buffer_from(stored: Array) -> Any:
    """A buffer of our own with a copy of the bytes of `stored`."""
    buffer = allocate(stored.nbytes)
    buffer.view(stored.dtype, stored.shape)[...] = stored
    buffer.exported = False  # the view is gone, nobody else sees these bytes
    return buffer


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
    """
    as_device(device)
    target = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Handle):
        return as_leaf(_copy(data, target), requires_grad)
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
    else:
        array = _array_of_data(data)
        if target is None and array.dtype == np.float64 and _holds_python_floats(data):
            target = dtypes.get_default_dtype()
    return as_leaf(from_array(array, target), requires_grad)


def _copy(x: Tensor, dtype: DType | None) -> Tensor:
    """A leaf with the values of the tensor `x`."""
    out = clone(x.detach())
    return out if dtype is None else out.to(dtype)


def _array_of_data(data: Any) -> Array:
    """Nested sequences of numbers, arrays and tensors as one array; torch's errors otherwise."""
    if isinstance(data, list | tuple):
        data = _without_tensors(data)
    try:
        array = np.array(data)
    except (ValueError, OverflowError):
        _check_rectangular(data, _sizes_by_first(data), 0)
        raise
    if array.dtype == object or array.dtype.kind not in "biuf":
        raise _bad_data(data, array)
    if array.size == 0 and not _first_leaf(data)[1]:
        return array.astype(np.float64)
    return array


def _without_tensors(data: Any) -> Any:
    """`data` with the tensors in it replaced by arrays."""
    if isinstance(data, list | tuple):
        return [_without_tensors(x) for x in data]
    if isinstance(data, Handle):
        return data.detach().numpy() if node_of(data).meta.ndim else data.item()  # type: ignore[attr-defined]
    return data


def _first_leaf(data: Any) -> tuple[Any, bool]:
    """The first element of nested sequences, and whether there is one."""
    while isinstance(data, list | tuple):
        if not data:
            return None, False
        data = data[0]
    return data, True


def _holds_python_floats(data: Any) -> bool:
    first, _ = _first_leaf(data)
    return not isinstance(first, np.ndarray)


def _sizes_by_first(data: Any) -> list[int]:
    sizes = []
    while isinstance(data, list | tuple | np.ndarray):
        sizes.append(len(data))
        if not len(data):
            break
        data = data[0]
    return sizes


def _check_rectangular(data: Any, sizes: list[int], dim: int) -> None:
    """Raises torch's ValueError where nested sequences differ in length."""
    nested = isinstance(data, list | tuple)
    if dim == len(sizes):
        if nested:
            raise ValueError(
                f"tensor: expected a number at dim {dim}; got a sequence of length {len(data)}. "
                "All rows must have the same length"
            )
        return
    if not nested:
        raise TypeError(f"tensor: expected a sequence at dim {dim}; got {type(data).__name__}")
    if len(data) != sizes[dim]:
        raise ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)})")
    for x in data:
        _check_rectangular(x, sizes, dim + 1)


def _bad_data(data: Any, array: Array) -> Exception:
    if array.dtype == object:
        _check_rectangular(data, _sizes_by_first(data), 0)
    wrong = [x for x in array.ravel().tolist() if not isinstance(x, bool | int | float)]
    if not wrong and array.size:
        return ValueError("tensor: Overflow when unpacking long long; got an integer beyond int64")
    kind = type(wrong[0] if wrong else data).__name__
    if kind in ("str", "bytes"):
        scalar = TypeError(f"new(): invalid data type '{kind}'")
        return ValueError(f"too many dimensions '{kind}'") if array.ndim else scalar
    return RuntimeError(f"tensor: could not infer dtype of {kind}")


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor; a tensor of the right dtype is returned as it is."""
    as_device(device)
    if isinstance(data, Handle):
        target = None if dtype is None else dtypes.as_dtype(dtype)
        if target is None or node_of(data).meta.dtype is target:
            return data
        return data.to(target)  # type: ignore[attr-defined]
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor; `copy=True` copies even a tensor."""
    out = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    return out.requires_grad_() if requires_grad else out


def from_numpy(array: Array) -> Tensor:
    """A tensor with a copy of a NumPy array.

    Unlike PyTorch's, it does not share memory: recorded operations run later, and must not see
    what is written to the array in the meantime.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return from_array(array)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with a copy of another library's CPU tensor, taken through DLPack."""
    if isinstance(ext_tensor, Handle):
        return ext_tensor
    return from_array(np.from_dlpack(ext_tensor))


def scalar_tensor(value: float, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A 0-d tensor of the default dtype."""
    return full((), value, dtype=dtype or dtypes.get_default_dtype(), device=device)


# -------------------------------------------------------------------------------- one number


def _filled(
    shape: Shape, value: Any, dtype: Any, device: Any, requires_grad: bool, name: str
) -> Tensor:
    if device is not None:
        as_device(device)
    for size in shape:
        if size < 0:
            raise RuntimeError(
                f"{name}: trying to create tensor with negative dimension {size}: {list(shape)}"
            )
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    out = generate.filled(shape, value, target)
    return as_leaf(out, True) if requires_grad else out


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the given shape."""
    return _filled(sizes_of("zeros", size), 0, dtype, device, requires_grad, "zeros")


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of the given shape."""
    return _filled(sizes_of("ones", size), 1, dtype, device, requires_grad, "ones")


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of the given shape whose values do not matter (zeros here)."""
    return _filled(sizes_of("empty", size), 0, dtype, device, requires_grad, "empty")


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The given shape filled with one number, whose kind gives the dtype unless `dtype` does."""
    shape = sizes_of("full", (size,))
    if isinstance(fill_value, Handle | np.generic | np.ndarray):
        fill_value = fill_value.item()  # type: ignore[union-attr]
    if dtype is None:
        dtype = dtypes.scalar_dtype(type(fill_value))
    return _filled(shape, fill_value, dtype, device, requires_grad, "full")


def _like(x: Tensor, dtype: Any) -> tuple[Shape, DType]:
    meta = node_of(x).meta
    return meta.shape, meta.dtype if dtype is None else dtypes.as_dtype(dtype)


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros of the shape and dtype of `input`."""
    shape, target = _like(input, dtype)
    return _filled(shape, 0, target, device, requires_grad, "zeros_like")


def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones of the shape and dtype of `input`."""
    shape, target = _like(input, dtype)
    return _filled(shape, 1, target, device, requires_grad, "ones_like")


def empty_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of the shape and dtype of `input` whose values do not matter."""
    shape, target = _like(input, dtype)
    return _filled(shape, 0, target, device, requires_grad, "empty_like")


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The shape and dtype of `input` filled with one number."""
    shape, target = _like(input, dtype)
    return full(shape, fill_value, dtype=target, device=device, requires_grad=requires_grad)


# ------------------------------------------------------------------------------- by position


def arange(
    *bounds: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`start`, `start + step`, … without `end`: arange(end), arange(start, end[, step])."""
    if len(bounds) == 1:
        end = bounds[0]
    elif len(bounds) > 1:
        start, end = bounds[0], bounds[1]
        step = bounds[2] if len(bounds) > 2 else step
    start, end, step = [_number(v, d) for v, d in ((start, 0), (end, None), (step, 1))]
    if step == 0:
        raise RuntimeError("arange: step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"arange: upper bound and lower bound inconsistent with step sign; got start {start}, "
            f"end {end}, step {step}"
        )
    as_device(device)
    floating = any(isinstance(v, float) for v in (start, end, step))
    default = dtypes.get_default_dtype() if floating else dtypes.int64
    target = default if dtype is None else dtypes.as_dtype(dtype)
    if target.is_floating_point:
        start, step = float(start), float(step)
    elif floating:
        start, end, step = int(start), int(end), int(step)
    count = max(math.ceil((end - start) / step), 0)
    return as_leaf(generate.steps(count, start, step, target), requires_grad)


def _number(value: Any, default: Any) -> Any:
    if value is None:
        if default is None:
            raise TypeError("arange() missing 1 required positional argument: 'end'")
        return default
    return (
        value if type(value) in (int, float) else value.item() if hasattr(value, "item") else value
    )


def range_(start: float, end: float, step: float = 1, **options: Any) -> Tensor:
    """`start`, `start + step`, … up to and including `end`."""
    return arange(start, end + step / 2 if isinstance(step, float) else end + step, step, **options)


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, evenly spaced."""
    if steps < 0:
        raise RuntimeError(f"linspace: number of steps must be non-negative; got {steps}")
    as_device(device)
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return as_leaf(generate.evenly(float(start), float(end), steps, target), requires_grad)


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`base` to the power of `linspace(start, end, steps)`."""
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    powers = linspace(start, end, steps, dtype=dtypes.float64, device=device)
    out = (powers * math.log(base)).exp().to(target)
    return as_leaf(out, requires_grad)


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal of an n by m matrix, zeros elsewhere."""
    as_device(device)
    columns = n if m is None else m
    if n < 0 or columns < 0:
        raise RuntimeError(f"eye: sizes must be at least 0; got {n} and {columns}")
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return as_leaf((arange(n).unsqueeze(1) == arange(columns)).to(target), requires_grad)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinate grids: tensor i varies along dim i of every result."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], Sequence) else tensors
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be one of 'xy' or 'ij'; got {indexing!r}")
    swap = indexing == "xy" and len(given) > 1
    order = [given[1], given[0], *given[2:]] if swap else list(given)
    shape = tuple([x.numel() for x in order])
    grids = [
        x.reshape([-1 if d == i else 1 for d in range(len(order))]).expand(shape)
        for i, x in enumerate(order)
    ]
    return tuple([grids[1], grids[0], *grids[2:]] if swap else grids)
