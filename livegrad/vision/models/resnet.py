"""ResNet, ResNeXt and wide ResNet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.models import initial
from livegrad.vision.models.registry import model

Layer = Callable[..., nn.Module]


def conv3x3(
    in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1
) -> nn.Conv2d:
    """A convolution that keeps the size by stride 1."""
    return nn.Conv2d(
        in_planes, out_planes, 3, stride, dilation, groups=groups, bias=False, dilation=dilation
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A linear layer of every pixel."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside the identity."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """What the branch adds to x."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """A 3×3 convolution between two of 1×1, beside the identity; the stride is the middle one's."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """What the branch adds to x."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A stem, four stages of blocks, the mean, a linear layer."""

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        dilate = list(replace_stride_with_dilation or [False, False, False])
        if len(dilate) != 3:
            raise ValueError(
                "replace_stride_with_dilation should be None "
                f"or a 3-element tuple, got {replace_stride_with_dilation}"
            )
        self.norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation = 64, 1
        self.groups, self.base_width = groups, width_per_group
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = self.norm_layer(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._stage(block, 64, layers[0])
        self.layer2 = self._stage(block, 128, layers[1], 2, dilate[0])
        self.layer3 = self._stage(block, 256, layers[2], 2, dilate[1])
        self.layer4 = self._stage(block, 512, layers[3], 2, dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        initial.kaiming(self)
        if zero_init_residual:  # every block starts as the identity
            for layer in self.modules():
                if isinstance(layer, BasicBlock | Bottleneck):
                    last: Any = layer.bn2 if isinstance(layer, BasicBlock) else layer.bn3
                    init.zeros_(last.weight)

    def _stage(
        self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> nn.Sequential:
        before = self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        width = planes * block.expansion
        shortcut = None
        if stride != 1 or self.inplanes != width:
            shortcut = nn.Sequential(conv1x1(self.inplanes, width, stride), self.norm_layer(width))
        found = []
        for i in range(blocks):
            found.append(
                block(
                    self.inplanes,
                    planes,
                    1 if i else stride,
                    None if i else shortcut,
                    self.groups,
                    self.base_width,
                    self.dilation if i else before,
                    self.norm_layer,
                )
            )
            self.inplanes = width
        return nn.Sequential(*found)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


resnet18 = model("resnet18", ResNet, BasicBlock, [2, 2, 2, 2])
resnet34 = model("resnet34", ResNet, BasicBlock, [3, 4, 6, 3])
resnet50 = model("resnet50", ResNet, Bottleneck, [3, 4, 6, 3])
resnet101 = model("resnet101", ResNet, Bottleneck, [3, 4, 23, 3])
resnet152 = model("resnet152", ResNet, Bottleneck, [3, 8, 36, 3])
resnext50_32x4d = model(
    "resnext50_32x4d", ResNet, Bottleneck, [3, 4, 6, 3], groups=32, width_per_group=4
)
resnext101_32x8d = model(
    "resnext101_32x8d", ResNet, Bottleneck, [3, 4, 23, 3], groups=32, width_per_group=8
)
resnext101_64x4d = model(
    "resnext101_64x4d", ResNet, Bottleneck, [3, 4, 23, 3], groups=64, width_per_group=4
)
wide_resnet50_2 = model("wide_resnet50_2", ResNet, Bottleneck, [3, 4, 6, 3], width_per_group=128)
wide_resnet101_2 = model("wide_resnet101_2", ResNet, Bottleneck, [3, 4, 23, 3], width_per_group=128)
