"""Pillow, where it is installed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


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
