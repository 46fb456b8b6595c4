"""Images: networks, transforms, data sets, boxes, pictures; torchvision's names."""

from __future__ import annotations

from livegrad.vision import (
    models as models,
    ops as ops,
    transforms as transforms,
    tv_tensors as tv_tensors,
)
