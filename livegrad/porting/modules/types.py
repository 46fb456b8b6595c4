"""`torch.types` and `torch.nn.common_types`: names for annotations."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeVar, Union

from livegrad.device import Device as _Device
from livegrad.dtypes import DType
from livegrad.tensor import Tensor as Tensor

T = TypeVar("T")

Number = Union[int, float, bool]
Device = Union[_Device, str, int, None]
FileLike = Any
Storage = Any
_dtype, _device = DType, _Device
_int, _float, _bool = builtins.int, builtins.float, builtins.bool
_size = Sequence[int]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_TensorOrTensorsOrGradEdge = _TensorOrTensors

_scalar_or_tuple_any_t = Union[T, tuple[T, ...]]
_scalar_or_tuple_1_t = Union[T, tuple[T]]
_scalar_or_tuple_2_t = Union[T, tuple[T, T]]
_scalar_or_tuple_3_t = Union[T, tuple[T, T, T]]
_size_any_t = _scalar_or_tuple_any_t[int]
_size_1_t = _scalar_or_tuple_1_t[int]
_size_2_t = _scalar_or_tuple_2_t[int]
_size_3_t = _scalar_or_tuple_3_t[int]
_ratio_2_t = _scalar_or_tuple_2_t[float]
_ratio_3_t = _scalar_or_tuple_3_t[float]
_ratio_any_t = _scalar_or_tuple_any_t[float]
_tensor_list_t = _scalar_or_tuple_any_t[Tensor]
