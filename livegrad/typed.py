"""Old names of tensors by their dtype: `FloatTensor([1, 2])`, `isinstance(x, LongTensor)`."""

from __future__ import annotations

from typing import Any

from livegrad import dtypes
from livegrad.creation import tensor, zeros
from livegrad.dtypes import DType, Namespace
from livegrad.tensor import Tensor


class _TypedMeta(type):
    dtype: DType

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype is cls.dtype

    def __call__(cls, *data: Any) -> Any:
        """`FloatTensor(2, 3)`: zeros of that shape; `FloatTensor([1, 2])`: the data."""
        if len(data) == 1 and not isinstance(data[0], int):
            return tensor(data[0], dtype=cls.dtype)
        return zeros(*data or (0,), dtype=cls.dtype)

    def __repr__(cls) -> str:
        return f"{Namespace.name}.{cls.__name__}"


def _typed(name: str, dtype: DType) -> Any:
    doc = f"Tensors of dtype {dtype.name}: made by a call, recognised by `isinstance`."
    return _TypedMeta(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "livegrad"})


BoolTensor = _typed("BoolTensor", dtypes.bool_)
ByteTensor = _typed("ByteTensor", dtypes.uint8)
CharTensor = _typed("CharTensor", dtypes.int8)
ShortTensor = _typed("ShortTensor", dtypes.int16)
IntTensor = _typed("IntTensor", dtypes.int32)
LongTensor = _typed("LongTensor", dtypes.int64)
HalfTensor = _typed("HalfTensor", dtypes.float16)
BFloat16Tensor = _typed("BFloat16Tensor", dtypes.bfloat16)
FloatTensor = _typed("FloatTensor", dtypes.float32)
DoubleTensor = _typed("DoubleTensor", dtypes.float64)
