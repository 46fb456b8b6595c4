"""RetinaNet: one pass over a feature pyramid, with a loss for few objects among many boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.models import resnet
from livegrad.vision.models.detection._utils import (
    BoxCoder,
    Matcher,
    checked_targets,
    layers_to_train,
)
from livegrad.vision.models.detection.anchor_utils import AnchorGenerator
from livegrad.vision.models.detection.backbone_utils import resnet_with_fpn
from livegrad.vision.models.detection.transform import GeneralizedRCNNTransform
from livegrad.vision.models.registry import model
from livegrad.vision.ops import boxes as box_ops
from livegrad.vision.ops.feature_pyramid_network import LastLevelP6P7
from livegrad.vision.ops.focal_loss import sigmoid_focal_loss
from livegrad.vision.ops.misc import Conv2dNormActivation, FrozenBatchNorm2d

Target = dict[str, Any]
Layer = Callable[..., nn.Module]


class _Head(nn.Module):
    """Four convolutions, the same on every map, and one to the columns."""

    _version = 2
    last: str

    def __init__(self, in_channels: int, columns: int, norm_layer: Layer | None) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            *[
                Conv2dNormActivation(in_channels, in_channels, norm_layer=norm_layer)
                for _ in range(4)
            ]
        )
        self.add_module(self.last, nn.Conv2d(in_channels, columns, 3, padding=1))
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                init.normal_(layer.weight, std=0.01)
                if layer.bias is not None:
                    init.zeros_(layer.bias)

    def _load_from_state_dict(
        self, state: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if (local_metadata.get("version") or 1) < 2:  # convolutions had no block around them
            for i in range(4):
                for kind in ("weight", "bias"):
                    old = f"{prefix}conv.{2 * i}.{kind}"
                    if old in state:
                        state[f"{prefix}conv.{i}.0.{kind}"] = state.pop(old)
        super()._load_from_state_dict(state, prefix, local_metadata, *rest)

    def _columns(self, x: Sequence[Tensor], columns: int) -> Tensor:
        """(N, boxes of all maps, columns)."""
        found = []
        for value in x:
            made = getattr(self, self.last)(self.conv(value))
            rows, _, height, width = made.shape
            made = made.reshape(rows, -1, columns, height, width).permute(0, 3, 4, 1, 2)
            found.append(made.reshape(rows, -1, columns))
        return lg.cat(found, 1)


class RetinaNetClassificationHead(_Head):
    """Scores of classes, each by itself."""

    last = "cls_logits"

    def __init__(
        self,
        in_channels: int,
        num_anchors: int,
        num_classes: int,
        prior_probability: float = 0.01,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__(in_channels, num_anchors * num_classes, norm_layer)
        odds = math.log((1 - prior_probability) / prior_probability)
        init.constant_(self.cls_logits.bias, -odds)
        self.num_classes, self.num_anchors = num_classes, num_anchors

    def forward(self, x: Sequence[Tensor]) -> Tensor:
        """(N, boxes of all maps, classes)."""
        return self._columns(x, self.num_classes)


class RetinaNetRegressionHead(_Head):
    """Boxes, relative to those they start from."""

    last = "bbox_reg"

    def __init__(self, in_channels: int, num_anchors: int, norm_layer: Layer | None = None) -> None:
        super().__init__(in_channels, num_anchors * 4, norm_layer)

    def forward(self, x: Sequence[Tensor]) -> Tensor:
        """(N, boxes of all maps, 4)."""
        return self._columns(x, 4)


class RetinaNetHead(nn.Module):
    """Both heads."""

    def __init__(
        self,
        in_channels: int,
        num_anchors: int,
        num_classes: int,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        self.classification_head = RetinaNetClassificationHead(
            in_channels, num_anchors, num_classes, norm_layer=norm_layer
        )
        self.regression_head = RetinaNetRegressionHead(in_channels, num_anchors, norm_layer)

    def forward(self, x: Sequence[Tensor]) -> dict[str, Tensor]:
        """By name."""
        return {
            "cls_logits": self.classification_head(x),
            "bbox_regression": self.regression_head(x),
        }


def _anchors() -> AnchorGenerator:
    sizes = [tuple(int(x * 2 ** (i / 3)) for i in range(3)) for x in (32, 64, 128, 256, 512)]
    return AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))


class RetinaNet(nn.Module):
    """Losses while training; else boxes, scores and labels, a dict per image."""

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int,
        min_size: int = 800,
        max_size: int = 1333,
        image_mean: Sequence[float] | None = None,
        image_std: Sequence[float] | None = None,
        anchor_generator: AnchorGenerator | None = None,
        head: nn.Module | None = None,
        proposal_matcher: Matcher | None = None,
        score_thresh: float = 0.05,
        nms_thresh: float = 0.5,
        detections_per_img: int = 300,
        fg_iou_thresh: float = 0.5,
        bg_iou_thresh: float = 0.4,
        topk_candidates: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not hasattr(backbone, "out_channels"):
            raise ValueError(
                "backbone should contain an attribute out_channels specifying the number of "
                "output channels (assumed to be the same for all the levels)"
            )
        self.backbone: Any = backbone
        self.anchor_generator = anchor_generator or _anchors()
        count = self.anchor_generator.num_anchors_per_location()[0]
        self.head: Any = head or RetinaNetHead(self.backbone.out_channels, count, num_classes)
        self.proposal_matcher = proposal_matcher or Matcher(
            fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=True
        )
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        mean, std = image_mean or [0.485, 0.456, 0.406], image_std or [0.229, 0.224, 0.225]
        self.transform = GeneralizedRCNNTransform(min_size, max_size, mean, std, **kwargs)
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates

    def forward(self, images: Sequence[Tensor], targets: Sequence[Target] | None = None) -> Any:
        """Images (C, H, W) of any sizes, from 0 to 1."""
        if self.training:
            targets = checked_targets(targets)
        sizes = [(x.shape[-2], x.shape[-1]) for x in images]
        together, fitting = self.transform(images, targets)
        features = self.backbone(together.tensors)
        maps = list(features.values()) if isinstance(features, dict) else [features]
        outputs = self.head(maps)
        anchors = self.anchor_generator(together, maps)
        if self.training:
            return self.compute_loss(fitting or [], outputs, anchors)
        per_cell = len(anchors[0]) // sum(x.shape[2] * x.shape[3] for x in maps)
        counts = [x.shape[2] * x.shape[3] * per_cell for x in maps]
        found = self.postprocess_detections(outputs, anchors, counts, together.image_sizes)
        return self.transform.postprocess(found, together.image_sizes, sizes)

    def compute_loss(
        self, targets: Sequence[Target], outputs: dict[str, Tensor], anchors: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """Of classes and of boxes: each image by its number of boxes that stand for an object."""
        class_losses, box_losses = [], []
        for i, (target, own) in enumerate(zip(targets, anchors, strict=True)):
            if target["boxes"].numel() == 0:
                matched = lg.full((len(own),), -1, dtype=lg.int64, device=own.device)
            else:
                matched = self.proposal_matcher(box_ops.box_iou(target["boxes"], own))
            chosen = (matched >= 0).nonzero()[:, 0]
            objects, count = matched[chosen], max(1, len(chosen))
            logits = outputs["cls_logits"][i]
            wanted = lg.zeros_like(logits)
            wanted[chosen, target["labels"][objects]] = 1.0
            counted = matched != Matcher.BETWEEN_THRESHOLDS
            loss = sigmoid_focal_loss(logits[counted], wanted[counted], reduction="sum")
            class_losses.append(loss / count)
            codes = self.box_coder.encode_single(target["boxes"][objects], own[chosen])
            found = outputs["bbox_regression"][i][chosen]
            box_losses.append(F.l1_loss(found, codes, reduction="sum") / count)
        images = max(1, len(targets))
        return {
            "classification": lg.stack(class_losses).sum() / images,
            "bbox_regression": lg.stack(box_losses).sum() / images,
        }

    def postprocess_detections(
        self,
        head_outputs: dict[str, Tensor],
        anchors: Sequence[Tensor],
        counts: Sequence[int],
        image_shapes: Sequence[tuple[int, int]],
    ) -> list[Target]:
        """The best boxes of every map that do not overlap; maps have `counts` boxes."""
        rows = zip(
            head_outputs["cls_logits"],
            head_outputs["bbox_regression"],
            anchors,
            image_shapes,
            strict=True,
        )
        return [self._best(*row, counts) for row in rows]

    def _best(
        self, logits: Tensor, codes: Tensor, anchors: Tensor, size: Any, counts: Sequence[int]
    ) -> Target:
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        levels = (x.split(list(counts)) for x in (logits, codes, anchors))
        for level_logits, level_codes, level_anchors in zip(*levels, strict=True):
            classes = level_logits.shape[-1]
            scores = level_logits.sigmoid().flatten()
            above = (scores > self.score_thresh).nonzero()[:, 0]
            best, index = scores[above].topk(min(self.topk_candidates, len(above)))
            index = above[index]
            owners = index // classes
            boxes = self.box_coder.decode_single(level_codes[owners], level_anchors[owners])
            parts.append((box_ops.clip_boxes_to_image(boxes, size), best, index % classes))
        boxes, scores, labels = (lg.cat(list(x)) for x in zip(*parts, strict=True))
        keep = box_ops.batched_nms(boxes, scores, labels, self.nms_thresh)
        keep = keep[: self.detections_per_img]
        return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}


def _retinanet(
    *,
    num_classes: int | None = None,
    weights_backbone: Any = None,
    trainable_backbone_layers: int | None = None,
    trained: bool = False,
    **options: Any,
) -> RetinaNet:
    """RetinaNet with ResNet-50 and a feature pyramid."""
    known = trained or weights_backbone is not None
    # Statistics that are known stay; torchvision's files of whole detectors have no epsilon.
    frozen = partial(FrozenBatchNorm2d, eps=0.0) if trained else FrozenBatchNorm2d
    norm: Layer = frozen if known else nn.BatchNorm2d
    net = resnet.resnet50(weights=weights_backbone, norm_layer=norm)
    learning = layers_to_train(known, trainable_backbone_layers, 5, 3)
    backbone = resnet_with_fpn(net, learning, (2, 3, 4), LastLevelP6P7(256, 256))
    return RetinaNet(backbone, num_classes or 91, **options)


retinanet_resnet50_fpn = model("retinanet_resnet50_fpn", _retinanet, tell_trained=True)
