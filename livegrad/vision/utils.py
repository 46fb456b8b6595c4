"""Pictures of tensors: grids, boxes, masks and keypoints drawn on images."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import livegrad as lg
from livegrad import Tensor
from livegrad.vision.pictures import pil_to_tensor, pillow
from livegrad.vision.transforms.conversions import to_pil_image

_Colors = Any  # names, "#rrggbb", or triples: one, or one for each


def make_grid(
    tensor: Tensor | Sequence[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Images (N, C, H, W) as one image (3, …), `nrow` side by side.

    `normalize` makes values 0 to 1: of `value_range`, or from the least to the largest of all, or
    of each (`scale_each`).
    """
    if not isinstance(tensor, Tensor):
        if not isinstance(tensor, Sequence) or not all(isinstance(x, Tensor) for x in tensor):
            raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
        tensor = lg.stack(list(tensor))
    if tensor.ndim == 2:
        tensor = tensor.unsqueeze(0)
    if tensor.ndim == 3:
        tensor = tensor.expand(3, -1, -1) if tensor.shape[0] == 1 else tensor
        tensor = tensor.unsqueeze(0)
    if tensor.shape[1] == 1:
        tensor = tensor.expand(-1, 3, -1, -1)
    if normalize:
        tensor = _normalized(tensor, value_range, scale_each)
    if tensor.shape[0] == 1:
        return tensor.squeeze(0)
    count, channels, height, width = tensor.shape
    across = min(nrow, count)
    down = math.ceil(count / across)
    shape = (channels, down * (height + padding) + padding, across * (width + padding) + padding)
    grid = lg.full(shape, pad_value, dtype=tensor.dtype, device=tensor.device)
    for i in range(count):
        top = (i // across) * (height + padding) + padding
        left = (i % across) * (width + padding) + padding
        grid[:, top : top + height, left : left + width] = tensor[i]
    return grid


def _normalized(x: Tensor, value_range: Any, scale_each: bool) -> Tensor:
    if value_range is not None and not isinstance(value_range, tuple):
        raise TypeError(
            "value_range has to be a tuple (min, max) if specified. min and max are numbers"
        )
    low: Any
    high: Any
    if value_range is not None:
        low, high = value_range
        x = x.clamp(low, high)
        return (x - low) / max(high - low, 1e-5)
    dims = (1, 2, 3) if scale_each else (0, 1, 2, 3)
    low, high = x.amin(dims, keepdim=True), x.amax(dims, keepdim=True)
    return (x - low) / (high - low).clamp(min=1e-5)


def save_image(
    tensor: Tensor | Sequence[Tensor],
    fp: Any,
    format: str | None = None,
    **kwargs: Any,
) -> None:
    """Writes images, floats from 0 to 1, as one picture; the arguments of `make_grid` follow."""
    grid = make_grid(tensor, **kwargs)
    pixels = (grid * 255 + 0.5).clamp(0, 255).to(lg.uint8).permute(1, 2, 0)
    picture = pillow().fromarray(pixels.contiguous().numpy())
    picture.save(str(fp) if isinstance(fp, Path) else fp, format=format)


# ------------------------------------------------------------------------------------------ drawing


def _image(image: Tensor) -> tuple[Tensor, Tensor]:
    """The image, and its bytes in three channels."""
    if not isinstance(image, Tensor):
        raise TypeError(f"The image must be a tensor, got {type(image)}")
    if image.dtype != lg.uint8 and not image.is_floating_point():
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.ndim != 3:
        raise ValueError("Pass individual images, not batches")
    if image.shape[0] not in (1, 3):
        raise ValueError("Only grayscale and RGB images are supported")
    pixels = (image * 255).to(lg.uint8) if image.is_floating_point() else image
    return image, pixels.expand(3, -1, -1) if image.shape[0] == 1 else pixels


def _as_before(pixels: Tensor, image: Tensor) -> Tensor:
    if image.is_floating_point():
        return pixels.to(image.dtype) / 255
    return pixels


def _palette(count: int) -> list[tuple[int, int, int]]:
    """Colours far from each other."""
    turns = ((i * 0.618033988749895) % 1.0 for i in range(count))
    found = (colorsys.hsv_to_rgb(turn, 0.75, 0.95) for turn in turns)
    return [(round(255 * r), round(255 * g), round(255 * b)) for r, g, b in found]


def _colors(colors: _Colors, count: int) -> list[tuple[int, int, int]]:
    if colors is None:
        return _palette(count)
    if isinstance(colors, list):
        if len(colors) < count:
            raise ValueError(
                "Number of colors must be equal or larger than the number of objects, but got "
                f"{len(colors)} < {count}."
            )
        given = colors[:count]
    else:
        given = [colors] * count
    from PIL import ImageColor

    return [ImageColor.getrgb(x)[:3] if isinstance(x, str) else tuple(x) for x in given]


def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: Sequence[str | None] | None = None,
    colors: _Colors = None,
    fill: bool | None = False,
    width: int = 1,
    font: str | None = None,
    font_size: int | None = None,
    label_colors: _Colors = None,
) -> Tensor:
    """The image with boxes (N, 4) of corners, and a label for each."""
    image, pixels = _image(image)
    count = len(boxes)
    if count == 0:
        return image
    if labels is not None and len(labels) != count:
        raise ValueError(
            f"The number of boxes ({count}) and labels ({len(labels)}) mismatch. Please specify "
            "labels for each box."
        )
    from PIL import ImageDraw, ImageFont

    picture = to_pil_image(pixels)
    brush = ImageDraw.Draw(picture, "RGBA" if fill else None)
    written = ImageFont.load_default(font_size or 10) if font is None else None
    letters = written or ImageFont.truetype(str(font), font_size or 10)
    shades = _colors(colors, count)
    inks = shades if label_colors is None else _colors(label_colors, count)
    for i, box in enumerate(boxes.to(lg.int64).tolist()):
        inside = (*shades[i], 100) if fill else None
        brush.rectangle(box, width=width, outline=shades[i], fill=inside)
        text = labels[i] if labels is not None else None
        if text is not None:
            place = (box[0] + width + 1, box[1] + width + 1)
            brush.text(place, text, fill=inks[i], font=letters)
    return _as_before(pil_to_tensor(picture), image)


