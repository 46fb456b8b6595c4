"""Boxes (N, 4) as corners: x1, y1, x2, y2, with x1 < x2 and y1 < y2."""

from __future__ import annotations

import math

import numpy as np

import livegrad as lg
from livegrad import Tensor

# --------------------------------------------------------------------------------- which to keep


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of boxes, best score first, that overlap no better one by more than the threshold.

    How many there are depends on values, so this reads them.
    """
    if boxes.ndim != 2 or boxes.shape[-1] != 4:
        raise RuntimeError(f"boxes should be a 2d tensor of (N, 4), got {tuple(boxes.shape)}")
    if scores.ndim != 1 or len(scores) != len(boxes):
        raise RuntimeError(
            f"boxes and scores should have same number of elements in dimension 0, got "
            f"{len(boxes)} and {tuple(scores.shape)}"
        )
    order = scores.detach().argsort(descending=True, stable=True)
    sorted_boxes = boxes.detach()[order]
    kept = _kept(sorted_boxes.numpy(), iou_threshold)
    return order[lg.tensor(kept, dtype=lg.int64, device=order.device)]


def _kept(boxes: np.ndarray, iou_threshold: float) -> list[int]:
    """Greedy: the best one left is kept, and those that overlap it go."""
    x1, y1, x2, y2 = boxes.T
    areas = (x2 - x1) * (y2 - y1)
    left = np.arange(len(boxes))
    kept: list[int] = []
    while left.size:
        best, left = left[0], left[1:]
        kept.append(int(best))
        width = np.minimum(x2[best], x2[left]) - np.maximum(x1[best], x1[left])
        height = np.minimum(y2[best], y2[left]) - np.maximum(y1[best], y1[left])
        both = width.clip(0) * height.clip(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            overlap = both / (areas[best] + areas[left] - both)
        left = left[~(overlap > iou_threshold)]
    return kept


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` within each group of equal `idxs`: boxes of groups are moved apart first."""
    if len(boxes) == 0:
        return lg.empty(0, dtype=lg.int64, device=boxes.device)
    if boxes.numel() > 4000:  # moved far apart, coordinates would lose digits
        kept = lg.zeros(len(scores), dtype=lg.bool, device=boxes.device)
        for group in idxs.unique().tolist():
            inside = (idxs == group).nonzero()[:, 0]
            kept[inside[nms(boxes[inside], scores[inside], iou_threshold)]] = True
        found = kept.nonzero()[:, 0]
        return found[scores[found].argsort(descending=True, stable=True)]
    apart = idxs.to(boxes.dtype) * (boxes.max() + 1)
    return nms(boxes + apart[:, None], scores, iou_threshold)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """Indices of boxes whose sides are at least `min_size`."""
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return ((width >= min_size) & (height >= min_size)).nonzero()[:, 0]


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes within an image of `size` (height, width)."""
    height, width = size
    x = boxes[..., 0::2].clamp(0, width)
    y = boxes[..., 1::2].clamp(0, height)
    return lg.stack((x, y), boxes.ndim).reshape(boxes.shape)


# ------------------------------------------------------------------------------------------ formats


def _from_centre(boxes: Tensor) -> Tensor:
    cx, cy, w, h = boxes.unbind(-1)
    return lg.stack((cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h), -1)


def _to_centre(boxes: Tensor) -> Tensor:
    x1, y1, x2, y2 = boxes.unbind(-1)
    return lg.stack(((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1), -1)


def _from_corner(boxes: Tensor) -> Tensor:
    x, y, w, h = boxes.unbind(-1)
    return lg.stack((x, y, x + w, y + h), -1)


def _to_corner(boxes: Tensor) -> Tensor:
    x1, y1, x2, y2 = boxes.unbind(-1)
    return lg.stack((x1, y1, x2 - x1, y2 - y1), -1)


_TO_CORNERS = {"cxcywh": _from_centre, "xywh": _from_corner}
_FROM_CORNERS = {"cxcywh": _to_centre, "xywh": _to_corner}


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another format: "xyxy", "xywh" or "cxcywh"."""
    allowed = ("xyxy", "xywh", "cxcywh")
    if in_fmt not in allowed or out_fmt not in allowed:
        raise ValueError(
            f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}"
        )
    if in_fmt == out_fmt:
        return boxes.clone()
    if in_fmt != "xyxy":
        boxes = _TO_CORNERS[in_fmt](boxes)
    return boxes if out_fmt == "xyxy" else _FROM_CORNERS[out_fmt](boxes)


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The box around each of the masks (N, H, W)."""
    if masks.numel() == 0:
        return lg.zeros(0, 4, device=masks.device, dtype=lg.float32)
    found = []
    for dim, size in ((1, masks.shape[2]), (2, masks.shape[1])):  # columns, then rows
        used = (masks != 0).any(dim)
        at = lg.arange(size, device=masks.device)
        found.append(lg.where(used, at, size).amin(1))
        found.append(lg.where(used, at, -1).amax(1))
    x1, x2, y1, y2 = found
    return lg.stack((x1, y1, x2, y2), 1).to(lg.float32)


# ------------------------------------------------------------------------------------------ overlap


def _upcast(x: Tensor) -> Tensor:
    """Wide enough for products."""
    if x.is_floating_point():
        return x if x.dtype in (lg.float32, lg.float64) else x.float()
    return x if x.dtype in (lg.int32, lg.int64) else x.int()


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """Areas (N,)."""
    boxes = _upcast(boxes)
    if fmt == "xyxy":
        return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    if fmt in ("xywh", "cxcywh"):
        return boxes[..., 2] * boxes[..., 3]
    raise ValueError(f"Unsupported Bounding Box area for given format {fmt}")


def _pairs(boxes1: Tensor, boxes2: Tensor, fmt: str) -> tuple[Tensor, Tensor]:
    """Corners of all pairs: (N, 1, 4) and (1, M, 4)."""
    if fmt != "xyxy":
        boxes1, boxes2 = (box_convert(x, fmt, "xyxy") for x in (boxes1, boxes2))
    return boxes1[..., :, None, :], boxes2[..., None, :, :]


def _overlap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Intersection and union of boxes that can be broadcast."""
    sides = _upcast(lg.minimum(a[..., 2:], b[..., 2:]) - lg.maximum(a[..., :2], b[..., :2]))
    both = sides.clamp(min=0).prod(-1)
    return both, box_area(a) + box_area(b) - both


