"""Boxes that transforms left without content are taken out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from livegrad import Tensor
from livegrad.vision import tv_tensors as tv
from livegrad.vision.transforms import functional as F
from livegrad.vision.transforms.base import Transform, leaves, rebuilt
from livegrad.vision.tv_tensors import BoundingBoxFormat


class SanitizeBoundingBoxes(Transform):
    """Takes out boxes below `min_size` and `min_area`, with their labels and masks.

    It reads values: how many boxes are left depends on them.
    """

    def __init__(
        self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: Any = "default"
    ) -> None:
        super().__init__()
        if min_size < 1 or min_area < 1:
            raise ValueError("min_size and min_area must be at least 1")
        self.min_size, self.min_area, self.labels_getter = min_size, min_area, labels_getter

    def _labels(self, inputs: Any) -> Any:
        if self.labels_getter is None:
            return None
        if callable(self.labels_getter):
            return self.labels_getter(inputs)
        target = inputs
        if isinstance(inputs, tuple) and len(inputs) > 1:
            target = inputs[1]
        if not isinstance(target, Mapping):
            return target if isinstance(target, Tensor) else None
        return next((v for k, v in target.items() if str(k).lower() in ("label", "labels")), None)

    def forward(self, *inputs: Any) -> Any:
        """A sample with boxes."""
        sample = inputs if len(inputs) > 1 else inputs[0]
        flat = leaves(sample)
        boxes = [x for x in flat if isinstance(x, tv.BoundingBoxes)]
        if len(boxes) != 1:
            raise ValueError(f"expected one set of boxes in the sample, got {len(boxes)}")
        labels = self._labels(sample)
        valid = self._valid(boxes[0])
        found = []
        for value in flat:
            follows = value is boxes[0] or value is labels
            follows |= isinstance(value, tv.Mask) and len(value) == len(valid)
            found.append(tv.wrap(value[valid], like=value) if follows else value)
        return rebuilt(sample, iter(found))

    def _valid(self, boxes: tv.BoundingBoxes) -> Tensor:
        corners = F.convert_bounding_box_format(boxes, BoundingBoxFormat.XYXY).as_subclass(Tensor)
        x1, y1, x2, y2 = corners.unbind(-1)
        width, height = x2 - x1, y2 - y1
        tall, wide = boxes.canvas_size
        inside = (x1 >= 0) & (y1 >= 0) & (x2 <= wide) & (y2 <= tall)
        large = (width >= self.min_size) & (height >= self.min_size)
        return inside & large & (width * height >= self.min_area)
