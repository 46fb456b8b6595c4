"""Transforms as functions: of Pillow's images, tensors, masks and boxes.

```
 resize(x, 32) ──► the kernel for what x is:   Pillow's image   pil_kernels
                                               boxes            box_kernels
                                               masks            tensors, nearest
                                               tensors, images  tensor_geometry, tensor_color
```
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

import livegrad as lg
from livegrad import Tensor
from livegrad.vision import tv_tensors as tv
from livegrad.vision.pictures import is_pil
from livegrad.vision.transforms import (
    box_kernels as on_boxes,
    pil_kernels as on_pictures,
    tensor_color,
    tensor_geometry as on_tensors,
)
from livegrad.vision.transforms.conversions import (
    pil_to_tensor as pil_to_tensor,
    to_image as to_image,
    to_pil_image as to_pil_image,
    to_tensor as to_tensor,
)
from livegrad.vision.transforms.modes import InterpolationMode as InterpolationMode, mode_of

_NEAREST = InterpolationMode.NEAREST
_BILINEAR = InterpolationMode.BILINEAR


def is_image(value: Any) -> bool:
    """Whether this is something with pixels."""
    return is_pil(value) or (isinstance(value, Tensor) and not isinstance(value, tv.BoundingBoxes))


def _checked(img: Any) -> Any:
    if not is_pil(img) and not isinstance(img, Tensor):
        raise TypeError(f"Unexpected type {type(img)}")
    return img


def _same(found: Tensor, img: Any) -> Any:
    """The result of a kernel of tensors, as what the image was."""
    return tv.wrap(found, like=img)


def _plain(img: Any) -> Tensor:
    return img.as_subclass(Tensor) if isinstance(img, tv.TVTensor) else img


# -------------------------------------------------------------------------------------------- sizes


def get_size(img: Any) -> list[int]:
    """Height and width."""
    if isinstance(img, tv.BoundingBoxes):
        return list(img.canvas_size)
    if is_pil(img):
        return [img.height, img.width]
    if isinstance(img, Tensor) and img.ndim >= 2:
        return list(img.shape[-2:])
    raise TypeError(f"Unexpected type {type(img)}")


def get_image_size(img: Any) -> list[int]:
    """Width and height."""
    return get_size(img)[::-1]


def get_num_channels(img: Any) -> int:
    """Channels of an image."""
    if is_pil(img):
        return len(img.getbands())
    return 1 if _checked(img).ndim == 2 else img.shape[-3]


get_image_num_channels = get_num_channels


def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width."""
    return [get_num_channels(img), *get_size(img)]


# ----------------------------------------------------------------------------------------- geometry


def hflip(img: Any) -> Any:
    """Left and right changed over."""
    if isinstance(img, tv.BoundingBoxes):
        return on_boxes.hflip(img)
    return on_pictures.hflip(img) if is_pil(_checked(img)) else _same(img.flip(-1), img)


def vflip(img: Any) -> Any:
    """Top and bottom changed over."""
    if isinstance(img, tv.BoundingBoxes):
        return on_boxes.vflip(img)
    return on_pictures.vflip(img) if is_pil(_checked(img)) else _same(img.flip(-2), img)


horizontal_flip, vertical_flip = hflip, vflip


def _resized_size(size: Sequence[int], wanted: Any, max_size: int | None) -> tuple[int, int]:
    """Height and width: as wanted, or with the shorter side as wanted."""
    sides = [wanted] if isinstance(wanted, int) else list(wanted) if wanted is not None else []
    height, width = size
    if len(sides) == 2:
        if max_size is not None:
            raise ValueError(
                "max_size should only be passed if size specifies the length of the smaller edge, "
                "i.e. size should be an int or a sequence of length 1 in torchscript mode."
            )
        return sides[0], sides[1]
    short, long = min(size), max(size)
    if not sides:
        if max_size is None:
            raise ValueError("max_size must be an integer when size is None")
        new_long, new_short = max_size, int(max_size * short / long)
    else:
        new_short, new_long = sides[0], int(sides[0] * long / short)
        if max_size is not None:
            if max_size <= sides[0]:
                raise ValueError(
                    f"max_size = {max_size} must be strictly greater than the requested size for "
                    f"the smaller edge size = {sides[0]}"
                )
            if new_long > max_size:
                new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


