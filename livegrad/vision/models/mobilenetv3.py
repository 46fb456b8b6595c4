"""MobileNet V3: inverted residuals with squeeze and excitation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from livegrad import Tensor, nn
from livegrad.vision.models import initial
from livegrad.vision.models._utils import make_divisible
from livegrad.vision.models.registry import model
from livegrad.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation

Layer = Callable[..., nn.Module]


_SQUEEZE = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)


class InvertedResidualConfig:
    """One row of the network's table; `activation` is "RE" (ReLU) or "HS" (hard swish)."""

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ) -> None:
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se = use_se
        self.use_hs = activation == "HS"
        self.stride = stride
        self.dilation = dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """A width times a factor, divisible by 8."""
        return make_divisible(channels * width_mult, 8)


class InvertedResidual(nn.Module):
    """Widens, convolves every channel by itself, weighs channels, narrows."""

    def __init__(
        self,
        cnf: InvertedResidualConfig,
        norm_layer: Layer,
        se_layer: Layer = _SQUEEZE,
    ) -> None:
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        activation = nn.Hardswish if cnf.use_hs else nn.ReLU
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=activation)
        width = cnf.expanded_channels
        layers: list[nn.Module] = []
        if width != cnf.input_channels:
            layers.append(conv(cnf.input_channels, width, 1))
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers.append(conv(width, width, cnf.kernel, stride, groups=width, dilation=cnf.dilation))
        if cnf.use_se:
            layers.append(se_layer(width, make_divisible(width // 4, 8)))
        layers.append(conv(width, cnf.out_channels, 1, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.out_channels = cnf.out_channels
        self._is_cn = cnf.stride > 1

    def forward(self, input: Tensor) -> Tensor:
        """The block, and the input where it can be added."""
        return self.block(input) + input if self.use_res_connect else self.block(input)


class MobileNetV3(nn.Module):
    """A stem, blocks, a last convolution, the mean, two linear layers."""

    def __init__(
        self,
        inverted_residual_setting: Sequence[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        setting = list(inverted_residual_setting)
        if not setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        block = block or InvertedResidual
        norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.Hardswish)
        narrow, wide = setting[-1].out_channels, 6 * setting[-1].out_channels
        self.features = nn.Sequential(
            conv(3, setting[0].input_channels, 3, 2),
            *[block(row, norm) for row in setting],
            conv(narrow, wide, 1),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(wide, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        initial.kaiming(self, linear=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


# input, kernel, expanded, output, squeeze and excitation, activation, stride, and whether the row
# is of the tail, whose channels may be halved and whose stride may become dilation.
_Row = tuple[int, int, int, int, bool, str, int, bool]
_LARGE: tuple[_Row, ...] = (
    (16, 3, 16, 16, False, "RE", 1, False),
    (16, 3, 64, 24, False, "RE", 2, False),
    (24, 3, 72, 24, False, "RE", 1, False),
    (24, 5, 72, 40, True, "RE", 2, False),
    (40, 5, 120, 40, True, "RE", 1, False),
    (40, 5, 120, 40, True, "RE", 1, False),
    (40, 3, 240, 80, False, "HS", 2, False),
    (80, 3, 200, 80, False, "HS", 1, False),
    (80, 3, 184, 80, False, "HS", 1, False),
    (80, 3, 184, 80, False, "HS", 1, False),
    (80, 3, 480, 112, True, "HS", 1, False),
    (112, 3, 672, 112, True, "HS", 1, False),
    (112, 5, 672, 160, True, "HS", 2, True),
    (160, 5, 960, 160, True, "HS", 1, True),
    (160, 5, 960, 160, True, "HS", 1, True),
)
_SMALL: tuple[_Row, ...] = (
    (16, 3, 16, 16, True, "RE", 2, False),
    (16, 3, 72, 24, False, "RE", 2, False),
    (24, 3, 88, 24, False, "RE", 1, False),
    (24, 5, 96, 40, True, "HS", 2, False),
    (40, 5, 240, 40, True, "HS", 1, False),
    (40, 5, 240, 40, True, "HS", 1, False),
    (40, 5, 120, 48, True, "HS", 1, False),
    (48, 5, 144, 48, True, "HS", 1, False),
    (48, 5, 288, 96, True, "HS", 2, True),
    (96, 5, 576, 96, True, "HS", 1, True),
    (96, 5, 576, 96, True, "HS", 1, True),
)


def _mobilenet_v3(
    rows: Sequence[_Row],
    last: int,
    *,
    width_mult: float = 1.0,
    reduced_tail: bool = False,
    dilated: bool = False,
    **options: Any,
) -> MobileNetV3:
    """`features`, `avgpool` and `classifier` of MobileNet V3."""
    divider, dilation = 2 if reduced_tail else 1, 2 if dilated else 1
    setting = []
    inside = False  # the first row of the tail still reads what comes before it
    for before, kernel, width, after, squeezes, activation, stride, is_tail in rows:
        by, before_by = divider if is_tail else 1, divider if inside else 1
        widths = (before // before_by, kernel, width // before_by, after // by)
        config = (*widths, squeezes, activation, stride, dilation if is_tail else 1, width_mult)
        setting.append(InvertedResidualConfig(*config))
        inside = is_tail
    channels = InvertedResidualConfig.adjust_channels(last // divider, width_mult)
    return MobileNetV3(setting, channels, **options)


mobilenet_v3_large = model("mobilenet_v3_large", _mobilenet_v3, _LARGE, 1280)
mobilenet_v3_small = model("mobilenet_v3_small", _mobilenet_v3, _SMALL, 1024)
