"""Tensors (…, C, H, W) moved, cut and sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor
from livegrad.vision.transforms.modes import InterpolationMode


def size_of(img: Tensor) -> tuple[int, int]:
    """Height and width."""
    return img.shape[-2], img.shape[-1]


def as_batch(img: Tensor) -> tuple[Tensor, Any, Any]:
    """(N, C, H, W) in a dtype to compute with, and what it was before."""
    flat = img.reshape(-1, *((1,) * (3 - img.ndim)), *img.shape[-3:])
    dtype = img.dtype
    return (flat if flat.is_floating_point() else flat.float()), img.shape, dtype


def as_before(found: Tensor, shape: Any, dtype: Any) -> Tensor:
    """The batch in the shape and dtype that the images had."""
    if dtype != found.dtype:
        found = found if dtype.is_floating_point else found.round()
        found = found.to(dtype)
    channels = shape[-3:-2]
    return found.reshape(*shape[:-3], *channels, *found.shape[-2:])


def hflip(img: Tensor) -> Tensor:
    """Left and right changed over."""
    return img.flip(-1)


def vflip(img: Tensor) -> Tensor:
    """Top and bottom changed over."""
    return img.flip(-2)


def resize(
    img: Tensor, size: Sequence[int], mode: InterpolationMode, antialias: bool | None = True
) -> Tensor:
    """The image at another size (height, width)."""
    if size_of(img) == tuple(size):
        return img
    if mode not in _SAMPLED:
        raise ValueError("This interpolation mode is unsupported with Tensor input")
    smooth = mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
    batch, shape, dtype = as_batch(img)
    found = F.interpolate(
        batch,
        size=list(size),
        mode=mode.value,
        align_corners=False if smooth else None,
        antialias=bool(antialias) and smooth,
    )
    if mode == InterpolationMode.BICUBIC and dtype == lg.uint8:
        found = found.clamp(0, 255)
    return as_before(found, shape, dtype)


_SAMPLED = {
    InterpolationMode.NEAREST,
    InterpolationMode.NEAREST_EXACT,
    InterpolationMode.BILINEAR,
    InterpolationMode.BICUBIC,
}


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A part; zeros where it is outside."""
    tall, wide = size_of(img)
    found = img[..., max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    if top >= 0 and left >= 0 and top + height <= tall and left + width <= wide:
        return found
    before = [max(min(left + width, 0) - left, 0), max(min(top + height, 0) - top, 0)]
    after = [width - before[0] - found.shape[-1], height - before[1] - found.shape[-2]]
    return pad(found, [*before, *after], 0, "constant")


def pad(img: Tensor, amounts: Sequence[int], fill: Any, padding_mode: str) -> Tensor:
    """More pixels at left, top, right and bottom; negative amounts cut."""
    left, top, right, bottom = amounts
    if padding_mode == "constant":
        if isinstance(fill, Sequence):
            return _filled(img, amounts, fill)
        return F.pad(img, (left, right, top, bottom), value=fill or 0)
    if padding_mode not in ("edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    rows = _source(img.shape[-2], top, bottom, padding_mode, img)
    columns = _source(img.shape[-1], left, right, padding_mode, img)
    return img.index_select(-2, rows).index_select(-1, columns)


def _source(size: int, before: int, after: int, mode: str, img: Tensor) -> Tensor:
    """Which row (or column) each of the result is a copy of."""
    at = lg.arange(-before, size + after, device=img.device)
    if mode == "edge":
        return at.clamp(0, size - 1)
    if mode == "reflect":
        if before >= size or after >= size:
            raise RuntimeError(
                "Padding size should be less than the corresponding input dimension, but got: "
                f"padding ({before}, {after}) for a size of {size}"
            )
        period = max(2 * (size - 1), 1)
        at = at % period
        return lg.where(at >= size, period - at, at)
    at = at % (2 * size)
    return lg.where(at >= size, 2 * size - 1 - at, at)


def _filled(img: Tensor, amounts: Sequence[int], fill: Sequence[float]) -> Tensor:
    """Another number for each channel."""
    left, top, right, bottom = amounts
    inside = F.pad(lg.ones_like(img[..., :1, :, :], dtype=lg.bool), (left, right, top, bottom))
    padded = F.pad(img, (left, right, top, bottom))
    values = lg.tensor(list(fill), dtype=img.dtype, device=img.device).reshape(-1, 1, 1)
    return lg.where(inside, padded, values)


# ------------------------------------------------------------------------------------------ sampled


def _sampled(img: Tensor, grid: Tensor, mode: InterpolationMode, fill: Any) -> Tensor:
    """The image at the places of a grid (1, H, W, 2), from -1 to 1; `fill` outside."""
    batch, shape, dtype = as_batch(img)
    grid = grid.to(batch.dtype).expand(len(batch), -1, -1, -1)
    values = None
    if fill is not None:
        values = fill if isinstance(fill, Sequence) else [float(fill)]
        batch = lg.cat([batch, lg.ones_like(batch[:, :1])], 1)
    kind = "nearest" if mode == InterpolationMode.NEAREST_EXACT else mode.value
    found = F.grid_sample(batch, grid, mode=kind, padding_mode="zeros", align_corners=False)
    if values is not None:
        inside, found = found[:, -1:], found[:, :-1]
        colour = lg.tensor([float(x) for x in values], dtype=found.dtype, device=found.device)
        colour = colour.reshape(1, -1, 1, 1)
        if kind == "nearest":
            found = lg.where(inside < 0.5, colour, found)
        else:
            found = found * inside + (1.0 - inside) * colour
    return as_before(found, shape, dtype)


def _rays(height: int, width: int, like: Tensor) -> Tensor:
    """Pixels' centres (H · W, 3) as x, y, 1, from the middle of the image."""
    dtype = like.dtype if like.is_floating_point() else lg.float32
    options: dict[str, Any] = {"dtype": dtype, "device": like.device}
    x = (lg.arange(width, **options) + (0.5 - width * 0.5)).expand(height, width)
    y = (lg.arange(height, **options) + (0.5 - height * 0.5))[:, None].expand(height, width)
    return lg.stack([x, y, lg.ones_like(x)], -1).reshape(-1, 3)


def affine(
    img: Tensor,
    matrix: Sequence[float],
    mode: InterpolationMode,
    fill: Any,
    size: tuple[int, int] | None = None,
) -> Tensor:
    """Each pixel of the result is read where `matrix` (2 × 3, from the middle) says."""
    height, width = size or size_of(img)
    tall, wide = size_of(img)
    rays = _rays(height, width, img)
    theta = lg.tensor(list(matrix), dtype=rays.dtype, device=img.device).reshape(2, 3)
    half = lg.tensor([0.5 * wide, 0.5 * tall], dtype=rays.dtype, device=img.device)
    grid = rays @ (theta.t() / half)
    return _sampled(img, grid.reshape(1, height, width, 2), mode, fill)


def perspective(img: Tensor, coeffs: Sequence[float], mode: InterpolationMode, fill: Any) -> Tensor:
    """Each pixel of the result is read where the eight coefficients say."""
    height, width = size_of(img)
    rays = _rays(height, width, img)
    rays = rays + lg.tensor([width * 0.5, height * 0.5, 0.0], dtype=rays.dtype, device=img.device)
    a = lg.tensor(list(coeffs), dtype=rays.dtype, device=img.device)
    half = lg.tensor([0.5 * width, 0.5 * height], dtype=rays.dtype, device=img.device)
    above = rays @ (a[:6].reshape(2, 3).t() / half)
    below = rays @ lg.cat([a[6:], lg.ones_like(a[:1])])[:, None]
    return _sampled(img, (above / below - 1.0).reshape(1, height, width, 2), mode, fill)


def elastic_transform(
    img: Tensor, displacement: Tensor, mode: InterpolationMode, fill: Any
) -> Tensor:
    """Each pixel of the result is read `displacement` (1, H, W, 2) away, by half the sizes."""
    height, width = size_of(img)
    dtype = img.dtype if img.is_floating_point() else lg.float32
    options: dict[str, Any] = {"dtype": dtype, "device": img.device}
    x = lg.linspace((1.0 - width) / width, (width - 1.0) / width, width, **options)
    y = lg.linspace((1.0 - height) / height, (height - 1.0) / height, height, **options)
    identity = lg.stack([x.expand(height, width), y[:, None].expand(height, width)], -1).unsqueeze(
        0
    )
    return _sampled(img, identity + displacement.to(**options), mode, fill)


def gaussian_kernel(size: int, sigma: float, **options: Any) -> Tensor:
    """Weights (size,) of sum 1."""
    half = (size - 1) * 0.5
    weights = (-0.5 * (lg.linspace(-half, half, size, **options) / sigma) ** 2).exp()
    return weights / weights.sum()


def gaussian_blur(img: Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> Tensor:
    """Means of neighbours, weighed by distance; the image is mirrored at its borders."""
    batch, shape, dtype = as_batch(img)
    options: dict[str, Any] = {"dtype": batch.dtype, "device": batch.device}
    across, down = (
        gaussian_kernel(size, by, **options) for size, by in zip(kernel_size, sigma, strict=True)
    )
    channels = batch.shape[1]
    kernel = (down[:, None] @ across[None, :]).expand(channels, 1, -1, -1)
    sides = (kernel_size[0] // 2, kernel_size[0] // 2, kernel_size[1] // 2, kernel_size[1] // 2)
    found = F.conv2d(F.pad(batch, sides, mode="reflect"), kernel, groups=channels)
    return as_before(found, shape, dtype)


def inverse_affine(
    center: Sequence[float],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
    inverted: bool = True,
) -> list[float]:
    """The 2 × 3 matrix of rotation, shear, scale and translation around a centre; its inverse."""
    turn, shear_x, shear_y = (math.radians(x) for x in (angle, *shear))
    (cx, cy), (tx, ty) = center, translate
    # Rotation · shear, without the scale.
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -math.cos(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) - math.sin(turn)
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = -math.sin(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) + math.cos(turn)
    if inverted:
        matrix = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
        matrix[2] += matrix[0] * (-cx - tx) + matrix[1] * (-cy - ty) + cx
        matrix[5] += matrix[3] * (-cx - tx) + matrix[4] * (-cy - ty) + cy
        return matrix
    matrix = [a * scale, b * scale, 0.0, c * scale, d * scale, 0.0]
    matrix[2] += matrix[0] * -cx + matrix[1] * -cy + cx + tx
    matrix[5] += matrix[3] * -cx + matrix[4] * -cy + cy + ty
    return matrix


def rotated_size(matrix: Sequence[float], width: int, height: int) -> tuple[int, int]:
    """Width and height that hold all of an image after a rotation around its middle."""
    xs, ys = [], []
    for right, down in ((-0.5, -0.5), (-0.5, 0.5), (0.5, 0.5), (0.5, -0.5)):
        x, y = right * width, down * height
        xs.append(matrix[0] * x + matrix[1] * y + matrix[2])
        ys.append(matrix[3] * x + matrix[4] * y + matrix[5])
    found = []
    for low, high, half in ((min(xs), max(xs), width * 0.5), (min(ys), max(ys), height * 0.5)):
        first, last = (_kept_digits(value + half) for value in (low, high))
        found.append(int(math.ceil(last) - math.floor(first)))
    return found[0], found[1]


def _kept_digits(value: float) -> float:
    """Whole pixels where rounding left a thousandth of one."""
    return math.trunc(value / 1e-3) * 1e-3
