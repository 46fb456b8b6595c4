"""SSD: boxes and classes from maps of several sizes, in one pass."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.models import vgg
from livegrad.vision.models.detection._utils import (
    BoxCoder,
    SSDMatcher,
    checked_targets,
    layers_to_train,
)
from livegrad.vision.models.detection.anchor_utils import DefaultBoxGenerator
from livegrad.vision.models.detection.transform import GeneralizedRCNNTransform
from livegrad.vision.models.registry import model
from livegrad.vision.ops import boxes as box_ops

Target = dict[str, Any]


def _xavier(net: nn.Module) -> None:
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                init.zeros_(layer.bias)


class SSDScoringHead(nn.Module):
    """One layer per map; its columns for every box of the map."""

    def __init__(self, module_list: nn.ModuleList, num_columns: int) -> None:
        super().__init__()
        self.module_list = module_list
        self.num_columns = num_columns

    def forward(self, x: Sequence[Tensor]) -> Tensor:
        """(N, boxes of all maps, columns)."""
        found = []
        for layer, value in zip(self.module_list, x, strict=True):
            made = layer(value)
            rows, _, height, width = made.shape
            made = made.reshape(rows, -1, self.num_columns, height, width).permute(0, 3, 4, 1, 2)
            found.append(made.reshape(rows, -1, self.num_columns))
        return lg.cat(found, 1)


def _convs(in_channels: Sequence[int], num_anchors: Sequence[int], columns: int) -> nn.ModuleList:
    rows = zip(in_channels, num_anchors, strict=True)
    found = nn.ModuleList(nn.Conv2d(width, columns * n, 3, padding=1) for width, n in rows)
    _xavier(found)
    return found


class SSDClassificationHead(SSDScoringHead):
    """Scores of classes."""

    def __init__(
        self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int
    ) -> None:
        super().__init__(_convs(in_channels, num_anchors, num_classes), num_classes)


class SSDRegressionHead(SSDScoringHead):
    """Boxes, relative to those they start from."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int]) -> None:
        super().__init__(_convs(in_channels, num_anchors, 4), 4)


class SSDHead(nn.Module):
    """Both heads."""

    def __init__(
        self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int
    ) -> None:
        super().__init__()
        self.classification_head = SSDClassificationHead(in_channels, num_anchors, num_classes)
        self.regression_head = SSDRegressionHead(in_channels, num_anchors)

    def forward(self, x: Sequence[Tensor]) -> dict[str, Tensor]:
        """By name."""
        return {
            "bbox_regression": self.regression_head(x),
            "cls_logits": self.classification_head(x),
        }


