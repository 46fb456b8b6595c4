"""VGG: stacks of 3×3 convolutions."""

from __future__ import annotations

from livegrad import Tensor, nn
from livegrad.vision.models import initial
from livegrad.vision.models.registry import model


class VGG(nn.Module):
    """Features, seven by seven means of them, and three linear layers."""

    def __init__(
        self,
        features: nn.Module,
        num_classes: int = 1000,
        init_weights: bool = True,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            initial.kaiming(self, linear=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


# Convolutions per width; each width ends with a pool.
_DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_WIDTHS = (64, 128, 256, 512, 512)


def make_layers(depth: int, batch_norm: bool = False) -> nn.Sequential:
    """The convolutions of VGG-`depth`."""
    layers: list[nn.Module] = []
    channels = 3
    for width, repeats in zip(_WIDTHS, _DEPTHS[depth], strict=True):
        for _ in range(repeats):
            layers.append(nn.Conv2d(channels, width, 3, padding=1))
            layers += [nn.BatchNorm2d(width)] if batch_norm else []
            layers.append(nn.ReLU(inplace=True))
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(*layers)


def _vgg(depth: int, batch_norm: bool, **options: object) -> VGG:
    """`features`, `avgpool` and `classifier` of VGG."""
    return VGG(make_layers(depth, batch_norm), **options)  # type: ignore[arg-type]


vgg11 = model("vgg11", _vgg, 11, False)
vgg11_bn = model("vgg11_bn", _vgg, 11, True)
vgg13 = model("vgg13", _vgg, 13, False)
vgg13_bn = model("vgg13_bn", _vgg, 13, True)
vgg16 = model("vgg16", _vgg, 16, False)
vgg16_bn = model("vgg16_bn", _vgg, 16, True)
vgg19 = model("vgg19", _vgg, 19, False)
vgg19_bn = model("vgg19_bn", _vgg, 19, True)
