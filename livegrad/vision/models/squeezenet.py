"""SqueezeNet: few weights, by squeezing channels before 3×3 convolutions."""

from __future__ import annotations

import livegrad as lg
from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.models.registry import model


class Fire(nn.Module):
    """Squeezes channels, then expands them by 1×1 and by 3×3 side by side."""

    def __init__(
        self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int
    ) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Both expansions, one after the other."""
        x = self.squeeze_activation(self.squeeze(x))
        one, three = self.expand1x1(x), self.expand3x3(x)
        return lg.cat([self.expand1x1_activation(one), self.expand3x3_activation(three)], 1)


# The stem (width, size), and before which blocks of fire there is a pool.
_VERSIONS = {"1_0": (96, 7, (0, 3, 7)), "1_1": (64, 3, (0, 2, 4))}
_FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))


class SqueezeNet(nn.Module):
    """A stem, eight blocks of fire, a convolution to classes, and its mean."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in _VERSIONS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        self.num_classes = num_classes
        channels, size, pools = _VERSIONS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, size, 2), nn.ReLU(inplace=True)]
        for i, (squeeze, expand) in enumerate(_FIRES):
            if i in pools:
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            layers.append(Fire(channels, squeeze, expand, expand))
            channels = 2 * expand
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(512, num_classes, 1)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                if layer is last:
                    init.normal_(layer.weight, 0.0, 0.01)
                else:
                    init.kaiming_uniform_(layer.weight)
                init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        return self.classifier(self.features(x)).flatten(1)


squeezenet1_0 = model("squeezenet1_0", SqueezeNet, "1_0")
squeezenet1_1 = model("squeezenet1_1", SqueezeNet, "1_1")