def _hull(a: Tensor, b: Tensor) -> Tensor:
    """Sides of the smallest box around both."""
    sides = _upcast(lg.maximum(a[..., 2:], b[..., 2:]) - lg.minimum(a[..., :2], b[..., :2]))
    return sides.clamp(min=0)


def _centre_distance(a: Tensor, b: Tensor, eps: float) -> Tensor:
    """Squared distance of the centres, by the squared diagonal of the hull."""
    diagonal = (_hull(a, b) ** 2).sum(-1) + eps
    apart = (_upcast(a[..., :2] + a[..., 2:]) - _upcast(b[..., :2] + b[..., 2:])) / 2
    return (apart**2).sum(-1) / diagonal


def _shape_difference(a: Tensor, b: Tensor) -> Tensor:
    """How far the ratios of the sides are apart, from 0 to 1."""
    angles = [lg.atan((x[..., 2] - x[..., 0]) / (x[..., 3] - x[..., 1])) for x in (a, b)]
    return (4 / math.pi**2) * (angles[0] - angles[1]) ** 2


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Intersection by union of all pairs, (N, M)."""
    both, union = _overlap(*_pairs(boxes1, boxes2, fmt))
    return both / union


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """`box_iou` less the part of the hull that neither covers, (N, M)."""
    a, b = _pairs(boxes1, boxes2, "xyxy")
    both, union = _overlap(a, b)
    hull = _hull(a, b).prod(-1)
    return both / union - (hull - union) / hull


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`box_iou` less the distance of the centres, (N, M)."""
    a, b = _pairs(_upcast(boxes1), _upcast(boxes2), "xyxy")
    both, union = _overlap(a, b)
    return both / union - _centre_distance(a, b, eps)


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`distance_box_iou` less the difference of the shapes, (N, M)."""
    a, b = _pairs(_upcast(boxes1), _upcast(boxes2), "xyxy")
    both, union = _overlap(a, b)
    iou = both / union
    shape = _shape_difference(a, b)
    weight = (shape / (1 - iou + shape + eps)).detach()
    return iou - _centre_distance(a, b, eps) - weight * shape


# ------------------------------------------------------------------------------------------- losses


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction == "mean":
        return loss.mean() if loss.numel() > 0 else 0.0 * loss.sum()
    raise ValueError(
        f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: "
        "'none', 'mean', 'sum'"
    )


def generalized_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 - generalised intersection by union, of boxes at the same place."""
    a, b = _upcast(boxes1), _upcast(boxes2)
    both, union = _overlap(a, b)
    hull = _hull(a, b).prod(-1)
    return _reduced(1 - both / (union + eps) + (hull - union) / (hull + eps), reduction)


def distance_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 - intersection by union + distance of the centres, of boxes at the same place."""
    a, b = _upcast(boxes1), _upcast(boxes2)
    both, union = _overlap(a, b)
    return _reduced(1 - both / (union + eps) + _centre_distance(a, b, eps), reduction)


def complete_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """`distance_box_iou_loss` + difference of the shapes, of boxes at the same place."""
    a, b = _upcast(boxes1), _upcast(boxes2)
    both, union = _overlap(a, b)
    iou = both / (union + eps)
    shape = _shape_difference(a, b)
    weight = (shape / (1 - iou + shape + eps)).detach()
    return _reduced(1 - iou + _centre_distance(a, b, eps) + weight * shape, reduction)
