"""MobileNet V2: inverted residuals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from livegrad import Tensor, nn
from livegrad.vision.models import initial
from livegrad.vision.models._utils import make_divisible
from livegrad.vision.models.registry import model
from livegrad.vision.ops.misc import Conv2dNormActivation

Layer = Callable[..., nn.Module]


class InvertedResidual(nn.Module):
    """Widens, convolves every channel by itself, narrows; beside the identity where sizes agree."""

    def __init__(
        self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: Layer | None = None
    ) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        self.stride = stride
        self.use_res_connect = stride == 1 and inp == oup
        norm = norm_layer or nn.BatchNorm2d
        block = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        width = round(inp * expand_ratio)
        layers: list[nn.Module] = [block(inp, width, 1)] if expand_ratio != 1 else []
        layers.append(block(width, width, stride=stride, groups=width))
        self.conv = nn.Sequential(*layers, nn.Conv2d(width, oup, 1, bias=False), norm(oup))
        self.out_channels = oup

    def forward(self, x: Tensor) -> Tensor:
        """The block, and x where it can be added."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


# expansion, channels, blocks, stride of the first
_SETTING = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class MobileNetV2(nn.Module):
    """A stem, blocks, a last convolution, the mean, a linear layer."""

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: Sequence[Sequence[int]] | None = None,
        round_nearest: int = 8,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        block, norm = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        setting = inverted_residual_setting or _SETTING
        if any(len(row) != 4 for row in setting):
            raise ValueError(
                "inverted_residual_setting should be non-empty "
                f"or a 4-element list, got {inverted_residual_setting}"
            )
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        channels = make_divisible(32 * width_mult, round_nearest)
        self.last_channel = make_divisible(1280 * max(1.0, width_mult), round_nearest)
        layers: list[nn.Module] = [conv(3, channels, stride=2)]
        for expand, width, repeats, stride in setting:
            out = make_divisible(width * width_mult, round_nearest)
            for i in range(repeats):
                layers.append(block(channels, out, 1 if i else stride, expand, norm_layer=norm))
                channels = out
        self.features = nn.Sequential(*layers, conv(channels, self.last_channel, 1))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes)
        )
        initial.kaiming(self, linear=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        return self.classifier(self.features(x).mean((2, 3)))


mobilenet_v2 = model("mobilenet_v2", MobileNetV2)
