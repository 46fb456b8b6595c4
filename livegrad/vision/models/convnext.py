"""ConvNeXt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.models.registry import model
from livegrad.vision.ops.misc import Conv2dNormActivation, Permute
from livegrad.vision.ops.stochastic_depth import StochasticDepth

Layer = Callable[..., nn.Module]


class LayerNorm2d(nn.LayerNorm):
    """Normalises the channels of every pixel of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        last = input.permute(0, 2, 3, 1)
        last = F.layer_norm(last, self.normalized_shape, self.weight, self.bias, self.eps)
        return last.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """A 7×7 convolution of every channel, then two linear layers of every pixel."""

    def __init__(
        self,
        dim: int,
        layer_scale: float,
        stochastic_depth_prob: float,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim),
            Permute([0, 2, 3, 1]),
            norm(dim),
            nn.Linear(dim, 4 * dim),
            nn.GELU(),
            nn.Linear(4 * dim, dim),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(lg.ones(dim, 1, 1) * layer_scale)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        """What the branch adds to the input."""
        return self.stochastic_depth(self.layer_scale * self.block(input)) + input


class CNBlockConfig(NamedTuple):
    """A stage: its width, the width of the next one, its blocks."""

    input_channels: int
    out_channels: int | None
    num_layers: int


class ConvNeXt(nn.Module):
    """A stem, four stages with a smaller size each, the mean, a linear layer."""

    def __init__(
        self,
        block_setting: Sequence[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError("The block_setting should not be empty")
        block, norm = block or CNBlock, norm_layer or partial(LayerNorm2d, eps=1e-6)
        first = block_setting[0].input_channels
        stem = Conv2dNormActivation(
            3, first, 4, 4, 0, norm_layer=norm, activation_layer=None, bias=True
        )
        layers: list[nn.Module] = [stem]
        total, done = sum(stage.num_layers for stage in block_setting), 0
        for width, following, repeats in block_setting:
            depths = [stochastic_depth_prob * (done + i) / (total - 1.0) for i in range(repeats)]
            layers.append(nn.Sequential(*[block(width, layer_scale, p) for p in depths]))
            done += repeats
            if following is not None:
                layers.append(nn.Sequential(norm(width), nn.Conv2d(width, following, 2, 2)))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        last = block_setting[-1].out_channels or block_setting[-1].input_channels
        self.classifier = nn.Sequential(norm(last), nn.Flatten(1), nn.Linear(last, num_classes))
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                init.trunc_normal_(layer.weight, std=0.02)
                if layer.bias is not None:
                    init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        return self.classifier(self.avgpool(self.features(x)))


def _convnext(width: int, deep: int, stochastic_depth_prob: float, **options: Any) -> ConvNeXt:
    """`features`, `avgpool` and `classifier` of ConvNeXt."""
    widths = [width << i for i in range(4)]
    stages = zip(widths, [*widths[1:], None], (3, 3, deep, 3), strict=True)
    options = {"stochastic_depth_prob": stochastic_depth_prob, **options}
    return ConvNeXt([CNBlockConfig(*row) for row in stages], **options)


convnext_tiny = model("convnext_tiny", _convnext, 96, 9, stochastic_depth_prob=0.1)
convnext_small = model("convnext_small", _convnext, 96, 27, stochastic_depth_prob=0.4)
convnext_base = model("convnext_base", _convnext, 128, 27, stochastic_depth_prob=0.5)
convnext_large = model("convnext_large", _convnext, 192, 27, stochastic_depth_prob=0.5)
