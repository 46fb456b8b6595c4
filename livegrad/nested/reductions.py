"""Reductions and softmax, over dense dims, the ragged dim, or all."""

from __future__ import annotations

import math
from typing import Any

from livegrad import dtypes
from livegrad.nested.padding import contiguous, packed, padded
from livegrad.nested.tensor import ANSWERS, NestedTensor, nested, plain, short_name

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

# What changes nothing, and so may stand where a component has ended.
_NEUTRAL: dict[str, Any] = {
    "sum": 0, "mean": 0, "nansum": 0, "count_nonzero": 0, "any": False, "all": True, "prod": 1,
    "amax": -math.inf, "max": -math.inf, "argmax": -math.inf, "logsumexp": -math.inf,
    "amin": math.inf, "min": math.inf, "argmin": math.inf,
}  # fmt: skip


def neutral(name: str, dtype: Any) -> Any:
    """The padding for a reduction of a dtype."""
    value = _NEUTRAL[name]
    if not isinstance(value, float) or dtype.category >= dtypes.FLOAT:
        return value
    if dtype is dtypes.bool_:
        return value > 0
    info = dtypes.iinfo(dtype)
    return info.max if value > 0 else info.min


def dims_of(name: str, x: Any, dim: Any) -> list[int]:
    """Dims as numbers from 0."""
    given = dim if isinstance(dim, tuple | list) else (dim,)
    for d in given:
        if not -x.ndim <= d < x.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], "
                f"but got {d})"
            )
    return sorted({d % x.ndim for d in given})


def _reduce(func: Any, args: Args, kwargs: Kwargs) -> Any:
    name = short_name(func)
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    dim = rest.pop(0) if rest else kwargs.pop("dim", None)
    if isinstance(dim, NestedTensor):  # max(x, y)
        return ANSWERS["maximum" if name == "max" else "minimum"](func, args, kwargs)
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return func(plain(contiguous(x)), *rest, **kwargs)
    dims = dims_of(name, x, dim)
    keepdim = kwargs.pop("keepdim", rest.pop(0) if rest and isinstance(rest[0], bool) else False)
    if x._ragged_idx not in dims:
        return _over_dense(name, func, x, dim, dims, keepdim, kwargs)
    x = contiguous(x)
    if 0 in dims:
        return _over_all_rows(func, x, dims, keepdim, kwargs)
    if len(dims) > 1:
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for "
            "nested tensors"
        )
    return _over_ragged(name, func, x, dims[0], keepdim, kwargs)


def _over_dense(
    name: str, func: Any, x: Any, dim: Any, dims: list[int], keepdim: bool, kwargs: Kwargs
) -> Any:
    if 0 in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not "
            "supported for nested tensors"
        )
    inner: Any = [d - 1 for d in dims]
    at = x._ragged_idx
    if not keepdim:
        at -= sum([d < at for d in dims])
    result = func(plain(x), inner if isinstance(dim, tuple | list) else inner[0], keepdim, **kwargs)
    if isinstance(result, tuple):
        return type(result)(*[nested(part, x._ragged, at) for part in result])
    return nested(result, x._ragged, at)


def _over_all_rows(func: Any, x: Any, dims: list[int], keepdim: bool, kwargs: Kwargs) -> Any:
    """Over the components and the ragged dim: over all rows of the values."""
    inner = [d - 1 for d in dims if d]
    result = func(plain(x), inner, keepdim, **kwargs)
    return result.unsqueeze(0) if keepdim else result


def _over_ragged(name: str, func: Any, x: Any, dim: int, keepdim: bool, kwargs: Kwargs) -> Any:
    if name == "mean":
        total = padded(x, 0).sum(dim, keepdim, **kwargs)
        counts = x._ragged.length_of_each()
        return total / counts.reshape(-1, *[1] * (total.ndim - 1))
    return func(padded(x, neutral(name, x.dtype)), dim, keepdim, **kwargs)


def _softmax(func: Any, args: Args, kwargs: Kwargs) -> Any:
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    dim = rest.pop(0) if rest else kwargs.pop("dim")
    (d,) = dims_of(short_name(func), x, dim)
    if d == 0:
        raise RuntimeError(f"{short_name(func)}(): not supported for NestedTensor on dim=0")
    if d != x._ragged_idx:
        return x._like(func(plain(x), d - 1, *rest, **kwargs))
    x = contiguous(x)
    return x._like(packed(func(padded(x, -math.inf), d, *rest, **kwargs), x))


for _name in _NEUTRAL:
    ANSWERS[_name] = _reduce
for _name in ("softmax", "log_softmax", "softmin"):
    ANSWERS[_name] = _softmax


def _along(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """What takes the elements along a dense dim together, and keeps the dim or drops it."""
    name = short_name(func)
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    dim = rest.pop(0) if rest else kwargs.pop("dim", None)
    if dim is None:
        return func(plain(contiguous(x)), *rest, **kwargs)
    dims = dims_of(name, x, dim)
    if 0 in dims or x._ragged_idx in dims:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on the ragged dim or dim=0")
    inner: Any = [d - 1 for d in dims]
    result = func(plain(x), inner if isinstance(dim, tuple | list) else inner[0], *rest, **kwargs)
    parts = result if isinstance(result, tuple) else (result,)
    kept = parts[0].ndim == x.ndim - 1
    at = x._ragged_idx - (0 if kept else sum([d < x._ragged_idx for d in dims]))
    made = [nested(part, x._ragged, at) for part in parts]
    return type(result)(*made) if isinstance(result, tuple) else made[0]


for _name in ("std", "var", "cumsum", "cumprod", "sort", "argsort", "flip", "norm", "std_mean",
              "var_mean", "topk", "median", "glu", "normalize"):  # fmt: skip
    ANSWERS[_name] = _along
