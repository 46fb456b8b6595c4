"""U-Net: an encoder and a decoder with connections at every size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.vision.models.registry import model


def _double(before: int, after: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers.append(nn.Conv2d(channels, after, 3, padding=1, bias=False))
        layers += [nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Scores (N, classes, H, W) for every pixel of images (N, channels, H, W) of any size."""

    def __init__(
        self,
        in_channels: int = 3,
        num_classes: int = 1,
        features: Sequence[int] = (64, 128, 256, 512, 1024),
    ) -> None:
        super().__init__()
        widths = list(features)
        befores = [in_channels, *widths]
        self.down = nn.ModuleList(_double(a, b) for a, b in zip(befores, widths, strict=False))
        pairs = list(pairwise(widths))[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs)
        self.join = nn.ModuleList(_double(2 * a, a) for a, _ in pairs)
        self.head = nn.Conv2d(widths[0], num_classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of every pixel."""
        kept: list[Tensor] = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            beside = kept.pop()
            x = up(x)
            short = [a - b for a, b in zip(beside.shape[-2:], x.shape[-2:], strict=True)]
            if any(short):  # an odd size was pooled
                x = F.pad(x, (0, short[1], 0, short[0]), mode="replicate")
            x = join(lg.cat([beside, x], 1))
        return self.head(x)


unet = model("unet", UNet)
