"""How numbers become bytes: PyTorch's names of types and schemes.

There are no tensors of these types here: quantised layers take and give floating-point ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from livegrad import dtypes


@dataclass(frozen=True)
class QuantizedType:
    """A type of quantised numbers: its name, and its least and greatest step."""

    name: str
    low: int
    high: int

    def __repr__(self) -> str:
        return f"livegrad.{self.name}"


@dataclass(frozen=True)
class Scheme:
    """How steps lie: whether 0 is in their middle, and whether channels have their own."""

    name: str
    symmetric: bool
    per_channel: bool

    def __repr__(self) -> str:
        return f"livegrad.{self.name}"


qint8 = QuantizedType("qint8", -128, 127)
quint8 = QuantizedType("quint8", 0, 255)
quint4x2, quint2x4 = QuantizedType("quint4x2", 0, 15), QuantizedType("quint2x4", 0, 3)
qint32 = QuantizedType("qint32", -(2**31), 2**31 - 1)

per_tensor_affine = Scheme("per_tensor_affine", False, False)
per_tensor_symmetric = Scheme("per_tensor_symmetric", True, False)
per_channel_affine = Scheme("per_channel_affine", False, True)
per_channel_symmetric = Scheme("per_channel_symmetric", True, True)

_PLAIN = {dtypes.int8: qint8, dtypes.uint8: quint8, dtypes.int32: qint32}


def as_quantized(dtype: Any) -> QuantizedType:
    """`dtype` as one of the types above; int8 and uint8 are taken for theirs."""
    found = dtype if isinstance(dtype, QuantizedType) else _PLAIN.get(dtype)
    if found is None:
        raise ValueError(f"quantization: got dtype {dtype}; expected qint8 or quint8")
    return found
