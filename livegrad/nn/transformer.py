"""The Transformer: layers of attention and feed-forward networks, encoder and decoder."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from livegrad.autograd import is_grad_enabled
from livegrad.creation import full
from livegrad.dtypes import bool_
from livegrad.nn import functional as F, init
from livegrad.nn.activation import GELU, ReLU
from livegrad.nn.attention import MultiheadAttention
from livegrad.nn.container import ModuleList
from livegrad.nn.dropout import Dropout
from livegrad.nn.linear import Linear
from livegrad.nn.module import Module
from livegrad.nn.normalization import LayerNorm
from livegrad.ops.shaping.triangles import triu
from livegrad.tensor import Tensor

Activation = str | Callable[[Any], Any]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
    """(sz, sz): -inf above the diagonal, where the future is, 0 elsewhere."""
    return triu(full((sz, sz), -math.inf, dtype=dtype, device=device), 1)


def _get_activation_fn(activation: str) -> Callable[[Any], Any]:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class _Layer(Module):
    """What encoder and decoder layers share: the feed-forward part, and the order of things."""

    dropout1: Dropout
    dropout2: Dropout
    dropout3: Dropout

    def __init__(
        self,
        attentions: tuple[str, ...],
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **factory
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **factory)
        self.norm_first = norm_first
        numbers = range(1, len(attentions) + 2)
        for i in numbers:
            self.add_module(f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **factory))
        for i in numbers:
            self.add_module(f"dropout{i}", Dropout(dropout))
        known = _get_activation_fn(activation) if isinstance(activation, str) else activation
        self.activation = known

    def _feed_forward(self, x: Tensor, dropout: Dropout) -> Tensor:
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def _wrapped(
        self, x: Tensor, norm: Callable[[Tensor], Tensor], block: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """`x` plus a block of it, normalised before the block or after the sum."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each added to its input and normalised.

    Args:
        d_model: features.
        nhead: heads of attention.
        dim_feedforward: features inside.
        dropout: its probability.
        activation: "relu", "gelu" or a function.
        batch_first: (N, L, E) instead of (L, N, E).
        norm_first: norms before the parts instead of behind them.

    Example:
        >>> nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(lg.ones(2, 5, 8)).shape
        livegrad.Size([2, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options = (batch_first, norm_first, bias, device, dtype)
        super().__init__(("self_attn",), *sizes, *options)

    def forward(
        self,
        src: Tensor,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:
        """`src` (L, N, E) after the layer; masks as in MultiheadAttention."""
        masks = (src_mask, src_key_padding_mask, is_causal)
        x = self._wrapped(src, self.norm1, lambda x: self._sa_block(x, *masks))
        return self._wrapped(x, self.norm2, self._ff_block)

    def _sa_block(
        self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Tensor:
        out, _ = self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)
        return self.dropout1(out)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self._feed_forward(x, self.dropout2)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's result, and a feed-forward network."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options = (batch_first, norm_first, bias, device, dtype)
        super().__init__(("self_attn", "multihead_attn"), *sizes, *options)

    def forward(
        self,
        tgt: Tensor,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """`tgt` (L, N, E) after the layer, which looks at `memory` (S, N, E)."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = self._wrapped(tgt, self.norm1, lambda x: self._sa_block(x, *own))
        x = self._wrapped(x, self.norm2, lambda x: self._mha_block(x, memory, *other))
        return self._wrapped(x, self.norm3, self._ff_block)

    def _sa_block(
        self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Tensor:
        out, _ = self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)
        return self.dropout1(out)

    def _mha_block(
        self, x: Tensor, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Tensor:
        out, _ = self.multihead_attn(
            x, mem, mem, key_padding_mask, False, attn_mask, is_causal=is_causal
        )
        return self.dropout2(out)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self._feed_forward(x, self.dropout3)


class TransformerEncoder(Module):
    """Copies of a TransformerEncoderLayer over each other, and perhaps a norm.

    With `enable_nested_tensor`, and where PyTorch would compute without the padding (no gradients,
    not training), rows of padding at the end are 0, as there; `mask_check` looks whether they are.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> nn.TransformerEncoder(layer, num_layers=2)(lg.ones(2, 5, 8)).shape
        livegrad.Size([2, 5, 8])
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        self.use_nested_tensor = enable_nested_tensor and _could_be_nested(encoder_layer)

    def forward(
        self,
        src: Tensor,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """`src` after all layers. Without `is_causal`, the mask is applied whatever it is."""
        unpadded = mask is None and self._leaves_padding_out(src, src_key_padding_mask)
        for layer in self.layers:
            src = layer(
                src,
                src_mask=mask,
                src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )
        if unpadded:
            src = src.masked_fill(_padding(src_key_padding_mask, self.mask_check), 0.0)
        return src if self.norm is None else self.norm(src)

    def _leaves_padding_out(self, src: Any, padding: Any) -> bool:
        """Whether PyTorch would compute with a nested tensor."""
        first = self.layers[0]
        if padding is None or not self.use_nested_tensor or first.training or src.ndim != 3:
            return False
        if src.is_nested:
            return False
        return not (
            is_grad_enabled() and any([x.requires_grad for x in (src, *first.parameters())])
        )


def _could_be_nested(layer: Any) -> bool:
    attention = getattr(layer, "self_attn", None)
    if not isinstance(layer, TransformerEncoderLayer) or not isinstance(
        attention, MultiheadAttention
    ):
        return False
    known = layer.activation in (F.relu, F.gelu) or isinstance(layer.activation, ReLU | GELU)
    return bool(
        known
        and not layer.norm_first
        and attention.batch_first
        and attention.in_proj_bias is not None
        and layer.norm1.eps == layer.norm2.eps
        and attention.num_heads % 2 == 0
    )


def _padding(mask: Any, check: bool) -> Any:
    """(N, L, 1): which rows are padding; none, if `check` finds some that are not at the end."""
    padding = mask if mask.dtype is bool_ else mask != 0
    if check:
        at_end = (padding[:, 1:] | ~padding[:, :-1]).all()
        padding = padding & at_end
    return padding[:, :, None]


class TransformerDecoder(Module):
    """Copies of a TransformerDecoderLayer over each other, and perhaps a norm."""

    def __init__(
        self,
        decoder_layer: TransformerDecoderLayer,
        num_layers: int,
        norm: Module | None = None,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """`tgt` after all layers. Without `tgt_is_causal`, the mask is applied whatever it is."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder that looks at its result ("Attention Is All You Need").

    Example:
        >>> net = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
        >>> net(lg.ones(1, 5, 8), lg.ones(1, 3, 8)).shape
        livegrad.Size([1, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options = (batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*sizes, *options)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            block = TransformerDecoderLayer(*sizes, *options)
            self.decoder = TransformerDecoder(block, num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(L, N, E) from `src` (S, N, E) and `tgt` (L, N, E)."""
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        out: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )
        return out

    generate_square_subsequent_mask = staticmethod(_generate_square_subsequent_mask)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
