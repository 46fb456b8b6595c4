"""RegNet: networks whose widths follow a line."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.models._utils import make_divisible
from livegrad.vision.models.registry import model
from livegrad.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation

Layer = Callable[..., nn.Module]


class BlockParams:
    """Widths, depths, strides and groups of the stages."""

    def __init__(
        self,
        depths: list[int],
        widths: list[int],
        group_widths: list[int],
        bottleneck_multipliers: list[float],
        strides: list[int],
        se_ratio: float | None = None,
    ) -> None:
        self.depths, self.widths, self.group_widths = depths, widths, group_widths
        self.bottleneck_multipliers, self.strides = bottleneck_multipliers, strides
        self.se_ratio = se_ratio

    @classmethod
    def from_init_params(
        cls,
        depth: int,
        w_0: int,
        w_a: float,
        w_m: float,
        group_width: int,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
        **kwargs: Any,
    ) -> BlockParams:
        """From the line w_0 + w_a · i, in steps of powers of w_m, as multiples of 8."""
        if w_a < 0 or w_0 <= 0 or w_m <= 1 or w_0 % 8 != 0:
            raise ValueError("Invalid RegNet settings")
        steps = [round(math.log((w_0 + w_a * i) / w_0) / math.log(w_m)) for i in range(depth)]
        per_block = [round(w_0 * w_m**step / 8) * 8 for step in steps]
        widths = sorted(set(per_block))
        depths = [per_block.count(width) for width in widths]
        groups = [min(group_width, int(width * bottleneck_multiplier)) for width in widths]
        inner = [
            make_divisible(int(width * bottleneck_multiplier), group)
            for width, group in zip(widths, groups, strict=True)
        ]
        count = len(widths)
        return cls(
            depths,
            [int(width / bottleneck_multiplier) for width in inner],
            groups,
            [bottleneck_multiplier] * count,
            [2] * count,
            se_ratio,
        )


class BottleneckTransform(nn.Sequential):
    """1×1, 3×3 in groups, squeeze and excitation, 1×1."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None,
    ) -> None:
        conv = partial(
            Conv2dNormActivation, norm_layer=norm_layer, activation_layer=activation_layer
        )
        width = round(width_out * bottleneck_multiplier)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["a"] = conv(width_in, width, 1)
        layers["b"] = conv(width, width, 3, stride, groups=width // group_width)
        if se_ratio:
            squeeze = round(se_ratio * width_in)
            layers["se"] = SqueezeExcitation(width, squeeze, activation=activation_layer)
        layers["c"] = conv(width, width_out, 1, activation_layer=None)
        super().__init__(layers)


class ResBottleneckBlock(nn.Module):
    """`BottleneckTransform` beside the identity, or beside a convolution where sizes change."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int = 1,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
    ) -> None:
        super().__init__()
        self.proj = None
        if width_in != width_out or stride != 1:
            self.proj = Conv2dNormActivation(
                width_in, width_out, 1, stride, norm_layer=norm_layer, activation_layer=None
            )
        self.f = BottleneckTransform(
            width_in,
            width_out,
            stride,
            norm_layer,
            activation_layer,
            group_width,
            bottleneck_multiplier,
            se_ratio,
        )
        self.activation = activation_layer(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """What the branch adds to x."""
        return self.activation((x if self.proj is None else self.proj(x)) + self.f(x))


class SimpleStemIN(Conv2dNormActivation):
    """A convolution that halves the size."""

    def __init__(
        self, width_in: int, width_out: int, norm_layer: Layer, activation_layer: Layer
    ) -> None:
        super().__init__(
            width_in, width_out, 3, 2, norm_layer=norm_layer, activation_layer=activation_layer
        )


class AnyStage(nn.Sequential):
    """Blocks of one width; the first has the stride."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        depth: int,
        block: Layer,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None = None,
        stage_index: int = 0,
    ) -> None:
        super().__init__()
        for i in range(depth):
            made = block(
                width_out if i else width_in,
                width_out,
                1 if i else stride,
                norm_layer,
                activation_layer,
                group_width,
                bottleneck_multiplier,
                se_ratio,
            )
            self.add_module(f"block{stage_index}-{i}", made)