def resize(
    img: Any,
    size: Any,
    interpolation: Any = _BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """At another size: (height, width), or a number for the shorter side."""
    mode = mode_of(interpolation)
    if isinstance(size, Sequence) and len(size) not in (1, 2):
        raise ValueError(
            "Size must be an int or a 1 or 2 element tuple/list, not a "
            + f"{len(size)} element tuple/list"
        )
    new = _resized_size(get_size(img), size, max_size)
    if isinstance(img, tv.BoundingBoxes):
        return on_boxes.resize(img, new)
    if is_pil(img):
        return on_pictures.resize(img, new, mode)
    mode = _NEAREST if isinstance(img, tv.Mask) else mode
    return _same(on_tensors.resize(_plain(img), new, mode, antialias), img)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The part of `height` × `width` at (top, left); zeros where it is outside."""
    if isinstance(img, tv.BoundingBoxes):
        return on_boxes.crop(img, top, left, height, width)
    if is_pil(_checked(img)):
        return on_pictures.crop(img, top, left, height, width)
    return _same(on_tensors.crop(_plain(img), top, left, height, width), img)


def _two(size: Any) -> tuple[int, int]:
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    sides = list(size)
    return (sides[0], sides[0]) if len(sides) == 1 else (sides[0], sides[1])


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle; black around it where the image is smaller."""
    height, width = _two(output_size)
    tall, wide = get_size(img)
    if width > wide or height > tall:
        across, down = max(width - wide, 0), max(height - tall, 0)
        img = pad(img, [across // 2, down // 2, (across + 1) // 2, (down + 1) // 2], fill=0)
        tall, wide = get_size(img)
        if (height, width) == (tall, wide):
            return img
    return crop(img, round((tall - height) / 2.0), round((wide - width) / 2.0), height, width)


def pad_amounts(padding: Any) -> list[int]:
    """Amounts at left, top, right and bottom."""
    if isinstance(padding, numbers.Number):
        return [int(padding)] * 4  # type: ignore[call-overload]
    sides = list(padding)
    if len(sides) not in (1, 2, 4):
        raise ValueError(
            "Padding must be an int or a 1, 2, or 4 element tuple, not a "
            f"{len(sides)} element tuple"
        )
    return sides * (4 // len(sides)) if len(sides) < 4 else sides


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """More pixels: for all sides, for left/right and top/bottom, or for each side."""
    amounts = pad_amounts(padding)
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    if isinstance(img, tv.BoundingBoxes):
        return on_boxes.pad(img, amounts, fill, padding_mode)
    if is_pil(_checked(img)):
        return on_pictures.pad(img, amounts, fill, padding_mode)
    fill = 0 if isinstance(img, tv.Mask) and isinstance(fill, Sequence) else fill
    return _same(on_tensors.pad(_plain(img), amounts, fill, padding_mode), img)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = _BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A part, at another size."""
    part = crop(img, top, left, height, width)
    return resize(part, size, interpolation, antialias=antialias)


def five_crop(img: Any, size: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The four corners, and the middle."""
    height, width = _two(size)
    tall, wide = get_size(img)
    if width > wide or height > tall:
        raise ValueError(
            f"Requested crop size {(height, width)} is bigger than input size {(tall, wide)}"
        )
    rows, columns = (0, tall - height), (0, wide - width)
    corners = [crop(img, top, left, height, width) for top in rows for left in columns]
    a, b, c, d = corners
    return a, b, c, d, center_crop(img, [height, width])


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of the image, and of the image changed over."""
    other = vflip(img) if vertical_flip else hflip(img)
    return five_crop(img, size) + five_crop(other, size)


def _angles(shear: Any) -> list[float]:
    if isinstance(shear, numbers.Number):
        return [float(shear), 0.0]  # type: ignore[arg-type]
    found = [float(x) for x in shear]
    if len(found) not in (1, 2):
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    return found * 2 if len(found) == 1 else found


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Any,
    interpolation: Any = _NEAREST,
    fill: Any = None,
    center: Sequence[float] | None = None,
) -> Any:
    """Turned to the right by `angle` degrees, moved, scaled and sheared around its middle."""
    mode, shears = mode_of(interpolation), _angles(shear)
    if len(translate) != 2:
        raise ValueError("translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    height, width = get_size(img)
    middle = [width * 0.5, height * 0.5]
    around = list(center) if center is not None else middle
    if isinstance(img, tv.BoundingBoxes):
        matrix = on_tensors.inverse_affine(around, angle, translate, scale, shears, False)
        return on_boxes.affine(img, matrix, None)
    if is_pil(_checked(img)):
        matrix = on_tensors.inverse_affine(around, angle, translate, scale, shears)
        return on_pictures.affine(img, matrix, mode, fill)
    # Tensors are measured from their middle.
    from_middle = [a - b for a, b in zip(around, middle, strict=True)] if center else [0.0, 0.0]
    matrix = on_tensors.inverse_affine(from_middle, angle, translate, scale, shears)
    mode, fill = _for(img, mode, fill)
    return _same(on_tensors.affine(_plain(img), matrix, mode, fill), img)


def _for(img: Any, mode: InterpolationMode, fill: Any) -> tuple[InterpolationMode, Any]:
    """Masks are not interpolated; a single colour is for all channels."""
    if isinstance(img, tv.Mask):
        return _NEAREST, fill if isinstance(fill, numbers.Number) else None
    if isinstance(fill, Sequence) and len(fill) not in (1, get_num_channels(img)):
        raise ValueError(
            "The number of elements in 'fill' cannot broadcast to match the number of channels of "
            f"the image ({len(fill)} != {get_num_channels(img)})"
        )
    return mode, fill


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = _NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = None,
) -> Any:
    """Turned to the left by `angle` degrees; with `expand`, at the size that all of it needs."""
    mode = mode_of(interpolation)
    if is_pil(_checked(img)):
        around = tuple(center) if center is not None else None
        return on_pictures.rotate(img, angle, mode, expand, around, fill)
    height, width = get_size(img)
    from_middle = [0.0, 0.0]
    if center is not None:
        from_middle = [center[0] - width * 0.5, center[1] - height * 0.5]
    if isinstance(img, tv.BoundingBoxes):
        return _rotated_boxes(img, angle, expand, center)
    matrix = on_tensors.inverse_affine(from_middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    size = None
    if expand:
        wide, tall = on_tensors.rotated_size(matrix, width, height)
        size = (tall, wide)
    mode, fill = _for(img, mode, fill)
    return _same(on_tensors.affine(_plain(img), matrix, mode, fill, size), img)


def _rotated_boxes(img: Any, angle: float, expand: bool, center: Any) -> Any:
    height, width = img.canvas_size
    around = list(center) if center is not None else [width * 0.5, height * 0.5]
    turn = (-angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    matrix = on_tensors.inverse_affine(around, *turn, False)
    if not expand:
        return on_boxes.affine(img, matrix, None)
    inverse = on_tensors.inverse_affine([0.0, 0.0], *turn)
    wide, tall = on_tensors.rotated_size(inverse, width, height)
    corners = [(x, y) for x in (0, width) for y in (0, height)]
    left = min(matrix[0] * x + matrix[1] * y + matrix[2] for x, y in corners)
    top = min(matrix[3] * x + matrix[4] * y + matrix[5] for x, y in corners)
    return on_boxes.affine(img, matrix, (tall, wide), (-left, -top))


def perspective_coefficients(
    startpoints: Sequence[Sequence[float]], endpoints: Sequence[Sequence[float]]
) -> list[float]:
    """Eight numbers that take the end points to the start points."""
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(
            "Please provide exactly four corners, got "
            f"{len(startpoints)} startpoints and {len(endpoints)} endpoints."
        )
    rows, wanted = [], []
    for (x, y), (u, v) in zip(endpoints, startpoints, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        wanted += [u, v]
    found = np.linalg.lstsq(np.array(rows, float), np.array(wanted, float), rcond=None)[0]
    return [float(x) for x in found.astype(np.float32)]


def perspective(
    img: Any,
    startpoints: Any = None,
    endpoints: Any = None,
    interpolation: Any = _BILINEAR,
    fill: Any = None,
    coefficients: Sequence[float] | None = None,
) -> Any:
    """As if seen from elsewhere: the corners `startpoints` come to `endpoints`."""
    mode = mode_of(interpolation)
    found = coefficients or perspective_coefficients(startpoints, endpoints)
    if isinstance(img, tv.BoundingBoxes):
        inverse = np.linalg.inv(np.append(np.array(found, float), 1.0).reshape(3, 3))
        return on_boxes.perspective(img, (inverse / inverse[2, 2]).flatten()[:8].tolist())
    if is_pil(_checked(img)):
        return on_pictures.perspective(img, found, mode, fill)
    mode, fill = _for(img, mode, fill)
    return _same(on_tensors.perspective(_plain(img), found, mode, fill), img)


def elastic_transform(
    img: Any, displacement: Tensor, interpolation: Any = _BILINEAR, fill: Any = None
) -> Any:
    """Each pixel is read `displacement` (1, H, W, 2) away, in halves of the image's sides."""
    mode = mode_of(interpolation)
    if is_pil(_checked(img)):
        moved = on_tensors.elastic_transform(pil_to_tensor(img), displacement, mode, fill)
        return to_pil_image(moved, mode=img.mode)
    mode, fill = _for(img, mode, fill)
    return _same(on_tensors.elastic_transform(_plain(img), displacement, mode, fill), img)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Means of neighbours, weighed by distance; `sigma` follows from `kernel_size` by default."""
    sides = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    sides = sides * 2 if len(sides) == 1 else sides
    if any(side % 2 == 0 or side < 0 for side in sides):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {sides}")
    if sigma is None:
        spread = [side * 0.15 + 0.35 for side in sides]
    else:
        spread = [float(sigma)] * 2 if isinstance(sigma, int | float) else list(sigma)
        spread = spread * 2 if len(spread) == 1 else spread
    if any(x <= 0.0 for x in spread):
        raise ValueError(f"sigma should have positive values. Got {spread}")
    if isinstance(img, tv.BoundingBoxes | tv.Mask):
        return img
    if is_pil(_checked(img)):
        blurred = on_tensors.gaussian_blur(pil_to_tensor(img), sides, spread)
        return to_pil_image(blurred, mode=img.mode)
    return _same(on_tensors.gaussian_blur(_plain(img), sides, spread), img)


# ------------------------------------------------------------------------------------------ colours


def _coloured(name: str, img: Any, *args: Any) -> Any:
    """A kernel of colours; masks and boxes have none."""
    if isinstance(img, tv.BoundingBoxes | tv.Mask):
        return img
    if is_pil(_checked(img)):
        return getattr(on_pictures, name)(img, *args)
    return _same(getattr(tensor_color, name)(_plain(img), *args), img)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Black by factor 0, the image by 1, brighter beyond."""
    return _coloured("adjust_brightness", img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Grey by factor 0, the image by 1, more beyond."""
    return _coloured("adjust_contrast", img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Without colours by factor 0, the image by 1, more beyond."""
    return _coloured("adjust_saturation", img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """All colours turned by a part of the circle, -0.5 to 0.5."""
    return _coloured("adjust_hue", img, hue_factor)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain · img ** gamma, of values from 0 to 1."""
    return _coloured("adjust_gamma", img, gamma, gain)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Smoothed by factor 0, the image by 1, sharper beyond."""
    return _coloured("adjust_sharpness", img, sharpness_factor)


def invert(img: Any) -> Any:
    """White less the image."""
    return _coloured("invert", img)


def posterize(img: Any, bits: int) -> Any:
    """Only the highest bits."""
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    return _coloured("posterize", img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """Inverted where it is as bright as the threshold."""
    return _coloured("solarize", img, threshold)


def autocontrast(img: Any) -> Any:
    """The darkest value of a channel becomes black, the lightest white."""
    return _coloured("autocontrast", img)


def equalize(img: Any) -> Any:
    """Every value as often as any other, as far as possible."""
    return _coloured("equalize", img)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The weighted mean of the colours, in one channel or in three equal ones."""
    return _coloured("rgb_to_grayscale", img, num_output_channels)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """`rgb_to_grayscale` of Pillow's images."""
    if not is_pil(img):
        raise TypeError("Input should be PIL Image")
    return rgb_to_grayscale(img, num_output_channels)


def normalize(tensor: Any, mean: Any, std: Any, inplace: bool = False) -> Any:
    """(tensor - mean) / std, per channel."""
    if isinstance(tensor, tv.BoundingBoxes | tv.Mask):
        return tensor
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    return _same(tensor_color.normalize(_plain(tensor), mean, std, inplace), tensor)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """`v` in the rectangle of `h` × `w` at row `i` and column `j`."""
    if isinstance(img, tv.BoundingBoxes | tv.Mask):
        return img
    if not isinstance(img, Tensor):
        raise TypeError(f"Tensor images are expected, got {type(img)}")
    return _same(tensor_color.erase(_plain(img), i, j, h, w, v, inplace), img)


def convert_image_dtype(image: Any, dtype: Any = lg.float32) -> Any:
    """The same image in another dtype: integers from 0 to their largest, floats from 0 to 1."""
    if not isinstance(image, Tensor):
        raise TypeError("Input img should be Tensor Image")
    return _same(tensor_color.convert_image_dtype(_plain(image), dtype), image)


def to_dtype(inpt: Any, dtype: Any = lg.float32, scale: bool = False) -> Any:
    """In another dtype; with `scale`, images so that white stays white."""
    if not scale or isinstance(inpt, tv.BoundingBoxes | tv.Mask):
        return _same(_plain(inpt).to(dtype), inpt)
    return convert_image_dtype(inpt, dtype)


def clamp_bounding_boxes(inpt: Any) -> Any:
    """Boxes without what is outside of the image."""
    return on_boxes.clamped(inpt)


def convert_bounding_box_format(inpt: Any, new_format: Any) -> Any:
    """Boxes in another format."""
    return on_boxes.reformatted(inpt, new_format)