class SSD(nn.Module):
    """Losses while training; else boxes, scores and labels, a dict per image."""

    def __init__(
        self,
        backbone: nn.Module,
        anchor_generator: DefaultBoxGenerator,
        size: tuple[int, int],
        num_classes: int,
        image_mean: Sequence[float] | None = None,
        image_std: Sequence[float] | None = None,
        head: nn.Module | None = None,
        score_thresh: float = 0.01,
        nms_thresh: float = 0.45,
        detections_per_img: int = 200,
        iou_thresh: float = 0.5,
        topk_candidates: int = 400,
        positive_fraction: float = 0.25,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.backbone: Any = backbone
        self.anchor_generator = anchor_generator
        self.box_coder = BoxCoder(weights=(10.0, 10.0, 5.0, 5.0))
        if head is None:
            counts = anchor_generator.num_anchors_per_location()
            head = SSDHead(self._widths(size), counts, num_classes)
        self.head: Any = head
        self.proposal_matcher = SSDMatcher(iou_thresh)
        mean, std = image_mean or [0.485, 0.456, 0.406], image_std or [0.229, 0.224, 0.225]
        self.transform = GeneralizedRCNNTransform(
            min(size), max(size), mean, std, size_divisible=1, fixed_size=size
        )
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates
        self.neg_to_pos_ratio = (1.0 - positive_fraction) / positive_fraction

    def _widths(self, size: tuple[int, int]) -> list[int]:
        """The channels of the backbone's maps."""
        if hasattr(self.backbone, "out_channels"):
            return list(self.backbone.out_channels)
        with lg.no_grad():
            found = self.backbone(lg.zeros(1, 3, size[1], size[0]))
        maps = found.values() if isinstance(found, dict) else [found]
        return [x.shape[1] for x in maps]

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
        found = self.postprocess_detections(outputs, anchors, together.image_sizes)
        return self.transform.postprocess(found, together.image_sizes, sizes)

    def compute_loss(
        self, targets: Sequence[Target], outputs: dict[str, Tensor], anchors: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """Of boxes and of classes, by the number of boxes that stand for an object."""
        matches, positives = [], 0
        box_losses, wanted_classes = [], []
        for i, (target, own) in enumerate(zip(targets, anchors, strict=True)):
            matched = self._matched(target, own)
            matches.append(matched)
            chosen = (matched >= 0).nonzero()[:, 0]
            objects = matched[chosen]
            positives += len(chosen)
            wanted = self.box_coder.encode_single(target["boxes"][objects], own[chosen])
            found = outputs["bbox_regression"][i][chosen]
            box_losses.append(F.smooth_l1_loss(found, wanted, reduction="sum"))
            labels = lg.zeros(len(own), dtype=target["labels"].dtype, device=own.device)
            labels[chosen] = target["labels"][objects]
            wanted_classes.append(labels)
        classes = lg.stack(wanted_classes)
        logits = outputs["cls_logits"]
        loss = F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), classes.reshape(-1), reduction="none"
        ).reshape(classes.shape)
        foreground = classes > 0
        hard = self._hardest(loss, foreground)
        count = max(1, positives)
        return {
            "bbox_regression": lg.stack(box_losses).sum() / count,
            "classification": (loss * (foreground | hard).to(loss.dtype)).sum() / count,
        }

    def _matched(self, target: Target, anchors: Tensor) -> Tensor:
        if target["boxes"].numel() == 0:
            return lg.full((len(anchors),), -1, dtype=lg.int64, device=anchors.device)
        return self.proposal_matcher(box_ops.box_iou(target["boxes"], anchors))

    def _hardest(self, loss: Tensor, foreground: Tensor) -> Tensor:
        """The negatives of the largest losses: a multiple of the positives of each image."""
        negative = lg.where(foreground, -lg.inf, loss.detach())
        rank = negative.argsort(1, descending=True, stable=True).argsort(1, stable=True)
        most = self.neg_to_pos_ratio * foreground.sum(1, keepdim=True)
        return rank < most

    def postprocess_detections(
        self,
        head_outputs: dict[str, Tensor],
        image_anchors: Sequence[Tensor],
        image_shapes: Sequence[tuple[int, int]],
    ) -> list[Target]:
        """The best boxes of every class that do not overlap."""
        regression = head_outputs["bbox_regression"]
        scores = F.softmax(head_outputs["cls_logits"], -1)
        rows = zip(regression, scores, image_anchors, image_shapes, strict=True)
        return [self._best(*row) for row in rows]

    def _best(self, codes: Tensor, scores: Tensor, anchors: Tensor, size: Any) -> Target:
        boxes = self.box_coder.decode_single(codes, anchors)
        boxes = box_ops.clip_boxes_to_image(boxes, size)
        count = min(self.topk_candidates, len(boxes))
        # All classes but the background at once; what is below the threshold goes afterwards.
        best, index = scores[:, 1:].topk(count, 0)  # (count, classes - 1)
        labels = lg.arange(1, scores.shape[1], device=boxes.device).expand(count, -1)
        flat, owners, kinds = best.t().reshape(-1), index.t().reshape(-1), labels.t().reshape(-1)
        chosen = (flat > self.score_thresh).nonzero()[:, 0]
        flat, owners, kinds = flat[chosen], owners[chosen], kinds[chosen]
        found = boxes[owners]
        keep = box_ops.batched_nms(found, flat, kinds, self.nms_thresh)[: self.detections_per_img]
        return {"boxes": found[keep], "scores": flat[keep], "labels": kinds[keep]}