def draw_segmentation_masks(
    image: Tensor, masks: Tensor, alpha: float = 0.8, colors: _Colors = None
) -> Tensor:
    """The image with masks (N, H, W) of booleans in colours, through which it can be seen."""
    image, pixels = _image(image)
    masks = masks.unsqueeze(0) if masks.ndim == 2 else masks
    if masks.ndim != 3:
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if masks.dtype != lg.bool:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    if len(masks) == 0:
        return image
    drawn = pixels
    for mask, shade in zip(masks, _colors(colors, len(masks)), strict=True):
        ink = lg.tensor(shade, dtype=lg.uint8, device=image.device).reshape(3, 1, 1)
        drawn = lg.where(mask, ink, drawn)
    mixed = pixels.float() * (1 - alpha) + drawn.float() * alpha
    covered = masks.any(0)
    return _as_before(lg.where(covered, mixed, pixels.float()).to(lg.uint8), image)


def draw_keypoints(
    image: Tensor,
    keypoints: Tensor,
    connectivity: Sequence[tuple[int, int]] | None = None,
    colors: Any = None,
    radius: int = 2,
    width: int = 3,
    visibility: Tensor | None = None,
) -> Tensor:
    """The image with points (N, K, 2), and lines between those of `connectivity`."""
    image, pixels = _image(image)
    if keypoints.ndim != 3:
        raise ValueError("keypoints must be of shape (num_instances, K, 2)")
    from PIL import ImageDraw

    picture = to_pil_image(pixels)
    brush = ImageDraw.Draw(picture)
    seen = None if visibility is None else visibility.reshape(keypoints.shape[:2]).tolist()
    ink = "red" if colors is None else colors
    for i, points in enumerate(keypoints.to(lg.int64).tolist()):
        shown = [True] * len(points) if seen is None else [bool(x) for x in seen[i]]
        for (x, y), is_shown in zip(points, shown, strict=True):
            if is_shown:
                brush.ellipse([x - radius, y - radius, x + radius, y + radius], fill=ink)
        for a, b in connectivity or ():
            if shown[a] and shown[b]:
                brush.line([*points[a], *points[b]], width=width)
    return _as_before(pil_to_tensor(picture), image)
