"""Operations of PyTorch's dispatcher that no public function is called after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import livegrad
from livegrad.nn import functional
from livegrad.tensor import Tensor


def _to_copy(x: Tensor, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    options.pop("layout", None)
    options.pop("pin_memory", None)
    kind = x.dtype if dtype is None else dtype
    return x.to(x.device if device is None else device, kind, copy=True, **options)


def _slice(
    x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    key: list[Any] = [slice(None)] * x.ndim
    key[dim] = slice(start, end, step)
    return x[tuple(key)]


def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    return x[tuple(slice(None) if i is None else i for i in indices)]


def _softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return functional.softmax(x, dim)


def _log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return functional.log_softmax(x, dim)


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    dims = weight.ndim - 2
    if transposed:
        turned = getattr(functional, f"conv_transpose{dims}d")
        out: Tensor = turned(x, weight, bias, stride, padding, output_padding, groups, dilation)
        return out
    straight: Tensor = getattr(functional, f"conv{dims}d")(
        x, weight, bias, stride, padding, dilation, groups
    )
    return straight


FUNCTIONS: dict[str, Any] = {
    "_convolution": lambda *args: _convolution(*args[:9]),
    "_log_softmax": _log_softmax,
    "_pin_memory": lambda x, device=None: x.pin_memory(),
    "_softmax": _softmax,
    "_sparse_addmm": lambda x, a, b, **factors: livegrad.sparse.addmm(x, a, b, **factors),
    "_sparse_mm_reduce_impl": lambda a, b, reduce: livegrad.sparse.mm(a, b, reduce),
    "_to_copy": _to_copy,
    "_unsafe_view": lambda x, size: x.view(size),
    "alias": lambda x: x.view(x.shape),
    "convolution": _convolution,
    "index": _index,
    "lift_fresh": lambda x: x,
    "lift_fresh_copy": lambda x: x.clone(),
    "slice": _slice,
}
