"""Networks that classify every pixel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad import nn
from livegrad.vision.models import mobilenetv3, resnet
from livegrad.vision.models._utils import IntermediateLayerGetter
from livegrad.vision.models.registry import load_weights, model
from livegrad.vision.models.segmentation.heads import (
    FCN as FCN,
    LRASPP as LRASPP,
    DeepLabHead as DeepLabHead,
    DeepLabV3 as DeepLabV3,
    FCNHead as FCNHead,
    LRASPPHead as LRASPPHead,
)

_CLASSES = 21


def _dilated_resnet(build: Callable[..., Any], weights: Any, aux: bool) -> tuple[Any, int, int]:
    """A network that ends with an eighth of the size, and the widths of "out" and "aux"."""
    net = build(weights=weights, replace_stride_with_dilation=[False, True, True])
    layers = {"layer4": "out", **({"layer3": "aux"} if aux else {})}
    return IntermediateLayerGetter(net, layers), 2048, 1024


def _dilated_mobilenet(build: Callable[..., Any], weights: Any, aux: bool) -> tuple[Any, int, int]:
    features, stages = _stages_of_mobilenet(build, weights)
    out, middle = stages[-1], stages[-4]
    layers = {str(out): "out", **({str(middle): "aux"} if aux else {})}
    backbone = IntermediateLayerGetter(features, layers)
    return backbone, features[out].out_channels, features[middle].out_channels


def _stages_of_mobilenet(build: Callable[..., Any], weights: Any) -> tuple[Any, list[int]]:
    """The layers of a MobileNet with dilation, and where its sizes change."""
    features = build(weights=weights, dilated=True).features
    inner = [i for i, block in enumerate(features) if getattr(block, "_is_cn", False)]
    return features, [0, *inner, len(features) - 1]


def _segmenter(
    kind: Callable[..., Any],
    head: Callable[[int, int], nn.Module],
    backbone_of: Callable[..., tuple[Any, int, int]],
    build: Callable[..., Any],
    *,
    num_classes: int | None = None,
    aux_loss: bool | None = None,
    weights_backbone: Any = None,
) -> Any:
    """A network whose result is a dict: "out", and "aux" if asked for."""
    backbone, width, middle = backbone_of(build, weights_backbone, bool(aux_loss))
    classes = num_classes or _CLASSES
    aux = FCNHead(middle, classes) if aux_loss else None
    return kind(backbone, head(width, classes), aux)


def _lraspp(
    build: Callable[..., Any], *, num_classes: int | None = None, weights_backbone: Any = None
) -> LRASPP:
    """A small network whose result is a dict: "out"."""
    features, stages = _stages_of_mobilenet(build, weights_backbone)
    low, high = stages[-4], stages[-1]
    backbone = IntermediateLayerGetter(features, {str(low): "low", str(high): "high"})
    widths = features[low].out_channels, features[high].out_channels
    return LRASPP(backbone, *widths, num_classes or _CLASSES)


_resnet, _large = _dilated_resnet, mobilenetv3.mobilenet_v3_large
fcn_resnet50 = model("fcn_resnet50", _segmenter, FCN, FCNHead, _resnet, resnet.resnet50)
fcn_resnet101 = model("fcn_resnet101", _segmenter, FCN, FCNHead, _resnet, resnet.resnet101)
deeplabv3_resnet50 = model(
    "deeplabv3_resnet50", _segmenter, DeepLabV3, DeepLabHead, _resnet, resnet.resnet50
)
deeplabv3_resnet101 = model(
    "deeplabv3_resnet101", _segmenter, DeepLabV3, DeepLabHead, _resnet, resnet.resnet101
)
deeplabv3_mobilenet_v3_large = model(
    "deeplabv3_mobilenet_v3_large", _segmenter, DeepLabV3, DeepLabHead, _dilated_mobilenet, _large
)
lraspp_mobilenet_v3_large = model("lraspp_mobilenet_v3_large", _lraspp, _large)
