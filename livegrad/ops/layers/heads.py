"""Attention with several heads, as `torch.nn.MultiheadAttention` computes it."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.ops.elementwise.arithmetic import add, mul, where
from livegrad.ops.layers.attention import scaled_dot_product_attention
from livegrad.ops.layers.composite import softmax, to_dtype
from livegrad.ops.making.generate import filled
from livegrad.ops.making.random import dropout
from livegrad.ops.products.matmul import baddbmm, bmm, linear
from livegrad.ops.reductions.reduce import mean
from livegrad.ops.shaping.joining import cat, pad

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _need(holds: bool, message: str) -> None:
    """AssertionError, PyTorch's class for most of these mistakes."""
    if not holds:
        raise AssertionError(f"multi_head_attention_forward: {message}")


def _is_batched(
    q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int
) -> bool:
    for x in (q, k, v, padding, mask):
        if x is not None:
            node_of(x)  # or it is no tensor
    _need(
        q.ndim in (2, 3),
        f"query should be unbatched 2D or batched 3D tensor but received {q.ndim}-D query tensor",
    )
    _need(
        k.ndim == q.ndim == v.ndim,
        f"expected key and value to be {q.ndim}-D like query; got {k.ndim}-D and {v.ndim}-D",
    )
    _need(
        padding is None or padding.ndim == q.ndim - 1,
        f"expected key_padding_mask to be None or {q.ndim - 1}-D for {q.ndim}-D query",
    )
    _need(mask is None or mask.ndim in (2, 3), "expected attn_mask to be None, 2-D or 3-D")
    if q.ndim == 2 and mask is not None and mask.ndim == 3:
        wanted = (heads, q.shape[0], k.shape[0])
        _need(
            tuple(mask.shape) == wanted,
            f"expected attn_mask shape to be {wanted} but got {tuple(mask.shape)}",
        )
    return bool(q.ndim == 3)


def _as_numbers(mask: Tensor | None, name: str, dtype: DType) -> Tensor | None:
    """A mask as numbers to add: True becomes -inf."""
    if mask is None:
        return None
    given = node_of(mask).meta.dtype
    _need(
        given is dtypes.bool_ or given.is_floating_point,
        f"only bool and floating types of {name} are supported; got {given.name}",
    )
    if given is not dtypes.bool_:
        return mask
    return to_dtype(where(mask, -math.inf, 0.0), dtype)


def _projected(
    inputs: tuple[Tensor, Tensor, Tensor],
    packed: Tensor | None,
    bias: Tensor | None,
    separate: tuple[Tensor | None, ...] | None,
) -> list[Tensor]:
    """query, key and value by their weights, which are packed into one matrix or separate."""
    q, k, v = inputs
    size = q.shape[-1]
    if separate is None:
        if packed is None:
            raise AssertionError(
                "multi_head_attention_forward: use_separate_proj_weight is False but "
                "in_proj_weight is None"
            )
        if q is k is v:  # one product for all three
            return list(linear(q, packed, bias).chunk(3, -1))
        weights = packed.chunk(3)
    else:
        weights = ()
        for weight, x, what in zip(separate, inputs, ("q", "k", "v"), strict=True):
            if weight is None:
                raise AssertionError(
                    "multi_head_attention_forward: use_separate_proj_weight is True but "
                    f"{what}_proj_weight is None"
                )
            wanted = (size, x.shape[-1])
            _need(
                tuple(weight.shape) == wanted,
                f"expecting {what} weights shape of {wanted}, but got {tuple(weight.shape)}",
            )
            weights += (weight,)
    if bias is not None:
        node_of(bias)  # or it is no tensor
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if bias is not None and len(biases) != 3:
        raise RuntimeError(
            "multi_head_attention_forward: in_proj_bias must hold the biases of query, key and "
            f"value; got shape {list(bias.shape)}"
        )
    return [linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]


class _Masks:
    """Numbers added to the scores: of single queries and keys, and of keys that are padding."""

    def __init__(self, mask: Tensor | None, padding: Tensor | None) -> None:
        self.mask = mask
        self.padding = padding

    def check(self, wanted: tuple[int, int], stacked: int) -> None:
        """RuntimeError unless the mask is (L, S) or (stacked, L, S); it gets three dims."""
        mask = self.mask
        if mask is None:
            return
        full = wanted if mask.ndim == 2 else (stacked, *wanted)
        if tuple(mask.shape) != full:
            raise RuntimeError(
                f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be "
                f"{full}."
            )
        self.mask = mask.unsqueeze(0) if mask.ndim == 2 else mask

    def add_key(self) -> None:
        """One more key, which everybody may look at."""
        if self.mask is not None:
            self.mask = pad(self.mask, (0, 1))
        if self.padding is not None:
            self.padding = pad(self.padding, (0, 1))

    def merged(self, batch: int, heads: int, keys: int) -> Tensor | None:
        """Both as one, broadcastable to (batch * heads, L, keys)."""
        padding = self.padding
        if padding is None:
            return self.mask
        _need(
            tuple(padding.shape) == (batch, keys),
            f"expected key_padding_mask of shape {(batch, keys)}, but got {tuple(padding.shape)}",
        )
        wide = padding.reshape(batch, 1, 1, keys).expand(batch, heads, 1, keys)
        wide = wide.reshape(batch * heads, 1, keys)
        return wide if self.mask is None else add(self.mask, wide)


