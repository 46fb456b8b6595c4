"""Old names of types: `x.type()`, `x.type("torch.LongTensor")`, and `x.new(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad import creation, dtypes
from livegrad.device import unavailable
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import TYPE_NAMES
from livegrad.graph.meta import Size
from livegrad.ops.shaping import movement

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


_BY_NAME = {f"{name}Tensor": dtypes.by_name(dtype) for dtype, name in TYPE_NAMES.items()}


def type_name(dtype: DType) -> str:
    """What `x.type()` says in PyTorch, because programs compare it: `torch.FloatTensor`."""
    return f"torch.{TYPE_NAMES[dtype.name]}Tensor"


def dtype_of_type(kind: Any) -> DType:
    """The dtype that `x.type(kind)` asks for: a dtype, a class such as LongTensor, or a name."""
    if isinstance(kind, DType):
        return kind
    if isinstance(kind, type):
        kind = getattr(kind, "dtype", f"torch.{kind.__name__}")
        if isinstance(kind, DType):
            return kind
        if not isinstance(kind, str):  # Tensor, whose dtype is a property
            return dtypes.get_default_dtype()
    if not isinstance(kind, str):
        raise TypeError("dtype must be a type, str, or dtype object")
    package, _, name = kind.partition(".")
    device, _, last = name.rpartition(".")
    if device == "cuda":
        raise RuntimeError(str(unavailable(device)))
    if package in ("torch", "livegrad") and not device:
        if last == "Tensor":
            return dtypes.get_default_dtype()
        if last in _BY_NAME:
            return _BY_NAME[last]
    raise ValueError(f"invalid type: '{kind}'")


def new(
    self: Tensor,
    *data: Any,
    device: Any = None,
    size: Any = None,
    other: Any = None,
) -> Tensor:
    """A tensor of this dtype: `x.new(2, 3)` of that shape, `x.new([1, 2])` with that data.

    `x.new(y)`, with `y` a tensor, is a view of it.
    """
    dtype = node_of(self).meta.dtype
    if size is not None:
        data = (Size(size),)
    elif other is not None:
        data = (other,)
    if len(data) != 1 or isinstance(data[0], int | Size):
        return creation.empty(*data or (0,), dtype=dtype, device=device)
    (values,) = data
    if isinstance(values, Handle):
        if node_of(values).meta.dtype is not dtype:
            raise TypeError(
                f"new(): expected a tensor of dtype {dtype.name}, but got "
                f"{node_of(values).meta.dtype.name}"
            )
        return movement.alias(values)
    if isinstance(values, str):
        raise TypeError("new(): invalid data type 'str'")
    if not hasattr(values, "__len__"):
        raise TypeError(f"new(): data must be a sequence (got {type(values).__name__})")
    return creation.tensor(values, dtype=dtype, device=device)


def set_default_tensor_type(t: Any) -> None:
    """Makes the dtype of a type the default dtype: `livegrad.DoubleTensor`, or its name."""
    if isinstance(t, str) and t.startswith("torch.cuda."):
        raise TypeError(f"type {t} not available: there is no GPU here")
    dtype = dtype_of_type(t) if isinstance(t, str) else getattr(t, "dtype", None)
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise TypeError(
            f"set_default_tensor_type: got {t!r}; expected a floating type such as "
            "livegrad.DoubleTensor"
        )
    dtypes.set_default_dtype(dtype)
