"""Pictures of files as tensors (C, H, W) of bytes, by Pillow."""

from __future__ import annotations

import io
import os
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

import livegrad as lg
from livegrad import Tensor
from livegrad.vision.pictures import pil_to_tensor, pillow
from livegrad.vision.transforms.conversions import to_pil_image

_Path = str | os.PathLike[str]


class ImageReadMode(Enum):
    """How many channels a picture is read with; UNCHANGED: as many as it has."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def read_file(path: _Path) -> Tensor:
    """The bytes of a file."""
    return lg.tensor(np.frombuffer(Path(path).read_bytes(), dtype=np.uint8))


def write_file(filename: _Path, data: Tensor) -> None:
    """Writes bytes, all of them or none."""
    if data.dtype != lg.uint8 or data.ndim != 1:
        raise RuntimeError("Input tensor data should be of dtype uint8 and have one dim")
    target = Path(filename)
    part = target.with_name(f".{target.name}.part")
    part.write_bytes(data.numpy().tobytes())
    os.replace(part, target)


def decode_image(
    input: Tensor | _Path,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """The picture of a file, or of its bytes."""
    source: Any = io.BytesIO(input.numpy().tobytes()) if isinstance(input, Tensor) else str(input)
    wanted = ImageReadMode[mode.upper()] if isinstance(mode, str) else mode
    try:
        picture = pillow().open(source)
        picture.load()
    except FileNotFoundError:
        raise RuntimeError(f"[Errno 2] No such file or directory: '{input}'") from None
    except OSError as error:
        raise RuntimeError(f"this is no picture: {error}") from None
    if apply_exif_orientation:
        from PIL import ImageOps

        picture = ImageOps.exif_transpose(picture)
    if wanted is ImageReadMode.UNCHANGED:
        known = picture.mode in ("L", "LA", "RGB", "RGBA", "I;16")
        picture = picture if known else picture.convert("RGB")
    else:
        picture = picture.convert(_MODES[wanted.value])
    return pil_to_tensor(picture).contiguous()


def read_image(
    path: _Path,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """The picture of a file."""
    return decode_image(path, mode, apply_exif_orientation)


decode_png = decode_jpeg = decode_webp = decode_gif = decode_image


def _encoded(input: Tensor, format: str, **options: Any) -> Tensor:
    if input.dtype != lg.uint8:
        raise RuntimeError(f"Input tensor dtype should be uint8, got {input.dtype}")
    if input.ndim != 3 or input.shape[0] not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got: {tuple(input.shape)}")
    file = io.BytesIO()
    to_pil_image(input).save(file, format=format, **options)
    return lg.tensor(np.frombuffer(file.getvalue(), dtype=np.uint8))


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """The bytes of a PNG file."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError("Compression level should be between 0 and 9")
    return _encoded(input, "PNG", compress_level=compression_level)


def encode_jpeg(input: Tensor, quality: int = 75) -> Tensor:
    """The bytes of a JPEG file."""
    if not 1 <= quality <= 100:
        raise ValueError("Image quality should be a positive number between 1 and 100")
    return _encoded(input, "JPEG", quality=quality)


def write_png(input: Tensor, filename: _Path, compression_level: int = 6) -> None:
    """Writes a picture (C, H, W) of bytes."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: Tensor, filename: _Path, quality: int = 75) -> None:
    """Writes a picture (C, H, W) of bytes."""
    write_file(filename, encode_jpeg(input, quality))
