"""Inception V3."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.vision.models import initial
from livegrad.vision.models.googlenet import BasicConv2d, renormalised
from livegrad.vision.models.registry import model

InceptionOutputs = namedtuple("InceptionOutputs", ["logits", "aux_logits"])

_Convs = Mapping[str, tuple[Any, ...]]  # by name: channels before and after, size, stride, padding
_Path = Sequence[str | tuple[str, str]]  # names one after the other; two side by side


class _Block(nn.Module):
    """Branches side by side, each a path through convolutions; "avg" and "max" are pools."""

    def __init__(self, convs: _Convs, paths: Sequence[_Path]) -> None:
        super().__init__()
        for name, (before, after, size, *rest) in convs.items():
            stride, padding = (*rest, 1, 0)[:2] if len(rest) != 1 else (rest[0], 0)
            conv = BasicConv2d(before, after, kernel_size=size, stride=stride, padding=padding)
            self.add_module(name, conv)
        self.paths = paths

    def _along(self, path: _Path, x: Tensor) -> Tensor:
        for step in path:
            if step == "avg":
                x = F.avg_pool2d(x, 3, 1, 1)
            elif step == "max":
                x = F.max_pool2d(x, 3, 2)
            elif isinstance(step, tuple):
                x = lg.cat([getattr(self, name)(x) for name in step], 1)
            else:
                x = getattr(self, step)(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        """All branches, one after the other."""
        return lg.cat([self._along(path, x) for path in self.paths], 1)


_POOLED = ("avg", "branch_pool")


class InceptionA(_Block):
    """Branches of 1×1, 5×5 and two 3×3."""

    def __init__(self, in_channels: int, pool_features: int) -> None:
        convs = {
            "branch1x1": (in_channels, 64, 1),
            "branch5x5_1": (in_channels, 48, 1),
            "branch5x5_2": (48, 64, 5, 1, 2),
            "branch3x3dbl_1": (in_channels, 64, 1),
            "branch3x3dbl_2": (64, 96, 3, 1, 1),
            "branch3x3dbl_3": (96, 96, 3, 1, 1),
            "branch_pool": (in_channels, pool_features, 1),
        }
        double = ("branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3")
        super().__init__(convs, [("branch1x1",), ("branch5x5_1", "branch5x5_2"), double, _POOLED])


class InceptionB(_Block):
    """Halves the size."""

    def __init__(self, in_channels: int) -> None:
        convs = {
            "branch3x3": (in_channels, 384, 3, 2),
            "branch3x3dbl_1": (in_channels, 64, 1),
            "branch3x3dbl_2": (64, 96, 3, 1, 1),
            "branch3x3dbl_3": (96, 96, 3, 2),
        }
        double = ("branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3")
        super().__init__(convs, [("branch3x3",), double, ("max",)])


class InceptionC(_Block):
    """7×7 as rows and columns, once and twice."""

    def __init__(self, in_channels: int, channels_7x7: int) -> None:
        c, row, column = channels_7x7, ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
        convs = {
            "branch1x1": (in_channels, 192, 1),
            "branch7x7_1": (in_channels, c, 1),
            "branch7x7_2": (c, c, *row),
            "branch7x7_3": (c, 192, *column),
            "branch7x7dbl_1": (in_channels, c, 1),
            "branch7x7dbl_2": (c, c, *column),
            "branch7x7dbl_3": (c, c, *row),
            "branch7x7dbl_4": (c, c, *column),
            "branch7x7dbl_5": (c, 192, *row),
            "branch_pool": (in_channels, 192, 1),
        }
        once = tuple(f"branch7x7_{i}" for i in (1, 2, 3))
        twice = tuple(f"branch7x7dbl_{i}" for i in (1, 2, 3, 4, 5))
        super().__init__(convs, [("branch1x1",), once, twice, _POOLED])


class InceptionD(_Block):
    """Halves the size."""

    def __init__(self, in_channels: int) -> None:
        convs = {
            "branch3x3_1": (in_channels, 192, 1),
            "branch3x3_2": (192, 320, 3, 2),
            "branch7x7x3_1": (in_channels, 192, 1),
            "branch7x7x3_2": (192, 192, (1, 7), 1, (0, 3)),
            "branch7x7x3_3": (192, 192, (7, 1), 1, (3, 0)),
            "branch7x7x3_4": (192, 192, 3, 2),
        }
        seven = tuple(f"branch7x7x3_{i}" for i in (1, 2, 3, 4))
        super().__init__(convs, [("branch3x3_1", "branch3x3_2"), seven, ("max",)])


class InceptionE(_Block):
    """3×3 as rows beside columns."""

    def __init__(self, in_channels: int) -> None:
        row, column = ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))
        convs = {
            "branch1x1": (in_channels, 320, 1),
            "branch3x3_1": (in_channels, 384, 1),
            "branch3x3_2a": (384, 384, *row),
            "branch3x3_2b": (384, 384, *column),
            "branch3x3dbl_1": (in_channels, 448, 1),
            "branch3x3dbl_2": (448, 384, 3, 1, 1),
            "branch3x3dbl_3a": (384, 384, *row),
            "branch3x3dbl_3b": (384, 384, *column),
            "branch_pool": (in_channels, 192, 1),
        }
        once: _Path = ("branch3x3_1", ("branch3x3_2a", "branch3x3_2b"))
        twice: _Path = (
            "branch3x3dbl_1",
            "branch3x3dbl_2",
            ("branch3x3dbl_3a", "branch3x3dbl_3b"),
        )
        super().__init__(convs, [("branch1x1",), once, twice, _POOLED])


class InceptionAux(nn.Module):
    """A classifier that reads the middle of the network while it is trained."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv0 = BasicConv2d(in_channels, 128, kernel_size=1)
        self.conv1 = BasicConv2d(128, 768, kernel_size=5)
        self.conv1.conv.stddev = 0.01
        self.fc = nn.Linear(768, num_classes)
        self.fc.stddev = 0.001

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes)."""
        x = self.conv1(self.conv0(F.avg_pool2d(x, 5, 3)))
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


class Inception3(nn.Module):
    """While training it gives `InceptionOutputs`, if it has a classifier in the middle."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = nn.MaxPool2d(3, 2)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, kernel_size=3)
        self.maxpool2 = nn.MaxPool2d(3, 2)
        self.Mixed_5b = InceptionA(192, 32)
        self.Mixed_5c = InceptionA(256, 64)
        self.Mixed_5d = InceptionA(288, 64)
        self.Mixed_6a = InceptionB(288)
        self.Mixed_6b = InceptionC(768, 128)
        self.Mixed_6c = InceptionC(768, 160)
        self.Mixed_6d = InceptionC(768, 160)
        self.Mixed_6e = InceptionC(768, 192)
        self.AuxLogits = InceptionAux(768, num_classes) if aux_logits else None
        self.Mixed_7a = InceptionD(768)
        self.Mixed_7b = InceptionE(1280)
        self.Mixed_7c = InceptionE(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2048, num_classes)
        if init_weights is not False:
            initial.truncated(self, 0.1)

    def forward(self, x: Tensor) -> Any:
        """Scores (N, classes) of images (N, 3, H, W), of 299 pixels in the paper."""
        x = renormalised(x) if self.transform_input else x
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(self.maxpool1(x)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(self.maxpool2(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))))
        aux = self.AuxLogits(x) if self.AuxLogits is not None and self.training else None
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        x = self.fc(self.dropout(self.avgpool(x)).flatten(1))
        return InceptionOutputs(x, aux) if self.training and self.aux_logits else x


inception_v3 = model("inception_v3", Inception3)
