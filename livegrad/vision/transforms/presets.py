"""What images need before torchvision's weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import livegrad as lg
from livegrad import Tensor, nn
from livegrad.vision.transforms import functional as F
from livegrad.vision.transforms.modes import InterpolationMode

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageClassification(nn.Module):
    """Resized, cut to the middle, from 0 to 1, normalised."""

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: Sequence[float] = _MEAN,
        std: Sequence[float] = _STD,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Tensor:
        """An image, or a batch of tensors."""
        img = F.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        img = F.center_crop(img, self.crop_size)
        img = img if isinstance(img, Tensor) else F.pil_to_tensor(img)
        img = F.convert_image_dtype(img, lg.float32)
        return F.normalize(img, self.mean, self.std)


class SemanticSegmentation(nn.Module):
    """Resized, from 0 to 1, normalised."""

    def __init__(
        self,
        *,
        resize_size: int | None = 520,
        mean: Sequence[float] = _MEAN,
        std: Sequence[float] = _STD,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.resize_size = None if resize_size is None else [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Tensor:
        """An image, or a batch of tensors."""
        if self.resize_size is not None:
            img = F.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        img = img if isinstance(img, Tensor) else F.pil_to_tensor(img)
        return F.normalize(F.convert_image_dtype(img, lg.float32), self.mean, self.std)


class ObjectDetection(nn.Module):
    """From 0 to 1; detectors resize for themselves."""

    def forward(self, img: Any) -> Tensor:
        """An image, or a batch of tensors."""
        img = img if isinstance(img, Tensor) else F.pil_to_tensor(img)
        return F.convert_image_dtype(img, lg.float32)


def preset_of(model: str) -> Any:
    """Makes the transform for a model; its arguments may be changed."""
    if model.startswith(("fcn", "deeplab", "lraspp")):
        return SemanticSegmentation
    if model.startswith(("ssd", "retinanet", "fasterrcnn")):
        return ObjectDetection
    crop, resize = (299, 342) if model == "inception_v3" else (224, 256)
    return partial(ImageClassification, crop_size=crop, resize_size=resize)