def _by_head(x: Tensor, given: Tensor | None, name: str, stacked: int, size: int) -> Tensor:
    """(length, N, E) as (N * heads, length, size), or what was given in its place."""
    if given is None:
        return x.reshape(x.shape[0], stacked, size).transpose(0, 1)
    _need(
        given.shape[0] == stacked and given.shape[2] == size,
        f"expecting {name} of sizes ({stacked}, length, {size}), but got {tuple(given.shape)}",
    )
    return given


def _warn_of_dtypes(mask: Tensor | None, padding: Tensor | None) -> None:
    if mask is not None and padding is not None and mask.dtype is not padding.dtype:
        warnings.warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type "
            "for both instead.",
            stacklevel=3,
        )


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention in `num_heads` parts of the features, between two linear layers.

    Args:
        query: (L, N, E), or (L, E) without a batch; key and value likewise with length S.
        bias_k: a key (and `bias_v` its value) put behind all keys.
        add_zero_attn: put a key and a value of zeros behind all.
        key_padding_mask: (N, S), True (or -inf) at keys that nobody may look at.
        attn_mask: (L, S) or (N * heads, L, S), True (or -inf) where a query may not look.
        need_weights: give the shares of the keys as second result, the mean over heads unless
            `average_attn_weights` is False.
        is_causal: a hint that `attn_mask` is the causal mask.
    """
    batched = _is_batched(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same_key, same_value = key is query, value is key
        query = query.unsqueeze(1)
        key = query if same_key else key.unsqueeze(1)
        value = key if same_value else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, features = query.shape
    _need(num_heads > 0, f"expected a positive number of heads; got {num_heads}")
    size, stacked = features // num_heads, batch * num_heads
    agree = 2 if use_separate_proj_weight else 3
    _need(
        features == embed_dim_to_check,
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {features}",
    )
    _need(size * num_heads == features, f"embed_dim {features} not divisible by {num_heads} heads")
    _need(
        key.shape[:agree] == value.shape[:agree],
        f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}",
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. Pass the causal mask as attn_mask"
        )
    _warn_of_dtypes(attn_mask, key_padding_mask)
    dtype = node_of(query).meta.dtype
    hinted = is_causal and key_padding_mask is None and not need_weights
    masks = _Masks(
        None if hinted else _as_numbers(attn_mask, "attn_mask", dtype),
        _as_numbers(key_padding_mask, "key_padding_mask", dtype),
    )
    masks.check((length, key.shape[0]), stacked)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected((query, key, value), in_proj_weight, in_proj_bias, separate)
    _need((bias_k is None) == (bias_v is None), "bias_k and bias_v must be given together")
    if bias_k is not None and bias_v is not None:
        _need(static_k is None and static_v is None, "bias cannot be added to static key or value.")
        k = cat([k, bias_k.reshape(1, 1, features).expand(1, batch, features)])
        v = cat([v, bias_v.reshape(1, 1, features).expand(1, batch, features)])
        masks.add_key()
    q = _by_head(q, None, "", stacked, size)
    k = _by_head(k, static_k, "static_k", stacked, size)
    v = _by_head(v, static_v, "static_v", stacked, size)
    if add_zero_attn:
        nothing = filled((stacked, 1, size), 0, node_of(k).meta.dtype)
        k, v = cat([k, nothing], 1), cat([v, nothing], 1)
        masks.add_key()
    mask = masks.merged(batch, num_heads, k.shape[1])
    p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        out, weights = _with_weights(q, k, v, mask, p)
        weights = weights.reshape(batch, num_heads, length, k.shape[1])
        weights = mean(weights, 1) if average_attn_weights else weights
    else:
        out = _without_weights(q, k, v, mask, p, hinted, batch)
    out = out.transpose(0, 1).reshape(length * batch, features)
    out = linear(out, out_proj_weight, out_proj_bias)
    out = out.reshape(length, batch, out.shape[1])
    if batched:
        return out, weights
    return out.squeeze(1), None if weights is None else weights.squeeze(0)


def _with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float
) -> tuple[Tensor, Tensor]:
    scaled = mul(q, math.sqrt(1.0 / q.shape[-1]))
    turned = k.transpose(-2, -1)
    scores = bmm(scaled, turned) if mask is None else baddbmm(mask, scaled, turned)
    weights = dropout(softmax(scores, -1), p, p > 0)
    return bmm(weights, v), weights


def _without_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float, causal: bool, batch: int
) -> Tensor:
    """Attention of (N * heads, …), seen as (N, heads, …) where a mask needs it."""
    heads = q.shape[0] // batch if batch else 0
    if mask is not None:
        mask = (
            mask.unsqueeze(0) if mask.shape[0] == 1 else mask.reshape(batch, heads, -1, k.shape[1])
        )
    q, k, v = [x.reshape(batch, heads, *x.shape[1:]) for x in (q, k, v)]
    out = scaled_dot_product_attention(q, k, v, mask, p, causal)
    return out.reshape(batch * heads, *out.shape[2:])
