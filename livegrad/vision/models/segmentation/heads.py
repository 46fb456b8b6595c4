"""What turns features into scores of pixels, and the networks around it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn


class _SimpleSegmentationModel(nn.Module):
    """Features, and their scores as large as the images: a dict of "out", and maybe "aux"."""

    def __init__(
        self, backbone: nn.Module, classifier: nn.Module, aux_classifier: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.backbone: Any = backbone
        self.classifier: Any = classifier
        self.aux_classifier: Any = aux_classifier

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Scores (N, classes, H, W) by name."""
        size, features = x.shape[-2:], self.backbone(x)
        heads = OrderedDict(out=self.classifier)
        if self.aux_classifier is not None:
            heads["aux"] = self.aux_classifier
        return OrderedDict(
            (name, F.interpolate(head(features[name]), size, mode="bilinear", align_corners=False))
            for name, head in heads.items()
        )


class FCN(_SimpleSegmentationModel):
    """A fully convolutional network."""


class DeepLabV3(_SimpleSegmentationModel):
    """Convolutions of several dilations on top of a network."""


class FCNHead(nn.Sequential):
    """Two convolutions."""

    def __init__(self, in_channels: int, channels: int) -> None:
        width = in_channels // 4
        super().__init__(
            nn.Conv2d(in_channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv2d(width, channels, 1),
        )


class ASPPConv(nn.Sequential):
    """A convolution with dilation."""

    def __init__(self, in_channels: int, out_channels: int, dilation: int) -> None:
        super().__init__(
            nn.Conv2d(
                in_channels, out_channels, 3, padding=dilation, dilation=dilation, bias=False
            ),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
        )


class ASPPPooling(nn.Sequential):
    """The mean of the image, everywhere."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(in_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """As large as x."""
        found = super().forward(x)
        return F.interpolate(found, size=x.shape[-2:], mode="bilinear", align_corners=False)


class ASPP(nn.Module):
    """Convolutions of several dilations side by side."""

    def __init__(
        self, in_channels: int, atrous_rates: Sequence[int], out_channels: int = 256
    ) -> None:
        super().__init__()
        first = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        layers: list[nn.Module] = [
            nn.Sequential(first, nn.BatchNorm2d(out_channels), nn.ReLU()),
            *[ASPPConv(in_channels, out_channels, rate) for rate in atrous_rates],
            ASPPPooling(in_channels, out_channels),
        ]
        self.convs = nn.ModuleList(layers)
        self.project = nn.Sequential(
            nn.Conv2d(len(layers) * out_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Dropout(0.5),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, out_channels, H, W)."""
        return self.project(lg.cat([conv(x) for conv in self.convs], 1))


class DeepLabHead(nn.Sequential):
    """`ASPP` and two convolutions."""

    def __init__(
        self, in_channels: int, num_classes: int, atrous_rates: Sequence[int] = (12, 24, 36)
    ) -> None:
        super().__init__(
            ASPP(in_channels, atrous_rates),
            nn.Conv2d(256, 256, 3, padding=1, bias=False),
            nn.BatchNorm2d(256),
            nn.ReLU(),
            nn.Conv2d(256, num_classes, 1),
        )


class LRASPPHead(nn.Module):
    """Scores of coarse features, weighed by their mean, and of fine ones."""

    def __init__(
        self, low_channels: int, high_channels: int, num_classes: int, inter_channels: int
    ) -> None:
        super().__init__()
        self.cbr = nn.Sequential(
            nn.Conv2d(high_channels, inter_channels, 1, bias=False),
            nn.BatchNorm2d(inter_channels),
            nn.ReLU(inplace=True),
        )
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(high_channels, inter_channels, 1, bias=False),
            nn.Sigmoid(),
        )
        self.low_classifier = nn.Conv2d(low_channels, num_classes, 1)
        self.high_classifier = nn.Conv2d(inter_channels, num_classes, 1)

    def forward(self, input: dict[str, Tensor]) -> Tensor:
        """Scores as large as the fine features, `input["low"]`."""
        low, high = input["low"], input["high"]
        x = self.cbr(high) * self.scale(high)
        x = F.interpolate(x, size=low.shape[-2:], mode="bilinear", align_corners=False)
        return self.low_classifier(low) + self.high_classifier(x)


class LRASPP(nn.Module):
    """A small network with `LRASPPHead`."""

    def __init__(
        self,
        backbone: nn.Module,
        low_channels: int,
        high_channels: int,
        num_classes: int,
        inter_channels: int = 128,
    ) -> None:
        super().__init__()
        self.backbone: Any = backbone
        self.classifier = LRASPPHead(low_channels, high_channels, num_classes, inter_channels)

    def forward(self, input: Tensor) -> dict[str, Tensor]:
        """Scores (N, classes, H, W) as "out"."""
        found = self.classifier(self.backbone(input))
        size = input.shape[-2:]
        return OrderedDict(
            out=F.interpolate(found, size=size, mode="bilinear", align_corners=False)
        )
