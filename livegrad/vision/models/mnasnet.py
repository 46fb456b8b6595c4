"""MNASNet: a network that was searched for."""

from __future__ import annotations

from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.models._utils import make_divisible
from livegrad.vision.models.registry import model

_MOMENTUM = 1 - 0.9997


def _conv(
    before: int, after: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """A convolution that keeps the size by stride 1, and a norm."""
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(after, momentum=_MOMENTUM)]


class _InvertedResidual(nn.Module):
    """Widens, convolves every channel by itself, narrows; beside the identity where sizes agree."""

    def __init__(
        self, in_ch: int, out_ch: int, kernel_size: int, stride: int, expansion_factor: int
    ) -> None:
        super().__init__()
        width = in_ch * expansion_factor
        self.apply_residual = in_ch == out_ch and stride == 1
        self.layers = nn.Sequential(
            *_conv(in_ch, width, 1),
            nn.ReLU(inplace=True),
            *_conv(width, width, kernel_size, stride, width),
            nn.ReLU(inplace=True),
            *_conv(width, out_ch, 1),
        )

    def forward(self, input: Tensor) -> Tensor:
        """The block, and the input where it can be added."""
        return self.layers(input) + input if self.apply_residual else self.layers(input)


# output, kernel, stride, expansion, blocks
_STACKS = (
    (24, 3, 2, 3, 3),
    (40, 5, 2, 3, 3),
    (80, 5, 2, 6, 3),
    (96, 3, 1, 6, 2),
    (192, 5, 2, 6, 4),
    (320, 3, 1, 6, 1),
)


class MNASNet(nn.Module):
    """A stem, six stacks of inverted residuals, the mean, a linear layer; `alpha` scales widths."""

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha, self.num_classes = alpha, num_classes
        first, channels = make_divisible(32 * alpha), make_divisible(16 * alpha)
        layers: list[nn.Module] = [
            *_conv(3, first, 3, 2),
            nn.ReLU(inplace=True),
            *_conv(first, first, 3, 1, first),
            nn.ReLU(inplace=True),
            *_conv(first, channels, 1),
        ]
        for width, kernel, stride, expand, repeats in _STACKS:
            out = make_divisible(width * alpha)
            blocks = []
            for i in range(repeats):
                blocks.append(_InvertedResidual(channels, out, kernel, 1 if i else stride, expand))
                channels = out
            layers.append(nn.Sequential(*blocks))
        self.layers = nn.Sequential(*layers, *_conv(channels, 1280, 1), nn.ReLU(inplace=True))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout, inplace=True), nn.Linear(1280, num_classes)
        )
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(layer, nn.Linear):
                init.kaiming_uniform_(layer.weight, mode="fan_out", nonlinearity="sigmoid")
                init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        return self.classifier(self.layers(x).mean([2, 3]))


mnasnet0_5 = model("mnasnet0_5", MNASNet, 0.5)
mnasnet0_75 = model("mnasnet0_75", MNASNet, 0.75)
mnasnet1_0 = model("mnasnet1_0", MNASNet, 1.0)
mnasnet1_3 = model("mnasnet1_3", MNASNet, 1.3)
