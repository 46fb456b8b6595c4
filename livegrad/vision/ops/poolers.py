"""Boxes of all sizes, read from the map of a pyramid that fits each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import livegrad as lg
from livegrad import Tensor, nn
from livegrad.nn.tuples import _ntuple
from livegrad.vision.ops.boxes import box_area
from livegrad.vision.ops.rois import convert_boxes_to_roi_format, roi_align

_pair = _ntuple(2)


class MultiScaleRoIAlign(nn.Module):
    """`roi_align` from the map on which a box of `canonical_scale` would be level 4."""

    def __init__(
        self,
        featmap_names: Sequence[str],
        output_size: Any,
        sampling_ratio: int,
        *,
        canonical_scale: int = 224,
        canonical_level: int = 4,
    ) -> None:
        super().__init__()
        self.featmap_names = list(featmap_names)
        self.output_size = tuple(_pair(output_size))
        self.sampling_ratio = sampling_ratio
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level

    def forward(
        self,
        x: dict[str, Tensor],
        boxes: Sequence[Tensor],
        image_shapes: Sequence[tuple[int, int]],
    ) -> Tensor:
        """Values (K, C, *output_size) of all boxes of all images."""
        maps = [value for name, value in x.items() if name in self.featmap_names]
        size = [max(shape[i] for shape in image_shapes) for i in (0, 1)]
        scales = [2.0 ** round(math.log2(value.shape[-2] / size[0])) for value in maps]
        rois = convert_boxes_to_roi_format(boxes)
        options: dict[str, Any] = {
            "output_size": self.output_size,
            "sampling_ratio": self.sampling_ratio,
        }
        if len(maps) == 1:
            return roi_align(maps[0], rois, spatial_scale=scales[0], **options)
        levels = self._levels(boxes, scales)
        shape = (len(rois), maps[0].shape[1], *self.output_size)
        result = lg.zeros(shape, dtype=maps[0].dtype, device=maps[0].device)
        for level, (value, scale) in enumerate(zip(maps, scales, strict=True)):
            inside = (levels == level).nonzero()[:, 0]
            if len(inside):
                found = roi_align(value, rois[inside], spatial_scale=scale, **options)
                result[inside] = found.to(result.dtype)
        return result

    def _levels(self, boxes: Sequence[Tensor], scales: Sequence[float]) -> Tensor:
        """Which map each box is read from."""
        sides = lg.cat([box_area(x) for x in boxes]).sqrt()
        level = self.canonical_level + (sides / self.canonical_scale).log2() + 1e-6
        lowest, highest = (-round(math.log2(scale)) for scale in (scales[0], scales[-1]))
        return level.floor().clamp(lowest, highest).long() - lowest

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(featmap_names={self.featmap_names}, "
            f"output_size={self.output_size}, sampling_ratio={self.sampling_ratio})"
        )
