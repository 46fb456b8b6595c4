"""MultiheadAttention, and PyTorch's way to choose an implementation of attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from livegrad.creation import empty
from livegrad.nn import functional as F, init
from livegrad.nn.linear import NonDynamicallyQuantizableLinear
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.tensor import Tensor

__path__: list[str] = []  # what is asked of packages: `torch.nn.attention.flex_attention`


class MultiheadAttention(Module):
    """Attention in `num_heads` parts of the features, between linear layers.

        in_proj_weight (3 E, E)    of query, key and value; if key or value have features of their
                                   own number, q_proj_weight, k_proj_weight and v_proj_weight
        out_proj                   a Linear layer

    Weights start as `xavier_uniform_`, biases 0. See `functional.multi_head_attention_forward`.

    Example:
        >>> x = lg.ones(2, 5, 8)
        >>> out, weights = nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
        >>> out.shape, weights.shape
        (livegrad.Size([2, 5, 8]), livegrad.Size([2, 5, 5]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        packed = self._qkv_same_embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if packed else None,
            "q_proj_weight": None if packed else (embed_dim, embed_dim),
            "k_proj_weight": None if packed else (embed_dim, self.kdim),
            "v_proj_weight": None if packed else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            data = None if shape is None else empty(*shape, device=device, dtype=dtype)
            self.register_parameter(name, None if data is None else Parameter(data))
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draws new weights."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = self._parameters[name]
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for name in ("bias_k", "bias_v"):
            bias = self._parameters[name]
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """(result, weights or None).

        Args:
            query: (L, N, E), (N, L, E) with `batch_first`, or (L, E); key and value likewise, with
                length S.
            key_padding_mask: (N, S), True (or -inf) at keys that nobody may look at.
            attn_mask: (L, S) or (N * heads, L, S), True (or -inf) where a query may not look.
            is_causal: a hint that `attn_mask` is the causal mask.
        """
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = _time_first(query, key, value)
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(1, 0) if turned else out), weights


def _time_first(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """All with time before batch; what is one tensor stays one, so that it is projected once."""
    q = query.transpose(1, 0)
    k = q if key is query else key.transpose(1, 0)
    if value is key:
        return q, k, k
    return q, k, q if value is query else value.transpose(1, 0)


# ------------------------------------------------------------------------------ implementations


class SDPBackend(IntEnum):
    """PyTorch's implementations of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Accepted and without effect: how attention is computed is the compiler's business."""
    yield
