"""Transforms of Pillow's images, by Pillow."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from livegrad.vision.transforms.modes import NUMBERS, InterpolationMode

with suppress(ImportError):  # then nobody has an image of Pillow's
    from PIL import Image, ImageEnhance, ImageOps


def size_of(img: Any) -> tuple[int, int]:
    """Height and width."""
    return img.height, img.width


def channels_of(img: Any) -> int:
    """1 for grey, 3 for colours."""
    return len(img.getbands())


def hflip(img: Any) -> Any:
    """Left and right changed over."""
    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    """Top and bottom changed over."""
    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def resize(
    img: Any, size: Sequence[int], mode: InterpolationMode, antialias: bool | None = True
) -> Any:
    """The image at another size (height, width)."""
    if size_of(img) == tuple(size):
        return img
    return img.resize(tuple(size[::-1]), NUMBERS[mode])


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part; black where it is outside."""
    return img.crop((left, top, left + width, top + height))


def _fill_for(fill: Any, img: Any, name: str = "fillcolor") -> dict[str, Any]:
    """A colour as Pillow wants it."""
    bands = channels_of(img)
    if fill is None:
        fill = 0
    if isinstance(fill, numbers.Number) and bands > 1:
        fill = (fill,) * bands
    if isinstance(fill, Sequence):
        if bands == 1 and len(fill) == 1:
            fill = fill[0]
        elif len(fill) == 1:
            fill = tuple(fill) * bands
        elif len(fill) != bands:
            raise ValueError(
                "The number of elements in 'fill' does not match the number of channels of the "
                f"image ({len(fill)} != {bands})"
            )
    if img.mode != "F":
        fill = tuple(int(x) for x in fill) if isinstance(fill, Sequence) else int(fill)
    return {name: fill}


def pad(img: Any, amounts: Sequence[int], fill: Any, padding_mode: str) -> Any:
    """More pixels at left, top, right and bottom; negative amounts cut."""
    if padding_mode == "constant":
        options = _fill_for(fill, img, "fill")
        if img.mode == "P":
            found = ImageOps.expand(img, border=tuple(amounts), **options)
            found.putpalette(img.getpalette())
            return found
        return ImageOps.expand(img, border=tuple(amounts), **options)
    left, top, right, bottom = amounts
    cut = [max(-x, 0) for x in amounts]
    img = img.crop((cut[0], cut[1], img.width - cut[2], img.height - cut[3]))
    left, top, right, bottom = (max(x, 0) for x in amounts)
    array = np.asarray(img)
    sides: list[tuple[int, int]] = [(top, bottom), (left, right)] + [(0, 0)] * (array.ndim - 2)
    kind: Any = padding_mode
    found = Image.fromarray(np.pad(array, sides, kind))
    if img.mode == "P":
        found = found.copy()
        found.putpalette(img.getpalette())
    return found


def affine(img: Any, matrix: Sequence[float], mode: InterpolationMode, fill: Any) -> Any:
    """Each pixel of the result is read where `matrix` (2 × 3) says."""
    options = _fill_for(fill, img)
    return img.transform(img.size, Image.Transform.AFFINE, tuple(matrix), NUMBERS[mode], **options)


def rotate(
    img: Any, angle: float, mode: InterpolationMode, expand: bool, center: Any, fill: Any
) -> Any:
    """Turned to the left, in degrees."""
    options = _fill_for(fill, img)
    return img.rotate(angle, NUMBERS[mode], expand, center, **options)


def perspective(img: Any, coeffs: Sequence[float], mode: InterpolationMode, fill: Any) -> Any:
    """Each pixel of the result is read where the eight coefficients say."""
    options = _fill_for(fill, img)
    return img.transform(
        img.size, Image.Transform.PERSPECTIVE, tuple(coeffs), NUMBERS[mode], **options
    )


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Between black and the image, or beyond it."""
    return ImageEnhance.Brightness(img).enhance(brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Between the mean grey and the image, or beyond it."""
    return ImageEnhance.Contrast(img).enhance(contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Between grey and the image, or beyond it."""
    return ImageEnhance.Color(img).enhance(saturation_factor)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Between the smoothed image and the image, or beyond it."""
    return ImageEnhance.Sharpness(img).enhance(sharpness_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """All colours turned by a part of the circle, -0.5 to 0.5."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if img.mode in ("L", "1", "I", "F"):
        return img
    h, s, v = img.convert("HSV").split()
    turned = np.array(h, dtype=np.uint8)
    turned += np.array(hue_factor * 255).astype(np.int32).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned, "L"), s, v)).convert(img.mode)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain · img ** gamma."""
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    table = [int((255 + 1 - 1e-3) * gain * (x / 255.0) ** gamma) for x in range(256)] * 3
    colours = img.convert("RGB").point(table)
    return colours.convert(img.mode)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The weighted mean of the colours."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    grey = img.convert("L")
    return grey if num_output_channels == 1 else Image.merge("RGB", (grey, grey, grey))


def invert(img: Any) -> Any:
    """White less the image."""
    return ImageOps.invert(img)


def posterize(img: Any, bits: int) -> Any:
    """Only the highest bits."""
    return ImageOps.posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """Inverted from the threshold on."""
    return ImageOps.solarize(img, threshold)  # type: ignore[arg-type,unused-ignore]


def autocontrast(img: Any) -> Any:
    """The darkest value of a channel becomes black, the lightest white."""
    return ImageOps.autocontrast(img)


def equalize(img: Any) -> Any:
    """Every value as often as any other, as far as possible."""
    return ImageOps.equalize(img)
