"""Boxes that detectors start from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import livegrad as lg
from livegrad import Tensor, nn
from livegrad.vision.models.detection.image_list import ImageList


class AnchorGenerator(nn.Module):
    """At every pixel of every map, a box per size and ratio (height by width)."""

    def __init__(
        self,
        sizes: Sequence[Any] = ((128, 256, 512),),
        aspect_ratios: Sequence[Any] = ((0.5, 1.0, 2.0),),
    ) -> None:
        super().__init__()
        self.sizes: Sequence[Any] = [x if isinstance(x, Sequence) else (x,) for x in sizes]
        ratios: Sequence[Any] = aspect_ratios
        if not isinstance(aspect_ratios[0], Sequence):
            ratios = (aspect_ratios,) * len(sizes)
        self.aspect_ratios = ratios
        rows = zip(self.sizes, self.aspect_ratios, strict=True)
        self.cell_anchors = [self.generate_anchors(size, ratio) for size, ratio in rows]

    def generate_anchors(self, scales: Sequence[int], aspect_ratios: Sequence[float]) -> Tensor:
        """Boxes around 0, rounded, ratios before sizes."""
        with lg.device("cpu"):
            tall = lg.tensor([float(x) for x in aspect_ratios]).sqrt()
            scale = lg.tensor([float(x) for x in scales])
            widths = ((1 / tall)[:, None] * scale[None, :]).flatten()
            heights = (tall[:, None] * scale[None, :]).flatten()
            return (lg.stack([-widths, -heights, widths, heights], 1) / 2).round()

    def num_anchors_per_location(self) -> list[int]:
        """How many boxes there are at a pixel of each map."""
        rows = zip(self.sizes, self.aspect_ratios, strict=True)
        return [len(size) * len(ratio) for size, ratio in rows]

    def _on(self, base: Tensor, grid: Sequence[int], stride: Sequence[int], like: Tensor) -> Tensor:
        ys, xs = (
            lg.arange(n, dtype=like.dtype, device=like.device) * by
            for n, by in zip(grid, stride, strict=True)
        )
        y, x = (each.flatten() for each in lg.meshgrid(ys, xs, indexing="ij"))
        moved = lg.stack((x, y, x, y), 1)
        base = base.to(device=like.device, dtype=like.dtype)
        return (moved[:, None] + base[None]).reshape(-1, 4)

    def forward(self, image_list: ImageList, feature_maps: Sequence[Tensor]) -> list[Tensor]:
        """The boxes of all maps, per image."""
        grids = [x.shape[-2:] for x in feature_maps]
        if len(grids) != len(self.cell_anchors):
            raise ValueError(
                f"there are {len(grids)} feature maps, and sizes for {len(self.cell_anchors)}"
            )
        size = image_list.tensors.shape[-2:]
        found = [
            self._on(base, grid, [a // b for a, b in zip(size, grid, strict=True)], feature_maps[0])
            for base, grid in zip(self.cell_anchors, grids, strict=True)
        ]
        return [lg.cat(found)] * len(image_list.image_sizes)


class DefaultBoxGenerator(nn.Module):
    """The boxes of SSD: two squares and some ratios at every pixel of every map."""

    def __init__(
        self,
        aspect_ratios: Sequence[Sequence[int]],
        min_ratio: float = 0.15,
        max_ratio: float = 0.9,
        scales: Sequence[float] | None = None,
        steps: Sequence[int] | None = None,
        clip: bool = True,
    ) -> None:
        super().__init__()
        if steps is not None and len(aspect_ratios) != len(steps):
            raise ValueError("aspect_ratios and steps should have the same length")
        self.aspect_ratios, self.steps, self.clip = aspect_ratios, steps, clip
        count = len(aspect_ratios)
        if scales is not None:
            self.scales = list(scales)
        elif count > 1:
            grow = (max_ratio - min_ratio) / (count - 1.0)
            self.scales = [min_ratio + grow * i for i in range(count)] + [1.0]
        else:
            self.scales = [min_ratio, max_ratio]
        self._wh_pairs = [self._pairs(i) for i in range(count)]

    def _pairs(self, level: int) -> list[tuple[float, float]]:
        """Widths and heights of the boxes of a map, by the image's."""
        scale, following = self.scales[level : level + 2]
        between = math.sqrt(scale * following)
        found = [(scale, scale), (between, between)]
        for ratio in self.aspect_ratios[level]:
            by = math.sqrt(ratio)
            found += [(scale * by, scale / by), (scale / by, scale * by)]
        return found

    def num_anchors_per_location(self) -> list[int]:
        """How many boxes there are at a pixel of each map."""
        return [2 + 2 * len(ratios) for ratios in self.aspect_ratios]

    def _on(self, level: int, grid: Sequence[int], image: Sequence[int], like: Tensor) -> Tensor:
        """Boxes (cx, cy, w, h) of a map, by the image's sizes."""
        per_image = grid
        if self.steps is not None:
            per_image = [side / self.steps[level] for side in image]  # type: ignore[misc]
        ys, xs = (
            ((lg.arange(n, dtype=lg.float32, device=like.device) + 0.5) / by).to(like.dtype)
            for n, by in zip(grid, per_image, strict=True)
        )
        y, x = (each.flatten() for each in lg.meshgrid(ys, xs, indexing="ij"))
        pairs = lg.tensor(self._wh_pairs[level], dtype=lg.float32, device=like.device)
        pairs = pairs.to(like.dtype)
        pairs = pairs.clamp(0, 1) if self.clip else pairs
        centres = lg.stack((x, y), -1)[:, None].expand(-1, len(pairs), 2)
        return lg.cat([centres, pairs[None].expand(len(x), -1, 2)], -1).reshape(-1, 4)

    def forward(self, image_list: ImageList, feature_maps: Sequence[Tensor]) -> list[Tensor]:
        """The boxes of all maps, per image."""
        image = image_list.tensors.shape[-2:]
        found = lg.cat([self._on(i, x.shape[-2:], image, x) for i, x in enumerate(feature_maps)])
        half = 0.5 * found[:, 2:]
        corners = lg.cat([found[:, :2] - half, found[:, :2] + half], -1)
        size = lg.tensor([image[1], image[0]] * 2, dtype=found.dtype, device=found.device)
        return [corners * size] * len(image_list.image_sizes)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(aspect_ratios={self.aspect_ratios}, clip={self.clip}, "
            f"scales={self.scales}, steps={self.steps})"
        )
