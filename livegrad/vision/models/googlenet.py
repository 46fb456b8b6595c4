"""GoogLeNet, the first Inception network, with batch normalisation."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.vision.models import initial
from livegrad.vision.models.registry import model

GoogLeNetOutputs = namedtuple("GoogLeNetOutputs", ["logits", "aux_logits2", "aux_logits1"])


class BasicConv2d(nn.Module):
    """A convolution, a norm, ReLU."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        """All three."""
        return F.relu(self.bn(self.conv(x)), inplace=True)


def renormalised(x: Tensor) -> Tensor:
    """Images with ImageNet's mean and spread, with those of the files of weights: 0.5 and 0.5."""
    mean = lg.tensor([0.485, 0.456, 0.406], device=x.device).reshape(1, 3, 1, 1)
    std = lg.tensor([0.229, 0.224, 0.225], device=x.device).reshape(1, 3, 1, 1)
    return x * (std / 0.5) + (mean - 0.5) / 0.5


class Inception(nn.Module):
    """Four branches side by side."""

    def __init__(
        self,
        in_channels: int,
        ch1x1: int,
        ch3x3red: int,
        ch3x3: int,
        ch5x5red: int,
        ch5x5: int,
        pool_proj: int,
    ) -> None:
        super().__init__()
        self.branch1 = BasicConv2d(in_channels, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(
            BasicConv2d(in_channels, ch3x3red, kernel_size=1),
            BasicConv2d(ch3x3red, ch3x3, kernel_size=3, padding=1),
        )
        self.branch3 = nn.Sequential(
            BasicConv2d(in_channels, ch5x5red, kernel_size=1),
            # The paper has 5×5 here; the weights that there are were trained with 3×3.
            BasicConv2d(ch5x5red, ch5x5, kernel_size=3, padding=1),
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, 1, 1, ceil_mode=True),
            BasicConv2d(in_channels, pool_proj, kernel_size=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """All branches, one after the other."""
        return lg.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    """A classifier that reads the middle of the network while it is trained."""

    def __init__(self, in_channels: int, num_classes: int, dropout: float = 0.7) -> None:
        super().__init__()
        self.conv = BasicConv2d(in_channels, 128, kernel_size=1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes)."""
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))


# The branches of each block: 1×1; before 3×3, and 3×3; before 5×5, and 5×5; after the pool.
_BLOCKS = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}
_POOLS = {"3b": ("maxpool3", 3), "4e": ("maxpool4", 2)}


class GoogLeNet(nn.Module):
    """While training it gives `GoogLeNetOutputs`, if it has classifiers in the middle."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.conv1 = BasicConv2d(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = BasicConv2d(64, 64, kernel_size=1)
        self.conv3 = BasicConv2d(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        for name, row in _BLOCKS.items():
            self.add_module(f"inception{name}", Inception(*row))
            if name in _POOLS:
                pool, size = _POOLS[name]
                self.add_module(pool, nn.MaxPool2d(size, 2, ceil_mode=True))
        self.aux1 = InceptionAux(512, num_classes, dropout_aux) if aux_logits else None
        self.aux2 = InceptionAux(528, num_classes, dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(1024, num_classes)
        if init_weights is not False:
            initial.truncated(self, 0.01)

    def forward(self, x: Tensor) -> Any:
        """Scores (N, classes) of images (N, 3, H, W)."""
        x = renormalised(x) if self.transform_input else x
        x = self.maxpool1(self.conv1(x))
        x = self.maxpool2(self.conv3(self.conv2(x)))
        middle: dict[str, Tensor] = {}
        aux = {"4a": self.aux1, "4d": self.aux2}
        for name in _BLOCKS:
            x = getattr(self, f"inception{name}")(x)
            classifier = aux.get(name)
            if classifier is not None and self.training:
                middle[name] = classifier(x)
            if name in _POOLS:
                x = getattr(self, _POOLS[name][0])(x)
        x = self.fc(self.dropout(self.avgpool(x).flatten(1)))
        if self.training and self.aux_logits:
            return GoogLeNetOutputs(x, middle["4d"], middle["4a"])
        return x


googlenet = model("googlenet", GoogLeNet)
