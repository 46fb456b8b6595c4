"""ViT: an image as a sentence of patches."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.models.registry import model
from livegrad.vision.ops.misc import MLP, Conv2dNormActivation

Layer = Callable[..., nn.Module]
_NORM = partial(nn.LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """One of several convolutions that make the patches."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Layer = nn.BatchNorm2d
    activation_layer: Layer = nn.ReLU


class MLPBlock(MLP):
    """Two linear layers with GELU between them."""

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(
            in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, inplace=None, dropout=dropout
        )
        for layer in self:
            if isinstance(layer, nn.Linear):
                init.xavier_uniform_(layer.weight)
                init.normal_(layer.bias, std=1e-6)

    def _load_from_state_dict(
        self, state: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if (local_metadata.get("version") or 1) < 2:  # layers were linear_1 and linear_2
            for old, new in (("linear_1", "0"), ("linear_2", "3")):
                for kind in ("weight", "bias"):
                    if f"{prefix}{old}.{kind}" in state:
                        state[f"{prefix}{new}.{kind}"] = state.pop(f"{prefix}{old}.{kind}")
        super()._load_from_state_dict(state, prefix, local_metadata, *rest)


class EncoderBlock(nn.Module):
    """Attention and two linear layers, each beside the identity, with the norm first."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Layer = _NORM,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(
            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        """(N, patches, width), the same shape."""
        if input.ndim != 3:
            raise RuntimeError(
                f"Expected (batch_size, seq_length, hidden_dim) got {tuple(input.shape)}"
            )
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Positions added, then blocks, then a norm."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Layer = _NORM,
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(lg.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i in range(num_layers):
            layers[f"encoder_layer_{i}"] = EncoderBlock(
                num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
            )
        self.layers = nn.Sequential(layers)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        """(N, patches, width), the same shape."""
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Patches, a token for the class before them, an encoder, a linear layer of that token."""

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Layer = _NORM,
        conv_stem_configs: Sequence[ConvStemConfig] | None = None,
    ) -> None:
        super().__init__()
        if image_size % patch_size != 0:
            raise ValueError("Input shape indivisible by patch size!")
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        self.conv_proj: Any = (
            _stem(conv_stem_configs, hidden_dim)
            if conv_stem_configs is not None
            else nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        )
        self.class_token = nn.Parameter(lg.zeros(1, 1, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(
            self.seq_length,
            num_layers,
            num_heads,
            hidden_dim,
            mlp_dim,
            dropout,
            attention_dropout,
            norm_layer,
        )
        heads: OrderedDict[str, nn.Module] = OrderedDict()
        width = representation_size or hidden_dim
        if representation_size is not None:
            heads["pre_logits"] = nn.Linear(hidden_dim, width)
            heads["act"] = nn.Tanh()
        heads["head"] = nn.Linear(width, num_classes)
        self.heads: Any = nn.Sequential(heads)
        self._initialise()

    def _initialise(self) -> None:
        last = self.conv_proj if isinstance(self.conv_proj, nn.Conv2d) else self.conv_proj[-1]
        fan_in = last.in_channels * last.kernel_size[0] * last.kernel_size[1]
        if last is self.conv_proj:
            init.trunc_normal_(last.weight, std=math.sqrt(1 / fan_in))
        else:
            init.normal_(last.weight, std=math.sqrt(2.0 / last.out_channels))
        init.zeros_(last.bias)
        if hasattr(self.heads, "pre_logits"):
            fan = self.heads.pre_logits.in_features
            init.trunc_normal_(self.heads.pre_logits.weight, std=math.sqrt(1 / fan))
            init.zeros_(self.heads.pre_logits.bias)
        init.zeros_(self.heads.head.weight)
        init.zeros_(self.heads.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, image_size, image_size)."""
        rows, _, height, width = x.shape
        if height != self.image_size or width != self.image_size:
            size = self.image_size
            raise AssertionError(
                f"Wrong image size! Expected {size}×{size} but got {height}×{width}!"
            )
        x = self.conv_proj(x).flatten(2).transpose(1, 2)  # (N, patches, width)
        x = lg.cat([self.class_token.expand(rows, -1, -1), x], 1)
        return self.heads(self.encoder(x)[:, 0])


def _stem(configs: Sequence[ConvStemConfig], hidden_dim: int) -> nn.Sequential:
    stem, channels = nn.Sequential(), 3
    for i, row in enumerate(configs):
        conv = Conv2dNormActivation(
            channels,
            row.out_channels,
            row.kernel_size,
            row.stride,
            norm_layer=row.norm_layer,
            activation_layer=row.activation_layer,
        )
        stem.add_module(f"conv_bn_relu_{i}", conv)
        channels = row.out_channels
    stem.add_module("conv_last", nn.Conv2d(channels, hidden_dim, 1))
    return stem


def interpolate_embeddings(
    image_size: int,
    patch_size: int,
    model_state: dict[str, Any],
    interpolation_mode: str = "bicubic",
    reset_heads: bool = False,
) -> dict[str, Any]:
    """A state dict whose positions are for images of another size; without a head if asked."""
    positions = model_state["encoder.pos_embedding"]
    _, length, width = positions.shape
    patches, wanted = length - 1, (image_size // patch_size) ** 2
    if wanted != patches:
        side, new = math.isqrt(patches), image_size // patch_size
        if side * side != patches:
            raise ValueError(f"seq_length is not a perfect square! Instead got {patches}")
        grid = positions[:, 1:].permute(0, 2, 1).reshape(1, width, side, side)
        grid = F.interpolate(grid, size=new, mode=interpolation_mode, align_corners=True)
        moved = grid.reshape(1, width, wanted).permute(0, 2, 1)
        model_state["encoder.pos_embedding"] = lg.cat([positions[:, :1], moved], 1)
    if reset_heads:
        return {key: value for key, value in model_state.items() if not key.startswith("heads")}
    return model_state


def _vit(patch: int, layers: int, heads: int, width: int, **options: Any) -> VisionTransformer:
    """`conv_proj`, `encoder` and `heads` of a vision transformer."""
    options = {"image_size": 224, **options}
    return VisionTransformer(
        patch_size=patch,
        num_layers=layers,
        num_heads=heads,
        hidden_dim=width,
        mlp_dim=4 * width,
        **options,
    )


vit_b_16 = model("vit_b_16", _vit, 16, 12, 12, 768)
vit_b_32 = model("vit_b_32", _vit, 32, 12, 12, 768)
vit_l_16 = model("vit_l_16", _vit, 16, 24, 16, 1024)
vit_l_32 = model("vit_l_32", _vit, 32, 24, 16, 1024)
vit_h_14 = model("vit_h_14", _vit, 14, 32, 16, 1280)
