"""Networks as the first part of detectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad import Tensor, nn
from livegrad.vision.models import resnet
from livegrad.vision.models._utils import IntermediateLayerGetter
from livegrad.vision.models.detection._utils import freeze_all_but
from livegrad.vision.models.registry import get_model
from livegrad.vision.ops.feature_pyramid_network import (
    ExtraFPNBlock,
    FeaturePyramidNetwork,
    LastLevelMaxPool,
)

Layer = Callable[..., nn.Module]


class BackboneWithFPN(nn.Module):
    """Layers of a network, and a feature pyramid of what they make."""

    def __init__(
        self,
        backbone: nn.Module,
        return_layers: dict[str, str],
        in_channels_list: Sequence[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        self.body = IntermediateLayerGetter(backbone, return_layers)
        self.fpn = FeaturePyramidNetwork(
            in_channels_list, out_channels, extra_blocks or LastLevelMaxPool(), norm_layer
        )
        self.out_channels = out_channels

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Maps by name, finest first."""
        return self.fpn(self.body(x))


def resnet_fpn_backbone(
    *,
    backbone_name: str,
    weights: Any = None,
    norm_layer: Layer = nn.BatchNorm2d,
    trainable_layers: int = 3,
    returned_layers: Sequence[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
) -> BackboneWithFPN:
    """A ResNet by name, with a feature pyramid."""
    net = get_model(backbone_name, weights=weights, norm_layer=norm_layer)
    return resnet_with_fpn(net, trainable_layers, returned_layers, extra_blocks)


def resnet_with_fpn(
    net: resnet.ResNet,
    trainable_layers: int,
    returned_layers: Sequence[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
    norm_layer: Layer | None = None,
) -> BackboneWithFPN:
    """A ResNet with a pyramid of the results of some of its four stages."""
    freeze_all_but(net, trainable_layers, ("layer4", "layer3", "layer2", "layer1", "conv1"))
    layers = list(returned_layers or (1, 2, 3, 4))
    if min(layers) <= 0 or max(layers) >= 5:
        raise ValueError(f"Each returned layer should be in the range [1,4]. Got {layers}")
    names = {f"layer{k}": str(i) for i, k in enumerate(layers)}
    widths = [net.inplanes // 8 * 2 ** (k - 1) for k in layers]
    return BackboneWithFPN(net, names, widths, 256, extra_blocks, norm_layer)
