"""Constants: tensors with values that NumPy has computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import leaf
from livegrad.graph.layout import Strides
from livegrad.graph.meta import meta_of
from livegrad.graph.state import Runtime

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


def from_array(array: Array, dtype: DType | None = None, strides: Strides | None = None) -> Tensor:
    """A tensor holding a copy of `array`, converted to `dtype` (its own by default)."""
    target = dtypes.from_numpy_dtype(array.dtype) if dtype is None else dtype
    meta = meta_of(array.shape, target).with_strides(strides)
    return leaf(meta, Runtime.buffer_of(array, target))
