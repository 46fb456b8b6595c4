"""Transforms of batches: images mixed with others, and their labels alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import livegrad.nn.functional as nnF
from livegrad import Tensor, nn
from livegrad.vision import tv_tensors as tv
from livegrad.vision.transforms import draws
from livegrad.vision.transforms.base import leaves, rebuilt


class _Mixing(nn.Module):
    """The batch and its labels: (N,) with `num_classes`, or (N, classes)."""

    def __init__(
        self, *, alpha: float = 1.0, num_classes: int | None = None, labels_getter: Any = "default"
    ) -> None:
        super().__init__()
        self.alpha, self.num_classes = float(alpha), num_classes
        self.labels_getter = labels_getter

    def _labels(self, inputs: Any) -> Tensor:
        if callable(self.labels_getter):
            return self.labels_getter(inputs)
        if isinstance(inputs, Mapping):
            name = next((key for key in inputs if str(key).lower() in ("label", "labels")), None)
            if name is None:
                raise ValueError("there are no labels in this dict: give a labels_getter")
            return inputs[name]
        return inputs[1]

    def forward(self, *inputs: Any) -> Any:
        """Images (N, C, H, W) and labels, in a tuple or a dict."""
        sample = inputs if len(inputs) > 1 else inputs[0]
        labels, flat = self._labels(sample), leaves(sample)
        images = next((x for x in flat if isinstance(x, Tensor) and x.ndim == 4), None)
        if images is None:
            raise ValueError("Expected a batched input with 4 dims")
        if not isinstance(labels, Tensor):
            raise ValueError(f"The labels must be a tensor, but got {type(labels)} instead.")
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("num_classes must be passed if the labels are class indices (1D)")
        if len(labels) != len(images):
            raise ValueError(
                f"The batch size of the images ({len(images)}) does not match that of the labels "
                f"({len(labels)})"
            )
        if labels.ndim == 1:
            assert self.num_classes is not None
            shares = nnF.one_hot(labels, self.num_classes).float()
        else:
            shares = labels.float()
        mixed, part = self._mixed(images, draws.source().betavariate(self.alpha, self.alpha))
        weighed = shares.roll(1, 0) * (1.0 - part) + shares * part
        found = [mixed if x is images else weighed if x is labels else x for x in flat]
        return rebuilt(sample, iter(found))

    def _mixed(self, images: Any, part: float) -> tuple[Any, float]:
        raise NotImplementedError


class MixUp(_Mixing):
    """Each image as a weighed mean with the one before it."""

    def _mixed(self, images: Any, part: float) -> tuple[Any, float]:
        if not images.is_floating_point():
            raise ValueError(f"MixUp needs floats; got {images.dtype}")
        return tv.wrap(images.roll(1, 0) * (1.0 - part) + images * part, like=images), part


class CutMix(_Mixing):
    """Each image with a rectangle of the one before it."""

    def _mixed(self, images: Any, part: float) -> tuple[Any, float]:
        height, width = images.shape[-2:]
        source = draws.source()
        x, y = source.randrange(width), source.randrange(height)
        half = 0.5 * math.sqrt(1.0 - part)
        across, down = int(half * width), int(half * height)
        x1, y1 = max(x - across, 0), max(y - down, 0)
        x2, y2 = min(x + across, width), min(y + down, height)
        mixed = images.clone()
        mixed[..., y1:y2, x1:x2] = images.roll(1, 0)[..., y1:y2, x1:x2]
        return mixed, 1.0 - (x2 - x1) * (y2 - y1) / (width * height)
