"""DenseNet: every layer reads all before it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.utils.checkpoint import checkpoint
from livegrad.vision.models.registry import model


class _DenseLayer(nn.Module):
    """Norm, ReLU and convolution twice; the first one bounds the width."""

    def __init__(
        self,
        num_input_features: int,
        growth_rate: int,
        bn_size: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        width = bn_size * growth_rate
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, width, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, growth_rate, 3, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

    def _squeeze(self, *inputs: Tensor) -> Tensor:
        return self.conv1(self.relu1(self.norm1(lg.cat(inputs, 1))))

    def forward(self, input: Tensor | Sequence[Tensor]) -> Tensor:
        """`growth_rate` new channels from all there are."""
        inputs = [input] if isinstance(input, Tensor) else list(input)
        if self.memory_efficient and any(x.requires_grad for x in inputs):
            squeezed: Tensor = checkpoint(self._squeeze, *inputs, use_reentrant=False)
        else:
            squeezed = self._squeeze(*inputs)
        new = self.conv2(self.relu2(self.norm2(squeezed)))
        return F.dropout(new, self.drop_rate, self.training) if self.drop_rate > 0 else new


class _DenseBlock(nn.ModuleDict):
    """Layers, each of which reads the block's input and all layers before."""

    def __init__(
        self,
        num_layers: int,
        num_input_features: int,
        bn_size: int,
        growth_rate: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        for i in range(num_layers):
            width = num_input_features + i * growth_rate
            layer = _DenseLayer(width, growth_rate, bn_size, drop_rate, memory_efficient)
            self.add_module(f"denselayer{i + 1}", layer)

    def forward(self, init_features: Tensor) -> Tensor:
        """The input and what each layer adds, one after the other."""
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return lg.cat(features, 1)


class _Transition(nn.Sequential):
    """Halves channels and size."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, 1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)


class DenseNet(nn.Module):
    """A stem, blocks with transitions between them, the mean, a linear layer."""

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: Sequence[int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        width = num_init_features
        features = self.features = nn.Sequential()
        features.add_module("conv0", nn.Conv2d(3, width, 7, 2, 3, bias=False))
        features.add_module("norm0", nn.BatchNorm2d(width))
        features.add_module("relu0", nn.ReLU(inplace=True))
        features.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        for i, repeats in enumerate(block_config, 1):
            block = _DenseBlock(repeats, width, bn_size, growth_rate, drop_rate, memory_efficient)
            features.add_module(f"denseblock{i}", block)
            width += repeats * growth_rate
            if i < len(block_config):
                features.add_module(f"transition{i}", _Transition(width, width // 2))
                width //= 2
        features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                init.kaiming_normal_(layer.weight)
        init.zeros_(self.classifier.bias)

    @staticmethod
    def adapt_state_dict(state: Mapping[str, Any]) -> dict[str, Any]:
        """Torchvision's files call `norm1` of a layer `norm.1`."""
        return {re.sub(r"(norm|conv)\.([12])\.", r"\1\2.", key): state[key] for key in state}

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        found = F.relu(self.features(x), inplace=True)
        return self.classifier(F.adaptive_avg_pool2d(found, (1, 1)).flatten(1))


densenet121 = model("densenet121", DenseNet, 32, (6, 12, 24, 16), 64)
densenet161 = model("densenet161", DenseNet, 48, (6, 12, 36, 24), 96)
densenet169 = model("densenet169", DenseNet, 32, (6, 12, 32, 32), 64)
densenet201 = model("densenet201", DenseNet, 32, (6, 12, 48, 32), 64)
