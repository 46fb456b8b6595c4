"""Colours of tensors (…, C, H, W): floats from 0 to 1, or integers from 0 to their largest."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor


def largest(dtype: Any) -> float:
    """White."""
    if dtype.is_floating_point:
        return 1
    return 1 if dtype == lg.bool else int(lg.iinfo(dtype).max)


def _float(img: Tensor) -> Tensor:
    return img if img.is_floating_point() else img.float()


def check_channels(img: Tensor, allowed: tuple[int, ...] = (1, 3)) -> int:
    """The number of channels; a TypeError if it is another."""
    channels = 1 if img.ndim == 2 else img.shape[-3]
    if channels not in allowed:
        raise TypeError(
            f"Input image tensor permitted channel values are {list(allowed)}, but found {channels}"
        )
    return channels


def blend(img1: Tensor, img2: Tensor, ratio: float) -> Tensor:
    """`ratio` of the first, and the rest of the second."""
    ratio = float(ratio)
    found = ratio * img1 + (1.0 - ratio) * img2
    return found.clamp(0, largest(img1.dtype)).to(img1.dtype)


def rgb_to_grayscale(img: Tensor, num_output_channels: int = 1) -> Tensor:
    """The weighted mean of the colours."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if check_channels(img) == 3:
        r, g, b = img.unbind(-3)
        img = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype).unsqueeze(-3)
    if num_output_channels == 3:
        return img.expand(*img.shape[:-3], 3, *img.shape[-2:])
    return img.clone()