class RegNet(nn.Module):
    """A stem, stages, the mean, a linear layer."""

    def __init__(
        self,
        block_params: BlockParams,
        num_classes: int = 1000,
        stem_width: int = 32,
        stem_type: Layer | None = None,
        block_type: Layer | None = None,
        norm_layer: Layer | None = None,
        activation: Layer | None = None,
    ) -> None:
        super().__init__()
        norm, activation = norm_layer or nn.BatchNorm2d, activation or nn.ReLU
        block = block_type or ResBottleneckBlock
        self.stem = (stem_type or SimpleStemIN)(3, stem_width, norm, activation)
        stages, before = [], stem_width
        rows = zip(
            block_params.widths,
            block_params.strides,
            block_params.depths,
            block_params.group_widths,
            block_params.bottleneck_multipliers,
            strict=True,
        )
        for i, (width, stride, depth, group, multiplier) in enumerate(rows, 1):
            stage = AnyStage(
                before,
                width,
                stride,
                depth,
                block,
                norm,
                activation,
                group,
                multiplier,
                block_params.se_ratio,
                i,
            )
            stages.append((f"block{i}", stage))
            before = width
        self.trunk_output = nn.Sequential(OrderedDict(stages))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(before, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                fan_out = layer.kernel_size[0] * layer.kernel_size[1] * layer.out_channels
                init.normal_(layer.weight, 0.0, math.sqrt(2.0 / fan_out))
            elif isinstance(layer, nn.Linear):
                init.normal_(layer.weight, 0.0, 0.01)
                init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        return self.fc(self.avgpool(self.trunk_output(self.stem(x))).flatten(1))


def _regnet(
    depth: int, w_0: int, w_a: float, w_m: float, group: int, se_ratio: float | None, **options: Any
) -> RegNet:
    """`stem`, `trunk_output` and `fc` of RegNet."""
    params = BlockParams.from_init_params(depth, w_0, w_a, w_m, group, se_ratio=se_ratio)
    options.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1))
    return RegNet(params, **options)


regnet_y_400mf = model("regnet_y_400mf", _regnet, 16, 48, 27.89, 2.09, 8, 0.25)
regnet_y_800mf = model("regnet_y_800mf", _regnet, 14, 56, 38.84, 2.4, 16, 0.25)
regnet_y_1_6gf = model("regnet_y_1_6gf", _regnet, 27, 48, 20.71, 2.65, 24, 0.25)
regnet_y_3_2gf = model("regnet_y_3_2gf", _regnet, 21, 80, 42.63, 2.66, 24, 0.25)
regnet_y_8gf = model("regnet_y_8gf", _regnet, 17, 192, 76.82, 2.19, 56, 0.25)
regnet_y_16gf = model("regnet_y_16gf", _regnet, 18, 200, 106.23, 2.48, 112, 0.25)
regnet_y_32gf = model("regnet_y_32gf", _regnet, 20, 232, 115.89, 2.53, 232, 0.25)
regnet_y_128gf = model("regnet_y_128gf", _regnet, 27, 456, 160.83, 2.52, 264, 0.25)
regnet_x_400mf = model("regnet_x_400mf", _regnet, 22, 24, 24.48, 2.54, 16, None)
regnet_x_800mf = model("regnet_x_800mf", _regnet, 16, 56, 35.73, 2.28, 16, None)
regnet_x_1_6gf = model("regnet_x_1_6gf", _regnet, 18, 80, 34.01, 2.25, 24, None)
regnet_x_3_2gf = model("regnet_x_3_2gf", _regnet, 25, 88, 26.31, 2.25, 48, None)
regnet_x_8gf = model("regnet_x_8gf", _regnet, 23, 80, 49.56, 2.88, 120, None)
regnet_x_16gf = model("regnet_x_16gf", _regnet, 22, 216, 55.59, 2.1, 128, None)
regnet_x_32gf = model("regnet_x_32gf", _regnet, 23, 320, 69.86, 2.0, 168, None)
