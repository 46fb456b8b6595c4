"""EfficientNet B0 to B7, and version 2."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from livegrad import Tensor, nn
from livegrad.vision.models import initial
from livegrad.vision.models._utils import make_divisible
from livegrad.vision.models.registry import model
from livegrad.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from livegrad.vision.ops.stochastic_depth import StochasticDepth

Layer = Callable[..., nn.Module]


@dataclass
class MBConvConfig:
    """A stage of blocks with depthwise convolutions."""

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    width_mult: float = 1.0
    depth_mult: float = 1.0

    def __post_init__(self) -> None:
        self.input_channels = self.adjust_channels(self.input_channels, self.width_mult)
        self.out_channels = self.adjust_channels(self.out_channels, self.width_mult)
        self.num_layers = math.ceil(self.num_layers * self.depth_mult)
        self.width_mult = self.depth_mult = 1.0  # they have been applied

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        """A width times a factor, divisible by 8."""
        return make_divisible(channels * width_mult, 8, min_value)

    @property
    def block(self) -> Layer:
        """What the stage is made of."""
        return MBConv


class FusedMBConvConfig(MBConvConfig):
    """A stage of blocks with ordinary convolutions."""

    @property
    def block(self) -> Layer:
        """What the stage is made of."""
        return FusedMBConv


class _Residual(nn.Module):
    """A block beside the identity, where sizes agree."""

    def __init__(self, cnf: MBConvConfig, stochastic_depth_prob: float, layers: Any) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        """The block, and the input where it can be added."""
        found = self.block(input)
        return self.stochastic_depth(found) + input if self.use_res_connect else found


class MBConv(_Residual):
    """Widens, convolves every channel by itself, weighs channels, narrows."""

    def __init__(
        self,
        cnf: MBConvConfig,
        stochastic_depth_prob: float,
        norm_layer: Layer,
        se_layer: Layer = SqueezeExcitation,
    ) -> None:
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        before, width = (
            cnf.input_channels,
            cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio),
        )
        layers: list[nn.Module] = [conv(before, width, 1)] if width != before else []
        layers.append(conv(width, width, cnf.kernel, cnf.stride, groups=width))
        squeeze = max(1, before // 4)
        layers.append(se_layer(width, squeeze, activation=partial(nn.SiLU, inplace=True)))
        layers.append(conv(width, cnf.out_channels, 1, activation_layer=None))
        super().__init__(cnf, stochastic_depth_prob, layers)


class FusedMBConv(_Residual):
    """Widens by an ordinary convolution, narrows."""

    def __init__(self, cnf: MBConvConfig, stochastic_depth_prob: float, norm_layer: Layer) -> None:
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        before, width = (
            cnf.input_channels,
            cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio),
        )
        if width == before:
            layers = [conv(before, cnf.out_channels, cnf.kernel, cnf.stride)]
        else:
            layers = [
                conv(before, width, cnf.kernel, cnf.stride),
                conv(width, cnf.out_channels, 1, activation_layer=None),
            ]
        super().__init__(cnf, stochastic_depth_prob, layers)


class EfficientNet(nn.Module):
    """A stem, stages, a last convolution, the mean, a linear layer."""

    def __init__(
        self,
        inverted_residual_setting: Sequence[MBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Layer | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        stages = list(inverted_residual_setting)
        if not stages:
            raise ValueError("The inverted_residual_setting should not be empty")
        norm = norm_layer or nn.BatchNorm2d
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.SiLU)
        layers: list[nn.Module] = [conv(3, stages[0].input_channels, 3, 2)]
        total, done = float(sum(stage.num_layers for stage in stages)), 0
        for stage in stages:
            blocks = []
            for i in range(stage.num_layers):
                row = replace(stage, input_channels=stage.out_channels, stride=1) if i else stage
                blocks.append(stage.block(row, stochastic_depth_prob * done / total, norm))
                done += 1
            layers.append(nn.Sequential(*blocks))
        before = stages[-1].out_channels
        width = last_channel if last_channel is not None else 4 * before
        self.features = nn.Sequential(*layers, conv(before, width, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout, inplace=True), nn.Linear(width, num_classes)
        )
        initial.kaiming(self)
        initial.even_by_outputs(self.classifier[1])

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


# expansion, kernel, stride, input, output, blocks
_B = (
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
)
# How many stages at the beginning are fused; the stages.
_V2_S = (
    3,
    ((1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4))
    + ((4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15)),
)
_V2_M = (
    3,
    ((1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5), (4, 3, 2, 80, 160, 7))
    + ((6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5)),
)
_V2_L = (
    3,
    ((1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7), (4, 3, 2, 96, 192, 10))
    + ((6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25), (6, 3, 1, 384, 640, 7)),
)
_WIDE_NORM = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)  # of the largest B
_V2_NORM = partial(nn.BatchNorm2d, eps=1e-3)


def _b(width_mult: float, depth_mult: float, **options: Any) -> EfficientNet:
    """`features`, `avgpool` and `classifier` of EfficientNet."""
    return EfficientNet([MBConvConfig(*row, width_mult, depth_mult) for row in _B], **options)


def _v2(fused: int, rows: Sequence[tuple[int, ...]], **options: Any) -> EfficientNet:
    """`features`, `avgpool` and `classifier` of EfficientNet, version 2."""
    kinds = [FusedMBConvConfig] * fused + [MBConvConfig] * (len(rows) - fused)
    stages = [kind(*row) for kind, row in zip(kinds, rows, strict=True)]
    return EfficientNet(stages, **{"norm_layer": _V2_NORM, "last_channel": 1280, **options})


efficientnet_b0 = model("efficientnet_b0", _b, 1.0, 1.0, dropout=0.2)
efficientnet_b1 = model("efficientnet_b1", _b, 1.0, 1.1, dropout=0.2)
efficientnet_b2 = model("efficientnet_b2", _b, 1.1, 1.2, dropout=0.3)
efficientnet_b3 = model("efficientnet_b3", _b, 1.2, 1.4, dropout=0.3)
efficientnet_b4 = model("efficientnet_b4", _b, 1.4, 1.8, dropout=0.4)
efficientnet_b5 = model("efficientnet_b5", _b, 1.6, 2.2, dropout=0.4, norm_layer=_WIDE_NORM)
efficientnet_b6 = model("efficientnet_b6", _b, 1.8, 2.6, dropout=0.5, norm_layer=_WIDE_NORM)
efficientnet_b7 = model("efficientnet_b7", _b, 2.0, 3.1, dropout=0.5, norm_layer=_WIDE_NORM)
efficientnet_v2_s = model("efficientnet_v2_s", _v2, *_V2_S, dropout=0.2)
efficientnet_v2_m = model("efficientnet_v2_m", _v2, *_V2_M, dropout=0.3)
efficientnet_v2_l = model("efficientnet_v2_l", _v2, *_V2_L, dropout=0.4)
