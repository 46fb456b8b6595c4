"""Images: networks, transforms, data sets, boxes, pictures; torchvision's names."""

from __future__ import annotations

from livegrad.jit import is_tracing
from livegrad.vision import (
    datasets as datasets,
    io as io,
    models as models,
    ops as ops,
    transforms as transforms,
    tv_tensors as tv_tensors,
    utils as utils,
)

__version__ = "0.28.0"  # the torchvision whose names are followed


def get_image_backend() -> str:
    """What reads pictures: Pillow."""
    return "PIL"


def set_image_backend(backend: str) -> None:
    """Accepts "PIL", the only one."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend '{backend}'. Options are 'PIL'")


def _is_tracing() -> bool:
    """Whether `jit.trace` runs what calls this: model code asks torchvision for it."""
    return is_tracing()