def _not_negative(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def adjust_brightness(img: Tensor, brightness_factor: float) -> Tensor:
    """Between black and the image, or beyond it."""
    _not_negative("brightness_factor", brightness_factor)
    check_channels(img)
    return blend(img, lg.zeros_like(img), brightness_factor)


def adjust_contrast(img: Tensor, contrast_factor: float) -> Tensor:
    """Between the mean grey and the image, or beyond it."""
    _not_negative("contrast_factor", contrast_factor)
    grey = rgb_to_grayscale(img) if check_channels(img) == 3 else img
    return blend(img, _float(grey).mean((-3, -2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img: Tensor, saturation_factor: float) -> Tensor:
    """Between grey and the image, or beyond it."""
    _not_negative("saturation_factor", saturation_factor)
    if check_channels(img) == 1:
        return img
    return blend(img, rgb_to_grayscale(img), saturation_factor)


def _hsv(img: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r, g, b = img.unbind(-3)
    highest, lowest = img.amax(-3), img.amin(-3)
    grey = highest == lowest
    span = highest - lowest
    ones = lg.ones_like(highest)
    s = span / lg.where(grey, ones, highest)
    by = lg.where(grey, ones, span)
    rc, gc, bc = (highest - r) / by, (highest - g) / by, (highest - b) / by
    is_red, is_green = highest == r, highest == g
    h = lg.where(is_red, bc - gc, lg.where(is_green, 2.0 + rc - bc, 4.0 + gc - rc))
    return (h / 6.0 + 1.0).fmod(1.0), s, highest


def _rgb(h: Tensor, s: Tensor, v: Tensor) -> Tensor:
    sector = (h * 6.0).floor()
    part = h * 6.0 - sector
    sector = sector.int() % 6
    p = (v * (1.0 - s)).clamp(0.0, 1.0)
    q = (v * (1.0 - s * part)).clamp(0.0, 1.0)
    t = (v * (1.0 - s * (1.0 - part))).clamp(0.0, 1.0)
    colours = []
    for choices in ((v, q, p, p, t, v), (t, v, v, q, p, p), (p, p, t, v, v, q)):
        found = choices[5]
        for i in range(5):
            found = lg.where(sector == i, choices[i], found)
        colours.append(found)
    return lg.stack(colours, -3)


def adjust_hue(img: Tensor, hue_factor: float) -> Tensor:
    """All colours turned by a part of the circle, -0.5 to 0.5."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if check_channels(img) == 1:
        return img
    h, s, v = _hsv(convert_image_dtype(img, lg.float32))
    return convert_image_dtype(_rgb((h + hue_factor) % 1.0, s, v), img.dtype)


def adjust_gamma(img: Tensor, gamma: float, gain: float = 1) -> Tensor:
    """gain · img ** gamma."""
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    floats = img if img.is_floating_point() else convert_image_dtype(img, lg.float32)
    return convert_image_dtype((gain * floats**gamma).clamp(0, 1), img.dtype)


def invert(img: Tensor) -> Tensor:
    """White less the image."""
    check_channels(img)
    return largest(img.dtype) - img


def posterize(img: Tensor, bits: int) -> Tensor:
    """Only the highest bits of uint8."""
    if img.dtype != lg.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    check_channels(img)
    return img & (256 - (1 << (8 - bits)))


def solarize(img: Tensor, threshold: float) -> Tensor:
    """Inverted from the threshold on."""
    check_channels(img)
    if threshold > largest(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")
    return lg.where(img >= threshold, invert(img), img)


def adjust_sharpness(img: Tensor, sharpness_factor: float) -> Tensor:
    """Between the smoothed image and the image, or beyond it; the border stays."""
    _not_negative("sharpness_factor", sharpness_factor)
    channels = check_channels(img)
    if img.shape[-1] <= 2 or img.shape[-2] <= 2:
        return img
    dtype = img.dtype if img.is_floating_point() else lg.float32
    kernel = lg.ones(3, 3, dtype=dtype, device=img.device)
    kernel[1, 1] = 5.0
    kernel = (kernel / kernel.sum()).expand(channels, 1, 3, 3)
    flat = img.reshape(-1, *img.shape[-3:]).to(dtype)
    inner = F.conv2d(flat, kernel, groups=channels)
    inner = inner if img.is_floating_point() else inner.round()
    smooth = img.clone()
    smooth[..., 1:-1, 1:-1] = inner.to(img.dtype).reshape(*img.shape[:-2], *inner.shape[-2:])
    return blend(img, smooth, sharpness_factor)


def autocontrast(img: Tensor) -> Tensor:
    """The darkest value of a channel becomes black, the lightest white."""
    check_channels(img)
    bound = largest(img.dtype)
    floats = _float(img)
    low, high = floats.amin((-2, -1), keepdim=True), floats.amax((-2, -1), keepdim=True)
    flat = low == high
    low = lg.where(flat, 0.0, low)
    scale = lg.where(flat, 1.0, bound / lg.where(flat, 1.0, high - low))
    return ((floats - low) * scale).clamp(0, bound).to(img.dtype)


def equalize(img: Tensor) -> Tensor:
    """Every value of uint8 as often as any other, as far as possible."""
    if img.dtype != lg.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    check_channels(img)
    flat = img.reshape(-1, img.shape[-2] * img.shape[-1]).long()
    counts = lg.zeros(len(flat), 256, dtype=lg.int64, device=img.device)
    counts = counts.scatter_add(1, flat, lg.ones_like(flat))
    last = counts.gather(1, flat.amax(1, keepdim=True))
    step = (flat.shape[1] - last) // 255
    divisor = step.clamp(min=1)
    table = (counts.cumsum(1) + step // 2) // divisor
    table = F.pad(table[:, :-1], (1, 0)).clamp(0, 255)
    found = lg.where(step == 0, flat, table.gather(1, flat))
    return found.to(lg.uint8).reshape(img.shape)


def convert_image_dtype(image: Tensor, dtype: Any = lg.float32) -> Tensor:
    """The same image in another dtype, with white as its white."""
    if image.dtype == dtype:
        return image
    if image.is_floating_point():
        if dtype.is_floating_point:
            return image.to(dtype)
        wide = dtype in (lg.int32, lg.int64)
        if (image.dtype == lg.float32 and wide) or (
            image.dtype == lg.float64 and dtype == lg.int64
        ):
            raise RuntimeError(
                f"The cast from {image.dtype} to {dtype} cannot be performed safely."
            )
        # The last bit of room is for 1.0: all integers are as wide.
        return (image * (float(largest(dtype)) + 1.0 - 1e-3)).to(dtype)
    before = largest(image.dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / before
    after = largest(dtype)
    if before > after:
        return (image // int((before + 1) // (after + 1))).to(dtype)
    return image.to(dtype) * int((after + 1) // (before + 1))


def normalize(tensor: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """(tensor - mean) / std, per channel."""
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim < 3:
        raise ValueError(
            "Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = "
            f"{tensor.size()}"
        )
    if not isinstance(std, Tensor) and not all(_numbers(std)):
        raise ValueError(
            f"std evaluated to zero after conversion to {tensor.dtype}, "
            "leading to division by zero."
        )
    from_, by = (_per_channel(x, tensor) for x in (mean, std))
    if inplace:
        return tensor.sub_(from_).div_(by)
    return (tensor - from_) / by


def _numbers(given: Any) -> list[float]:
    return list(given) if hasattr(given, "__iter__") else [given]


def _per_channel(given: Any, like: Tensor) -> Any:
    """Numbers that can be broadcast to (…, C, H, W)."""
    if isinstance(given, Tensor):
        given = given.to(dtype=like.dtype, device=like.device)
        return given.reshape(-1, 1, 1) if given.ndim == 1 else given
    numbers = tuple(float(x) for x in _numbers(given))
    return numbers[0] if len(numbers) == 1 else _constant(numbers, like.dtype, str(like.device))


@lru_cache(64)
def _constant(numbers: tuple[float, ...], dtype: Any, device: str) -> Tensor:
    return lg.tensor([[[x]] for x in numbers], dtype=dtype, device=device)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """`v` in the rectangle of `h` × `w` at row `i` and column `j`."""
    if not inplace:
        img = img.clone()
    img[..., i : i + h, j : j + w] = v
    return img
