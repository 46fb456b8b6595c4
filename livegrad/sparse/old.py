"""Old names of functions of sparse tensors, and the classes that PyTorch has for them."""

from __future__ import annotations

from typing import Any

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.sparse.core import SparseTensor
from livegrad.sparse.making import sparse_coo_tensor
from livegrad.sparse.products import addmm, hspmm, mm

spmm = dsmm = mm
hsmm = hspmm
saddmm = addmm


def resize_as_sparse_(input: Any, the_template: Any) -> Any:
    """Changes the shape of a sparse tensor, in place, to that of another."""
    return input.resize_as_sparse_(the_template)


class _Kind(type):
    """The class of `FloatTensor` and the like: what is one is told by layout and dtype."""

    dtype: DType

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, SparseTensor) and x.is_sparse and x.dtype is cls.dtype


def _kind(name: str, dtype: DType) -> Any:
    def new(cls: Any, *args: Any, device: Any = None) -> Any:
        if args and all(isinstance(x, int) for x in args):
            return sparse_coo_tensor(args, dtype=dtype, device=device)
        if not args:
            return sparse_coo_tensor((0,), dtype=dtype, device=device)
        return sparse_coo_tensor(*args, dtype=dtype, device=device)

    text = f"`{name}(indices, values, size)`: an old form of `sparse_coo_tensor`."
    body = {"__new__": new, "__doc__": text, "__module__": "livegrad.sparse", "dtype": dtype}
    return _Kind(name, (), body)


FloatTensor = _kind("FloatTensor", dtypes.float32)
DoubleTensor = _kind("DoubleTensor", dtypes.float64)
HalfTensor = _kind("HalfTensor", dtypes.float16)
BFloat16Tensor = _kind("BFloat16Tensor", dtypes.bfloat16)
ByteTensor = _kind("ByteTensor", dtypes.uint8)
CharTensor = _kind("CharTensor", dtypes.int8)
ShortTensor = _kind("ShortTensor", dtypes.int16)
IntTensor = _kind("IntTensor", dtypes.int32)
LongTensor = _kind("LongTensor", dtypes.int64)
