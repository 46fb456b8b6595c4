"""Pillow's images, where it is installed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

import livegrad as lg
from livegrad import Tensor


def is_pil(value: Any) -> bool:
    """Whether this is an image of Pillow's. Who has one has imported Pillow."""
    image = sys.modules.get("PIL.Image")
    return image is not None and isinstance(value, image.Image)


def pillow() -> ModuleType:
    """`PIL.Image`; an ImportError that says what to do."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("images of files need Pillow: pip install pillow") from None
    return Image


def pil_to_tensor(pic: Any) -> Tensor:
    """Pillow's image as a tensor (C, H, W) of the same values."""
    if not is_pil(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    found = lg.tensor(np.asarray(pic))
    return found.unsqueeze(0) if found.ndim == 2 else found.permute(2, 0, 1)
