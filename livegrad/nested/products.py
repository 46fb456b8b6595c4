"""Layers and products: of the packed values where each row stands for itself, else padded."""

from __future__ import annotations

from typing import Any

from livegrad.nested.padding import contiguous, gathered, padded
from livegrad.nested.tensor import ANSWERS, NestedTensor, nested, plain, short_name
from livegrad.sequences import arange

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def _last_dim(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """What takes each row of the last dim for itself: linear, embedding."""
    x = args[0] if args else kwargs.pop("input")
    name = short_name(func)
    if not isinstance(x, NestedTensor):
        raise RuntimeError(f"{name}(): expected the input, and nothing else, to be nested")
    if x._ragged_idx == x.ndim - 1 and name != "embedding":
        raise RuntimeError(f"{name}(): not supported for NestedTensor with a ragged last dim")
    return x._like(func(plain(x), *args[1:], **kwargs))


def _norm(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Norms of the last dims."""
    x = args[0]
    sizes: Any = kwargs.get("normalized_shape", args[1] if len(args) > 1 else ())
    count = 1 if isinstance(sizes, int) else len(sizes)
    if x.ndim - count <= x._ragged_idx:
        raise RuntimeError(
            f"{short_name(func)}(): normalizing over ragged dim not supported for NestedTensor"
        )
    return x._like(func(plain(x), *args[1:], **kwargs))


def _matmul(func: Any, args: Args, kwargs: Kwargs) -> Any:
    left = args[0]
    right = args[1] if len(args) > 1 else next(iter(kwargs.values()))
    if isinstance(left, NestedTensor) and not isinstance(right, NestedTensor):
        if right.ndim <= 2 and left._ragged_idx < left.ndim - 1:
            dropped = right.ndim == 1
            out = plain(left).matmul(right)
            return nested(out, left._ragged, left._ragged_idx) if dropped else left._like(out)
        if left._ragged_idx == left.ndim - 2 and right.ndim == left.ndim:
            return _rows_times(contiguous(left), right)
    if isinstance(left, NestedTensor) and isinstance(right, NestedTensor):
        same = left._ragged is right._ragged and left.ndim == right.ndim
        if same and left._ragged_idx == left.ndim - 1 and right._ragged_idx == right.ndim - 2:
            return padded(left, 0).matmul(padded(right, 0))  # the ragged dim is summed over
    shapes = [x._shape() if isinstance(x, NestedTensor) else tuple(x.shape) for x in (left, right)]
    raise RuntimeError(
        f"matmul(): not supported between inputs of shapes {shapes[0]} and {shapes[1]}"
    )


def _rows_times(left: NestedTensor, right: Any) -> Any:
    """Each component times a matrix of its own."""
    at = left._ragged_idx
    total = plain(left).shape[at - 1]
    return nested(
        gathered(padded(left, 0).matmul(right), left._ragged, at, total), left._ragged, at
    )


def _attention(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Each component attends to itself: padded, with the padding of keys masked."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = dict(zip(names, args, strict=False)) | kwargs
    query, key, value = [given.pop(name) for name in names[:3]]
    if not all([isinstance(x, NestedTensor) for x in (query, key, value)]):
        raise ValueError(
            "scaled_dot_product_attention(): expected query, key and value to be nested, all three"
        )
    if given.get("attn_mask") is not None:
        raise ValueError("scaled_dot_product_attention(): masks are not supported with nested ones")
    query, key, value = contiguous(query), contiguous(key), contiguous(value)
    if not (query.ndim == key.ndim == value.ndim == 4 and query._ragged_idx == 2):
        raise ValueError(
            "scaled_dot_product_attention(): expected nested tensors of shape (batch, heads, "
            f"ragged, features); got {query._shape()}, {key._shape()} and {value._shape()}"
        )
    if key._ragged is not value._ragged:
        raise RuntimeError(
            "scaled_dot_product_attention(): expected key and value of the same lengths; got "
            f"{key._shape()} and {value._shape()}"
        )
    _, there = key._ragged.places(key._ragged.longest)
    mask = there[:, None, None, :]  # (batch, heads, queries, keys)
    if given.pop("is_causal", False):
        mask = mask & _causal(query._ragged.longest, key._ragged.longest)
    given["attn_mask"] = mask
    dense = func(padded(query, 0), padded(key, 0), padded(value, 0), **given)
    total = plain(query).shape[1]
    return nested(gathered(dense, query._ragged, 2, total), query._ragged, 2)


def _causal(queries: int, keys: int) -> Any:
    return arange(keys) <= arange(queries)[:, None]


for _name in ("linear", "embedding"):
    ANSWERS[_name] = _last_dim
for _name in ("layer_norm", "rms_norm"):
    ANSWERS[_name] = _norm
for _name in ("matmul", "bmm", "__matmul__", "__rmatmul__", "mm"):
    ANSWERS[_name] = _matmul
ANSWERS["scaled_dot_product_attention"] = _attention
