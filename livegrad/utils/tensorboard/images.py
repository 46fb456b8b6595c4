"""Images: arrays in any order of dims as rows of pixels, and those as PNG."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
COLUMNS = 8  # images side by side in a grid


def pixels(image: Array, dataformats: str) -> Array:
    """(H, W, C) of uint8 with 1, 3 or 4 channels; several images (N) become a grid.

    `dataformats` names the dims: CHW, HWC, HW, NCHW, NHWC, …. Floats are from 0 to 1.
    """
    names = dataformats.upper()
    if len(names) != image.ndim or len(set(names)) != len(names) or not set(names) <= set("NCHW"):
        raise ValueError(
            f"add_image: got shape {image.shape} with dataformats={dataformats!r}; expected one "
            "letter of N, C, H, W for each dim"
        )
    if not {"H", "W"} <= set(names):
        raise ValueError(f"add_image: dataformats={dataformats!r} lacks H or W")
    for name in "NC":
        if name not in names:
            image, names = image[None], name + names
    ordered = image.transpose([names.index(name) for name in "NHWC"])
    found = grid(image_bytes(ordered))
    if found.shape[2] not in (1, 2, 3, 4):
        raise ValueError(f"add_image: got {found.shape[2]} channels; expected 1, 2, 3 or 4")
    return found


def image_bytes(image: Array) -> Array:
    """Pixels from 0 to 255; floats are from 0 to 1."""
    if image.dtype.kind == "f":
        clean = np.nan_to_num(image.astype(np.float32), nan=0.0, posinf=1.0, neginf=0.0)
        return (clean * 255.0).clip(0, 255).astype(np.uint8)
    if image.dtype.kind == "b":
        return image.astype(np.uint8) * np.uint8(255)
    return image.clip(0, 255).astype(np.uint8)


def grid(images: Array, most: int = COLUMNS) -> Array:
    """(N, H, W, C) as one image, row by row, at most so many side by side."""
    count, height, width, channels = images.shape
    if count == 1:
        first: Array = images[0]
        return first
    columns = min(most, count)
    rows = -(-count // columns)
    full = np.zeros((rows * columns, height, width, channels), np.uint8)
    full[:count] = images
    across = full.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return across.reshape(rows * height, columns * width, channels)


_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # grey, grey and alpha, RGB, RGB and alpha


def png(image: Array) -> bytes:
    """(H, W, C) of uint8 as a PNG file."""
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    rows = np.ascontiguousarray(image).reshape(height, width * channels)
    # Before each row is the number of its filter: 0 for none.
    filtered = np.concatenate([np.zeros((height, 1), np.uint8), rows], 1)
    parts = [
        _chunk(b"IHDR", header),
        _chunk(b"IDAT", zlib.compress(filtered.tobytes())),
        _chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum


def figure_pixels(figure: Any) -> Array:
    """A figure of matplotlib as (H, W, 4)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba(), np.uint8)
