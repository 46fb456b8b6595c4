"""Swin: attention within windows, which move by half their size in every other block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.models.registry import model
from livegrad.vision.ops.misc import MLP, Permute
from livegrad.vision.ops.stochastic_depth import StochasticDepth

Layer = Callable[..., nn.Module]


def _quarters(x: Tensor) -> Tensor:
    """(…, H, W, C) as (…, H/2, W/2, 4C), an odd size filled up with zeros."""
    height, width = x.shape[-3:-1]
    x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    parts = [x[..., row::2, column::2, :] for column in (0, 1) for row in (0, 1)]
    return lg.cat(parts, -1)


class PatchMerging(nn.Module):
    """Four neighbours become one of twice the width."""

    def __init__(self, dim: int, norm_layer: Layer = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        """(…, H, W, C) to (…, H/2, W/2, 2C)."""
        return self.reduction(self.norm(_quarters(x)))


class PatchMergingV2(nn.Module):
    """`PatchMerging` with the norm last."""

    def __init__(self, dim: int, norm_layer: Layer = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(2 * dim)

    def forward(self, x: Tensor) -> Tensor:
        """(…, H, W, C) to (…, H/2, W/2, 2C)."""
        return self.norm(self.reduction(_quarters(x)))


def _windows(x: Tensor, window: Sequence[int]) -> Tensor:
    """(N, H, W, C) as (N · windows, pixels of one, C)."""
    rows, height, width, channels = x.shape
    x = x.reshape(rows, height // window[0], window[0], width // window[1], window[1], channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, window[0] * window[1], channels)


def _image(x: Tensor, window: Sequence[int], height: int, width: int) -> Tensor:
    """Windows put together again."""
    channels = x.shape[-1]
    x = x.reshape(-1, height // window[0], width // window[1], window[0], window[1], channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, height, width, channels)


def _mask(
    height: int, width: int, window: Sequence[int], shift: Sequence[int], x: Tensor
) -> Tensor:
    """-100 between pixels of a window that come from different sides of the image.

    (windows, pixels, pixels).
    """
    region = lg.zeros(1, height, width, 1, dtype=x.dtype, device=x.device)
    for dim, (size, side, by) in enumerate(zip((height, width), window, shift, strict=True), 1):
        at = lg.arange(size, device=x.device)
        part = (at >= size - side).to(x.dtype) + (at >= size - by).to(x.dtype)
        shape = [1, 1, 1, 1]
        shape[dim] = size
        region = region * 3 + part.reshape(shape)
    found = _windows(region, window).squeeze(-1)
    return (found.unsqueeze(1) != found.unsqueeze(2)).to(x.dtype) * -100.0


class ShiftedWindowAttention(nn.Module):
    """Attention among the pixels of each window, with a bias for how they lie to each other."""

    def __init__(
        self,
        dim: int,
        window_size: Sequence[int],
        shift_size: Sequence[int],
        num_heads: int,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError("window_size and shift_size must be of length 2")
        self.window_size, self.shift_size = list(window_size), list(shift_size)
        self.num_heads = num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self.define_relative_position_bias_table()
        self.define_relative_position_index()

    def define_relative_position_bias_table(self) -> None:
        """A number per head for each way that two pixels lie to each other."""
        ways = (2 * self.window_size[0] - 1) * (2 * self.window_size[1] - 1)
        table = init.trunc_normal_(lg.empty(ways, self.num_heads), std=0.02)
        self.relative_position_bias_table = nn.Parameter(table)

    def define_relative_position_index(self) -> None:
        """Which row of the table is for which pair of pixels."""
        height, width = self.window_size
        rows = lg.arange(height).repeat_interleave(width)
        columns = lg.arange(width).repeat(height)
        down = rows[:, None] - rows[None, :] + height - 1
        right = columns[:, None] - columns[None, :] + width - 1
        index = (down * (2 * width - 1) + right).flatten()
        self.register_buffer("relative_position_index", index)

    def _bias_of(self, table: Tensor) -> Tensor:
        pixels = self.window_size[0] * self.window_size[1]
        index: Any = self.relative_position_index
        return table[index].reshape(pixels, pixels, -1).permute(2, 0, 1).unsqueeze(0)

    def get_relative_position_bias(self) -> Tensor:
        """(1, heads, pixels, pixels)."""
        return self._bias_of(self.relative_position_bias_table)

    def _scores(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (windows, heads, pixels, pixels), and values."""
        q, k, v = self._heads(self.qkv(x))
        q = q * (x.shape[-1] // self.num_heads) ** -0.5
        return q @ k.transpose(-2, -1), v

    def _heads(self, x: Tensor) -> Any:
        count, pixels, width = x.shape
        x = x.reshape(count, pixels, 3, self.num_heads, width // 3 // self.num_heads)
        return x.permute(2, 0, 3, 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        """(N, H, W, C), the same shape; any size is filled up to whole windows."""
        rows, height, width, _ = x.shape
        window = self.window_size
        down, right = -height % window[0], -width % window[1]
        x = F.pad(x, (0, 0, 0, right, 0, down))
        sizes = height + down, width + right
        # A window as large as the image has nowhere to go.
        moves = zip(self.shift_size, window, sizes, strict=True)
        shift = [0 if side >= size else by for by, side, size in moves]
        if any(shift):
            x = x.roll((-shift[0], -shift[1]), (1, 2))
        x = _windows(x, window)
        scores, v = self._scores(x)
        scores = scores + self.get_relative_position_bias()
        if any(shift):
            mask = _mask(*sizes, window, shift, x)
            pixels = scores.shape[-1]
            shape = (rows, len(mask), self.num_heads, pixels, pixels)
            scores = scores.reshape(shape) + mask.unsqueeze(1).unsqueeze(0)
            scores = scores.reshape(-1, self.num_heads, pixels, pixels)
        weights = F.dropout(scores.softmax(-1), self.attention_dropout, self.training)
        x = (weights @ v).transpose(1, 2).reshape(x.shape)
        x = F.dropout(self.proj(x), self.dropout, self.training)
        x = _image(x, window, *sizes)
        if any(shift):
            x = x.roll((shift[0], shift[1]), (1, 2))
        return x[:, :height, :width]


class ShiftedWindowAttentionV2(ShiftedWindowAttention):
    """Scores are cosines; a small network makes the bias from distances."""

    def __init__(
        self,
        dim: int,
        window_size: Sequence[int],
        shift_size: Sequence[int],
        num_heads: int,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            dim,
            window_size,
            shift_size,
            num_heads,
            qkv_bias,
            proj_bias,
            attention_dropout,
            dropout,
        )
        self.logit_scale = nn.Parameter((10 * lg.ones(num_heads, 1, 1)).log())
        self.cpb_mlp = nn.Sequential(
            nn.Linear(2, 512), nn.ReLU(inplace=True), nn.Linear(512, num_heads, bias=False)
        )
        if qkv_bias:
            with lg.no_grad():
                self.qkv.bias[dim : 2 * dim] = 0

    def define_relative_position_bias_table(self) -> None:
        """Distances on a logarithmic scale, (1, 2H - 1, 2W - 1, 2)."""
        axes = []
        for side in self.window_size:
            at = lg.arange(1 - side, side, dtype=lg.float32) / (side - 1) * 8
            axes.append(at.sign() * (at.abs() + 1.0).log2() / 3.0)
        table = lg.stack(lg.meshgrid(*axes, indexing="ij"), -1).unsqueeze(0)
        self.register_buffer("relative_coords_table", table)

    def get_relative_position_bias(self) -> Tensor:
        """(1, heads, pixels, pixels)."""
        coords: Any = self.relative_coords_table
        return 16 * self._bias_of(self.cpb_mlp(coords).reshape(-1, self.num_heads)).sigmoid()

    def _scores(self, x: Tensor) -> tuple[Tensor, Tensor]:
        bias = self.qkv.bias
        if bias is not None:  # keys have none
            width = len(bias) // 3
            bias = lg.cat([bias[:width], lg.zeros_like(bias[:width]), bias[2 * width :]])
        q, k, v = self._heads(F.linear(x, self.qkv.weight, bias))
        cosines = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        return cosines * self.logit_scale.clamp(max=math.log(100.0)).exp(), v


class SwinTransformerBlock(nn.Module):
    """Attention and two linear layers, each beside the identity, with the norm first."""

    attention: Layer = ShiftedWindowAttention

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: Sequence[int],
        shift_size: Sequence[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
        attn_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = (attn_layer or type(self).attention)(
            dim,
            window_size,
            shift_size,
            num_heads,
            attention_dropout=attention_dropout,
            dropout=dropout,
        )
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        width = int(dim * mlp_ratio)
        self.mlp = MLP(dim, [width, dim], activation_layer=nn.GELU, dropout=dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(N, H, W, C), the same shape."""
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformerBlockV2(SwinTransformerBlock):
    """`SwinTransformerBlock` with the norm last."""

    attention = ShiftedWindowAttentionV2

    def forward(self, x: Tensor) -> Tensor:
        """(N, H, W, C), the same shape."""
        x = x + self.stochastic_depth(self.norm1(self.attn(x)))
        return x + self.stochastic_depth(self.norm2(self.mlp(x)))


class SwinTransformer(nn.Module):
    """Patches, four stages of blocks with a smaller size each, the mean, a linear layer."""

    def __init__(
        self,
        patch_size: Sequence[int],
        embed_dim: int,
        depths: Sequence[int],
        num_heads: Sequence[int],
        window_size: Sequence[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 1000,
        norm_layer: Layer | None = None,
        block: Layer | None = None,
        downsample_layer: Layer = PatchMerging,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        block, norm = block or SwinTransformerBlock, norm_layer or partial(nn.LayerNorm, eps=1e-5)
        patches = nn.Conv2d(3, embed_dim, tuple(patch_size), tuple(patch_size))
        stem = nn.Sequential(patches, Permute([0, 2, 3, 1]), norm(embed_dim))
        layers: list[nn.Module] = [stem]
        total, done, dim = sum(depths), 0, embed_dim
        for stage, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
            dim = embed_dim << stage
            blocks = []
            for i in range(depth):
                made = block(
                    dim,
                    heads,
                    window_size=window_size,
                    shift_size=[0 if i % 2 == 0 else side // 2 for side in window_size],
                    mlp_ratio=mlp_ratio,
                    dropout=dropout,
                    attention_dropout=attention_dropout,
                    stochastic_depth_prob=stochastic_depth_prob * float(done) / (total - 1),
                    norm_layer=norm,
                )
                blocks.append(made)
                done += 1
            layers.append(nn.Sequential(*blocks))
            if stage < len(depths) - 1:
                layers.append(downsample_layer(dim, norm))
        self.features = nn.Sequential(*layers)
        self.norm = norm(dim)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(dim, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                init.trunc_normal_(layer.weight, std=0.02)
                if layer.bias is not None:
                    init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))


def _swin(width: int, deep: int, heads: int, window: int, **options: Any) -> SwinTransformer:
    """`features`, `norm` and `head` of a Swin transformer."""
    shape = [4, 4], width, [2, 2, deep, 2], [heads << i for i in range(4)], [window, window]
    return SwinTransformer(*shape, **options)


_V2: dict[str, Any] = {"block": SwinTransformerBlockV2, "downsample_layer": PatchMergingV2}
swin_t = model("swin_t", _swin, 96, 6, 3, 7, stochastic_depth_prob=0.2)
swin_s = model("swin_s", _swin, 96, 18, 3, 7, stochastic_depth_prob=0.3)
swin_b = model("swin_b", _swin, 128, 18, 4, 7, stochastic_depth_prob=0.5)
swin_v2_t = model("swin_v2_t", _swin, 96, 6, 3, 8, stochastic_depth_prob=0.2, **_V2)
swin_v2_s = model("swin_v2_s", _swin, 96, 18, 3, 8, stochastic_depth_prob=0.3, **_V2)
swin_v2_b = model("swin_v2_b", _swin, 128, 18, 4, 8, stochastic_depth_prob=0.5, **_V2)
