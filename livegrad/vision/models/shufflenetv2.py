"""ShuffleNet V2: half of the channels pass, and both halves are mixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import livegrad as lg
from livegrad import Tensor, nn
from livegrad.vision.models.registry import model


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Channels of the groups in turn."""
    rows, channels, height, width = x.shape
    x = x.reshape(rows, groups, channels // groups, height, width)
    return x.transpose(1, 2).reshape(rows, channels, height, width)


def _point(before: int, after: int) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]


def _depth(width: int, stride: int) -> list[nn.Module]:
    conv = nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False)
    return [conv, nn.BatchNorm2d(width)]


class InvertedResidual(nn.Module):
    """Two branches, whose channels are shuffled; by stride 1 the first is the identity."""

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        if not 1 <= stride <= 3:
            raise ValueError("illegal stride value")
        if stride == 1 and inp != oup:
            raise ValueError(f"Invalid combination of stride {stride}, inp {inp} and oup {oup}")
        self.stride = stride
        half = oup // 2
        first = [*_depth(inp, stride), *_point(inp, half)] if stride > 1 else []
        self.branch1 = nn.Sequential(*first)
        before = inp if stride > 1 else half
        self.branch2 = nn.Sequential(
            *_point(before, half), *_depth(half, stride), *_point(half, half)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Both branches, shuffled."""
        if self.stride == 1:
            kept, used = x.chunk(2, 1)
            return channel_shuffle(lg.cat((kept, self.branch2(used)), 1), 2)
        return channel_shuffle(lg.cat((self.branch1(x), self.branch2(x)), 1), 2)


class ShuffleNetV2(nn.Module):
    """A stem, three stages, a last convolution, the mean, a linear layer."""

    def __init__(
        self,
        stages_repeats: Sequence[int],
        stages_out_channels: Sequence[int],
        num_classes: int = 1000,
        inverted_residual: Callable[..., nn.Module] = InvertedResidual,
    ) -> None:
        super().__init__()
        if len(stages_repeats) != 3:
            raise ValueError("expected stages_repeats as list of 3 positive ints")
        if len(stages_out_channels) != 5:
            raise ValueError("expected stages_out_channels as list of 5 positive ints")
        stem, *widths, last = stages_out_channels
        self.conv1 = nn.Sequential(
            nn.Conv2d(3, stem, 3, 2, 1, bias=False), nn.BatchNorm2d(stem), nn.ReLU(inplace=True)
        )
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        stages = []
        for repeats, before, width in zip(stages_repeats, [stem, *widths], widths, strict=False):
            blocks = [inverted_residual(before, width, 2)]
            blocks += [inverted_residual(width, width, 1) for _ in range(repeats - 1)]
            stages.append(nn.Sequential(*blocks))
        self.stage2, self.stage3, self.stage4 = stages
        self.conv5 = nn.Sequential(*_point(widths[-1], last))
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(x.mean([2, 3]))


_REPEATS = [4, 8, 4]
shufflenet_v2_x0_5 = model("shufflenet_v2_x0_5", ShuffleNetV2, _REPEATS, [24, 48, 96, 192, 1024])
shufflenet_v2_x1_0 = model("shufflenet_v2_x1_0", ShuffleNetV2, _REPEATS, [24, 116, 232, 464, 1024])
shufflenet_v2_x1_5 = model("shufflenet_v2_x1_5", ShuffleNetV2, _REPEATS, [24, 176, 352, 704, 1024])
shufflenet_v2_x2_0 = model("shufflenet_v2_x2_0", ShuffleNetV2, _REPEATS, [24, 244, 488, 976, 2048])