# ---------------------------------------------------------------------------------------------- VGG


class SSDFeatureExtractorVGG(nn.Module):
    """VGG-16 up to its fourth stage, scaled, then the rest of it and four or five smaller maps."""

    def __init__(self, backbone: nn.Module, highres: bool) -> None:
        super().__init__()
        layers = list(backbone.children())
        pools = [i for i, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
        third, fourth = pools[2], pools[3]
        layers[third].ceil_mode = True  # 75 pixels become 38
        self.scale_weight = nn.Parameter(lg.ones(512) * 20)
        self.features = nn.Sequential(*layers[:fourth])
        extra = [_smaller(1024, 256, 512, 2, 1), _smaller(512, 128, 256, 2, 1)]
        extra += [_smaller(256, 128, 256), _smaller(256, 128, 256)]
        if highres:
            extra.append(
                nn.Sequential(
                    nn.Conv2d(256, 128, 1),
                    nn.ReLU(inplace=True),
                    nn.Conv2d(128, 256, 4),
                    nn.ReLU(inplace=True),
                )
            )
        dilated = nn.Sequential(
            nn.MaxPool2d(3, 1, 1),
            nn.Conv2d(512, 1024, 3, padding=6, dilation=6),
            nn.ReLU(inplace=True),
            nn.Conv2d(1024, 1024, 1),
            nn.ReLU(inplace=True),
        )
        for block in [*extra, dilated]:
            _xavier(block)
        rest = nn.Sequential(*layers[fourth:-1], dilated)
        self.extra = nn.ModuleList([rest, *extra])
        self.out_channels = [512, 1024, 512, *[256] * (len(extra) - 1)]

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Maps by number, finest first."""
        x = self.features(x)
        found = [self.scale_weight.reshape(1, -1, 1, 1) * F.normalize(x)]
        for block in self.extra:
            x = block(x)
            found.append(x)
        return OrderedDict((str(i), value) for i, value in enumerate(found))


def _smaller(
    before: int, inner: int, after: int, stride: int = 1, padding: int = 0
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, inner, 1),
        nn.ReLU(inplace=True),
        nn.Conv2d(inner, after, 3, stride, padding),
        nn.ReLU(inplace=True),
    )


def _ssd300(
    *,
    num_classes: int | None = None,
    weights_backbone: Any = None,
    trainable_backbone_layers: int | None = None,
    trained: bool = False,
    **options: Any,
) -> SSD:
    """SSD of images of 300 pixels, with VGG-16."""
    net = vgg.vgg16(weights=weights_backbone).features
    known = trained or weights_backbone is not None
    learning = layers_to_train(known, trainable_backbone_layers, 5, 4)
    layers = list(net.children())
    starts = [0, *[i for i, x in enumerate(layers) if isinstance(x, nn.MaxPool2d)][:-1]]
    for layer in layers[: starts[-learning] if learning else len(layers)]:
        for parameter in layer.parameters():
            parameter.requires_grad_(False)
    anchors = DefaultBoxGenerator(
        [[2], [2, 3], [2, 3], [2, 3], [2], [2]],
        scales=[0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05],
        steps=[8, 16, 32, 64, 100, 300],
    )
    # The weights that there are take values from 0 to 255, less means.
    options = {
        "image_mean": [0.48235, 0.45882, 0.40784],
        "image_std": [1.0 / 255.0, 1.0 / 255.0, 1.0 / 255.0],
        **options,
    }
    backbone = SSDFeatureExtractorVGG(net, highres=False)
    return SSD(backbone, anchors, (300, 300), num_classes or 91, **options)


ssd300_vgg16: Callable[..., SSD] = model("ssd300_vgg16", _ssd300, tell_trained=True)
