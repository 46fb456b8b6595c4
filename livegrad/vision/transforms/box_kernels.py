"""Transforms of boxes, by their corners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import livegrad as lg
from livegrad import Tensor
from livegrad.vision.ops.boxes import box_convert
from livegrad.vision.tv_tensors import BoundingBoxes, BoundingBoxFormat


def converted(boxes: Tensor, old: BoundingBoxFormat, new: BoundingBoxFormat) -> Tensor:
    """Boxes in another format; integers stay integers."""
    plain = boxes.as_subclass(Tensor)
    if old == new:
        return plain
    if plain.is_floating_point():
        return box_convert(plain, old.value.lower(), new.value.lower())
    found = box_convert(plain.double(), old.value.lower(), new.value.lower())
    return found.floor().to(boxes.dtype)


def _corners(boxes: BoundingBoxes) -> Tensor:
    return converted(boxes, boxes.format, BoundingBoxFormat.XYXY)


def _back(
    corners: Tensor, boxes: BoundingBoxes, size: Sequence[int], clamp: bool = False
) -> BoundingBoxes:
    """Corners as boxes of the class, format and dtype of others, in an image of `size`."""
    if clamp:
        corners = _within(corners, size)
    if not boxes.is_floating_point() and corners.is_floating_point():
        corners = corners.round()
    found = converted(corners.to(boxes.dtype), BoundingBoxFormat.XYXY, boxes.format)
    return BoundingBoxes.wrap(found, like=boxes, canvas_size=size)


def _within(corners: Tensor, size: Sequence[int]) -> Tensor:
    x = corners[..., 0::2].clamp(0, size[1])
    y = corners[..., 1::2].clamp(0, size[0])
    return lg.stack((x, y), -1).reshape(corners.shape)


def clamped(boxes: BoundingBoxes) -> BoundingBoxes:
    """Boxes without what is outside of the image."""
    return _back(_corners(boxes), boxes, boxes.canvas_size, clamp=True)


def reformatted(boxes: BoundingBoxes, new: BoundingBoxFormat | str) -> BoundingBoxes:
    """Boxes in another format."""
    new = BoundingBoxFormat[new.upper()] if isinstance(new, str) else new
    return BoundingBoxes.wrap(converted(boxes, boxes.format, new), like=boxes, format=new)


def hflip(boxes: BoundingBoxes) -> BoundingBoxes:
    """Left and right changed over."""
    x1, y1, x2, y2 = _corners(boxes).unbind(-1)
    width = boxes.canvas_size[1]
    return _back(lg.stack((width - x2, y1, width - x1, y2), -1), boxes, boxes.canvas_size)


def vflip(boxes: BoundingBoxes) -> BoundingBoxes:
    """Top and bottom changed over."""
    x1, y1, x2, y2 = _corners(boxes).unbind(-1)
    height = boxes.canvas_size[0]
    return _back(lg.stack((x1, height - y2, x2, height - y1), -1), boxes, boxes.canvas_size)


def resize(boxes: BoundingBoxes, size: Sequence[int], *rest: Any) -> BoundingBoxes:
    """Of the image at another size (height, width)."""
    old = boxes.canvas_size
    by = [size[1] / old[1], size[0] / old[0]] * 2
    scaled = _corners(boxes).to(lg.float64) * lg.tensor(by, dtype=lg.float64, device=boxes.device)
    return _back(scaled if not boxes.is_floating_point() else scaled.to(boxes.dtype), boxes, size)


def crop(boxes: BoundingBoxes, top: int, left: int, height: int, width: int) -> BoundingBoxes:
    """Of a part of the image."""
    by = lg.tensor([left, top, left, top], dtype=boxes.dtype, device=boxes.device)
    return _back(_corners(boxes) - by, boxes, (height, width), clamp=True)


def pad(boxes: BoundingBoxes, amounts: Sequence[int], fill: Any, mode: str) -> BoundingBoxes:
    """Of the image with more pixels at left, top, right and bottom."""
    if mode not in ("constant",):
        raise ValueError(f"Padding mode '{mode}' is not supported with bounding boxes")
    left, top, right, bottom = amounts
    height, width = boxes.canvas_size
    by = lg.tensor([left, top, left, top], dtype=boxes.dtype, device=boxes.device)
    size = (height + top + bottom, width + left + right)
    return _back(_corners(boxes) + by, boxes, size, clamp=True)


def _points(corners: Tensor) -> Tensor:
    """All four corners of boxes, (N, 4, 2)."""
    x1, y1, x2, y2 = corners.unbind(-1)
    points = [lg.stack(pair, -1) for pair in ((x1, y1), (x2, y1), (x2, y2), (x1, y2))]
    return lg.stack(points, -2)


def _around(points: Tensor) -> Tensor:
    """The boxes around points (N, 4, 2)."""
    return lg.cat([points.amin(-2), points.amax(-2)], -1)


def affine(
    boxes: BoundingBoxes, matrix: Sequence[float], size: Sequence[int] | None, offset: Any = (0, 0)
) -> BoundingBoxes:
    """The boxes around the corners that a 2 × 3 matrix moves, and `offset` after it."""
    corners = _corners(boxes)
    dtype = corners.dtype if corners.is_floating_point() else lg.float32
    theta = lg.tensor(list(matrix), dtype=dtype, device=boxes.device).reshape(2, 3)
    moved = _points(corners.to(dtype)) @ theta[:, :2].t() + theta[:, 2]
    moved = moved + lg.tensor(list(offset), dtype=dtype, device=boxes.device)
    return _back(_around(moved), boxes, size or boxes.canvas_size, clamp=True)


def perspective(boxes: BoundingBoxes, coeffs: Sequence[float]) -> BoundingBoxes:
    """The boxes around the corners that the eight coefficients move."""
    corners = _corners(boxes)
    dtype = corners.dtype if corners.is_floating_point() else lg.float32
    points = _points(corners.to(dtype))
    ones = lg.ones_like(points[..., :1])
    a = lg.tensor([*coeffs, 1.0], dtype=dtype, device=boxes.device).reshape(3, 3)
    moved = lg.cat([points, ones], -1) @ a.t()
    return _back(_around(moved[..., :2] / moved[..., 2:]), boxes, boxes.canvas_size, clamp=True)
