"""What detectors do with images before, and with boxes after."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.vision.models.detection.image_list import ImageList

Target = dict[str, Any]


def resize_boxes(boxes: Tensor, original_size: Sequence[int], new_size: Sequence[int]) -> Tensor:
    """Boxes of an image, as those of the resized image; sizes are (height, width)."""
    down, right = (
        lg.tensor(new, dtype=lg.float32, device=boxes.device)
        / lg.tensor(old, dtype=lg.float32, device=boxes.device)
        for new, old in zip(new_size, original_size, strict=True)
    )
    x1, y1, x2, y2 = boxes.unbind(1)
    return lg.stack((x1 * right, y1 * down, x2 * right, y2 * down), 1)


class GeneralizedRCNNTransform(nn.Module):
    """Normalises and resizes images and puts them into one tensor; undoes it for results."""

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int,
        image_mean: Sequence[float],
        image_std: Sequence[float],
        size_divisible: int = 32,
        fixed_size: tuple[int, int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.min_size = tuple(min_size) if isinstance(min_size, Sequence) else (min_size,)
        self.max_size = max_size
        self.image_mean, self.image_std = list(image_mean), list(image_std)
        self.size_divisible, self.fixed_size = size_divisible, fixed_size

    def forward(
        self, images: Sequence[Tensor], targets: Sequence[Target] | None = None
    ) -> tuple[ImageList, list[Target] | None]:
        """Images ready for the network, and targets that fit them."""
        ready, fitting = [], []
        for i, image in enumerate(images):
            if image.ndim != 3:
                raise ValueError(
                    f"images is expected to be a list of 3d tensors of shape [C, H, W], got "
                    f"{tuple(image.shape)}"
                )
            target = None if targets is None else dict(targets[i])
            image, target = self.resize(self.normalize(image), target)
            ready.append(image)
            fitting.append(target)
        sizes = [(x.shape[-2], x.shape[-1]) for x in ready]
        together = ImageList(self.batch_images(ready, self.size_divisible), sizes)
        return together, None if targets is None else [x for x in fitting if x is not None]

    def normalize(self, image: Tensor) -> Tensor:
        """Mean 0 and spread 1 over many images."""
        if not image.is_floating_point():
            raise TypeError(
                f"Expected input images to be of floating type (in range [0, 1]), "
                f"but found type {image.dtype} instead"
            )
        mean = lg.tensor(self.image_mean, dtype=image.dtype, device=image.device)
        std = lg.tensor(self.image_std, dtype=image.dtype, device=image.device)
        return (image - mean[:, None, None]) / std[:, None, None]

    def resize(self, image: Tensor, target: Target | None = None) -> tuple[Tensor, Target | None]:
        """The shorter side at `min_size`, unless the longer one then exceeds `max_size`."""
        old = image.shape[-2:]
        if self.fixed_size is not None:
            size = (self.fixed_size[1], self.fixed_size[0])
        else:
            shorter = random.choice(self.min_size) if self.training else self.min_size[-1]
            scale = min(shorter / min(old), self.max_size / max(old))
            size = (math.floor(old[0] * scale), math.floor(old[1] * scale))
        image = F.interpolate(image[None], size=size, mode="bilinear", align_corners=False)[0]
        if target is not None:
            target["boxes"] = resize_boxes(target["boxes"], old, size)
            if "masks" in target:
                masks = F.interpolate(target["masks"][:, None].float(), size=size)[:, 0]
                target["masks"] = masks.to(target["masks"].dtype)
        return image, target

    def batch_images(self, images: Sequence[Tensor], size_divisible: int = 32) -> Tensor:
        """One tensor, with zeros where an image is smaller than the largest."""
        sides = [max(x.shape[i] for x in images) for i in (-2, -1)]
        height, width = (math.ceil(x / size_divisible) * size_divisible for x in sides)
        filled = [F.pad(x, (0, width - x.shape[-1], 0, height - x.shape[-2])) for x in images]
        return lg.stack(filled)

    def postprocess(
        self,
        result: list[Target],
        image_shapes: Sequence[tuple[int, int]],
        original_image_sizes: Sequence[tuple[int, int]],
    ) -> list[Target]:
        """Boxes of the images as they came."""
        if self.training:
            return result
        for found, new, old in zip(result, image_shapes, original_image_sizes, strict=True):
            found["boxes"] = resize_boxes(found["boxes"], new, old)
        return result

    def __repr__(self) -> str:
        inside = (
            f"Normalize(mean={self.image_mean}, std={self.image_std})",
            f"Resize(min_size={self.min_size}, max_size={self.max_size}, mode='bilinear')",
        )
        return f"{type(self).__name__}(" + "".join(f"\n    {x}" for x in inside) + "\n)"
