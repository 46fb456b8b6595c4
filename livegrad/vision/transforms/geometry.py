"""Transforms that move pixels."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import livegrad as lg
from livegrad import Tensor
from livegrad.vision import tv_tensors as tv
from livegrad.vision.transforms import draws, functional as F
from livegrad.vision.transforms.base import RandomTransform, Transform
from livegrad.vision.transforms.modes import InterpolationMode, mode_of

_NEAREST, _BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def size_of(flat: Sequence[Any]) -> tuple[int, int]:
    """Height and width of the images of a sample."""
    for value in flat:
        if F.is_image(value) or isinstance(value, tv.BoundingBoxes):
            height, width = F.get_size(value)
            return height, width
    raise TypeError("there is no image in this sample")


def _size(size: Any, error: str = "Please provide only two dimensions (h, w) for size.") -> Any:
    if isinstance(size, numbers.Number):
        return (int(size), int(size))  # type: ignore[call-overload]
    if isinstance(size, Sequence) and len(size) == 1:
        return (size[0], size[0])
    if not isinstance(size, Sequence) or len(size) != 2:
        raise ValueError(error)
    return tuple(size)


def _degrees(x: Any, name: str, lengths: tuple[int, ...] = (2,)) -> list[float]:
    """An interval around 0, or as it is given."""
    if isinstance(x, numbers.Number):
        if x < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [-float(x), float(x)]  # type: ignore[arg-type]
    if not isinstance(x, Sequence):
        raise TypeError(f"{name} should be a sequence of length {lengths[0]}.")
    if len(x) not in lengths:
        raise ValueError(f"{name} should be a sequence of length {lengths[0]}.")
    return [float(d) for d in x]


class Resize(Transform):
    """See `functional.resize`."""

    shown = ("size", "interpolation", "max_size", "antialias")

    def __init__(
        self,
        size: Any,
        interpolation: Any = _BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if size is not None and not isinstance(size, int | Sequence):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size, self.max_size = size, max_size
        self.interpolation, self.antialias = mode_of(interpolation), antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.resize(inpt, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(Transform):
    """See `functional.center_crop`."""

    shown = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = _size(size)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.center_crop(inpt, self.size)


class Pad(Transform):
    """See `functional.pad`."""

    shown = ("padding", "fill", "padding_mode")

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        if not isinstance(padding, numbers.Number | tuple | list):
            raise TypeError("Got inappropriate padding arg")
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if isinstance(padding, Sequence) and len(padding) not in (1, 2, 4):
            raise ValueError(
                "Padding must be an int or a 1, 2, or 4 element tuple, not a "
                f"{len(padding)} element tuple"
            )
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.pad(inpt, self.padding, self.fill, self.padding_mode)


class RandomHorizontalFlip(RandomTransform):
    """Left and right changed over, with probability `p`."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.hflip(inpt)


class RandomVerticalFlip(RandomTransform):
    """Top and bottom changed over, with probability `p`."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.vflip(inpt)


class RandomCrop(Transform):
    """A part of `size` from anywhere, of the padded image."""

    shown = ("size", "padding")

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = _size(size)
        self.padding, self.pad_if_needed = padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    @staticmethod
    def get_params(img: Any, output_size: Sequence[int]) -> tuple[int, int, int, int]:
        """Top, left, height and width."""
        return _place(F.get_size(img), output_size)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """How much is padded, and where the part is."""
        height, width = size_of(flat_inputs)
        amounts = [0, 0, 0, 0] if self.padding is None else F.pad_amounts(self.padding)
        tall, wide = height + amounts[1] + amounts[3], width + amounts[0] + amounts[2]
        if self.pad_if_needed:
            across, down = max(self.size[1] - wide, 0), max(self.size[0] - tall, 0)
            amounts = [
                amounts[0] + across,
                amounts[1] + down,
                amounts[2] + across,
                amounts[3] + down,
            ]
            tall, wide = tall + 2 * down, wide + 2 * across
        return {"padding": amounts, "place": _place((tall, wide), self.size)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if any(params["padding"]):
            inpt = F.pad(inpt, params["padding"], self.fill, self.padding_mode)
        return F.crop(inpt, *params["place"])


def _place(size: Sequence[int], wanted: Sequence[int]) -> tuple[int, int, int, int]:
    (height, width), (h, w) = size, wanted
    if height < h or width < w:
        raise ValueError(
            f"Required crop size {(h, w)} is larger than input image size {(height, width)}"
        )
    if (height, width) == (h, w):
        return 0, 0, h, w
    source = draws.source()
    return source.randrange(height - h + 1), source.randrange(width - w + 1), h, w


class RandomResizedCrop(Transform):
    """A part of any size and ratio, resized to `size`."""

    shown = ("size", "scale", "ratio", "interpolation", "antialias")

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = _BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = _size(size)
        if not isinstance(scale, Sequence) or not isinstance(ratio, Sequence):
            raise TypeError("Scale and ratio should be sequences")
        self.scale, self.ratio = scale, ratio
        self.interpolation, self.antialias = mode_of(interpolation), antialias

    @staticmethod
    def get_params(
        img: Any, scale: Sequence[float], ratio: Sequence[float]
    ) -> tuple[int, int, int, int]:
        """Top, left, height and width."""
        return _any_part(F.get_size(img), scale, ratio)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Where the part is."""
        return {"place": _any_part(size_of(flat_inputs), self.scale, self.ratio)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        top, left, height, width = params["place"]
        return F.resized_crop(
            inpt, top, left, height, width, self.size, self.interpolation, self.antialias
        )


def _any_part(
    size: Sequence[int], scale: Sequence[float], ratio: Sequence[float]
) -> tuple[int, int, int, int]:
    height, width = size
    source = draws.source()
    for _ in range(10):
        area = height * width * source.uniform(scale[0], scale[1])
        sides = math.exp(source.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * sides)), round(math.sqrt(area / sides))
        if 0 < w <= width and 0 < h <= height:
            return source.randrange(height - h + 1), source.randrange(width - w + 1), h, w
    # The middle, as near to the ratios as it can be.
    w, h = width, height
    if width / height < min(ratio):
        h = round(w / min(ratio))
    elif width / height > max(ratio):
        w = round(h * max(ratio))
    return (height - h) // 2, (width - w) // 2, h, w


class FiveCrop(Transform):
    """See `functional.five_crop`."""

    shown = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = _size(size)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.five_crop(inpt, self.size)


class TenCrop(Transform):
    """See `functional.ten_crop`."""

    shown = ("size", "vertical_flip")

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        super().__init__()
        self.size, self.vertical_flip = _size(size), vertical_flip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.ten_crop(inpt, self.size, self.vertical_flip)


class RandomRotation(Transform):
    """Turned by an angle of `degrees`."""

    shown = ("degrees", "interpolation", "expand", "fill")

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = _NEAREST,
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = _degrees(degrees, "degrees")
        self.interpolation, self.expand = mode_of(interpolation), expand
        self.center, self.fill = center, fill

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """An angle."""
        return draws.uniform(degrees[0], degrees[1])

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """The angle."""
        return {"angle": self.get_params(self.degrees)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.rotate(
            inpt, params["angle"], self.interpolation, self.expand, self.center, self.fill
        )


class RandomAffine(Transform):
    """Turned, moved, scaled and sheared."""

    shown = ("degrees", "translate", "scale", "shear")

    def __init__(
        self,
        degrees: Any,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: Any = None,
        interpolation: Any = _NEAREST,
        fill: Any = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.degrees = _degrees(degrees, "degrees")
        if translate is not None and not all(0.0 <= t <= 1.0 for t in translate):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and not all(s > 0 for s in scale):
            raise ValueError("scale values should be positive")
        self.translate, self.scale = translate, scale
        self.shear = None if shear is None else _degrees(shear, "shear", (2, 4))
        self.interpolation, self.fill, self.center = mode_of(interpolation), fill, center

    @staticmethod
    def get_params(
        degrees: Sequence[float],
        translate: Sequence[float] | None,
        scale_ranges: Sequence[float] | None,
        shears: Sequence[float] | None,
        img_size: Sequence[int],
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Angle, translation, scale and shear, for an image of width and height."""
        source = draws.source()
        angle = source.uniform(degrees[0], degrees[1])
        moved = (0, 0)
        if translate is not None:
            most = [part * side for part, side in zip(translate, img_size, strict=True)]
            moved = (
                round(source.uniform(-most[0], most[0])),
                round(source.uniform(-most[1], most[1])),
            )
        scale = source.uniform(*scale_ranges) if scale_ranges is not None else 1.0
        x = y = 0.0
        if shears is not None:
            x = source.uniform(shears[0], shears[1])
            y = source.uniform(shears[2], shears[3]) if len(shears) == 4 else 0.0
        return angle, moved, scale, (x, y)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """All of them."""
        height, width = size_of(flat_inputs)
        found = self.get_params(
            self.degrees, self.translate, self.scale, self.shear, (width, height)
        )
        return {"given": found}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        angle, translate, scale, shear = params["given"]
        return F.affine(
            inpt,
            angle,
            translate,
            scale,
            shear,
            interpolation=self.interpolation,
            fill=self.fill,
            center=self.center,
        )


class RandomPerspective(RandomTransform):
    """As if seen from elsewhere."""

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = _BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__(p)
        if not 0 <= distortion_scale <= 1:
            raise ValueError("Argument distortion_scale value should be between 0 and 1")
        self.distortion_scale = distortion_scale
        self.interpolation, self.fill = mode_of(interpolation), fill

    @staticmethod
    def get_params(
        width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The corners, and where they come to."""
        source = draws.source()
        down, across = (int(distortion_scale * (side // 2)) for side in (height, width))

        def near(most: int) -> int:
            return source.randrange(0, most + 1)

        end = [
            [near(across), near(down)],
            [width - 1 - near(across), near(down)],
            [width - 1 - near(across), height - 1 - near(down)],
            [near(across), height - 1 - near(down)],
        ]
        start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return start, end

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Where the corners come to."""
        height, width = size_of(flat_inputs)
        start, end = self.get_params(width, height, self.distortion_scale)
        return {"coefficients": F.perspective_coefficients(start, end)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.perspective(inpt, interpolation=self.interpolation, fill=self.fill, **params)


class ElasticTransform(Transform):
    """Every pixel moved at random, neighbours alike."""

    shown = ("alpha", "sigma", "interpolation", "fill")

    def __init__(
        self,
        alpha: Any = 50.0,
        sigma: Any = 5.0,
        interpolation: Any = _BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.alpha, self.sigma = _two_floats(alpha, "alpha"), _two_floats(sigma, "sigma")
        self.interpolation, self.fill = mode_of(interpolation), fill

    @staticmethod
    def get_params(alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> Tensor:
        """How far each pixel is read away, (1, H, W, 2), in halves of the sides."""
        parts = []
        for strength, spread, side in zip(alpha, sigma, (size[1], size[0]), strict=True):
            moved = lg.rand(1, 1, *size) * 2 - 1
            if spread > 0.0:
                window = int(8 * spread + 1)
                window += window % 2 == 0
                moved = F.gaussian_blur(moved, [window, window], [spread, spread])
            parts.append(moved * strength / side)
        return lg.cat(parts, 1).permute(0, 2, 3, 1)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """How far each pixel moves."""
        return {"displacement": self.get_params(self.alpha, self.sigma, size_of(flat_inputs))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if isinstance(inpt, tv.BoundingBoxes):
            raise TypeError("ElasticTransform does not move boxes; leave them out, or use masks")
        return F.elastic_transform(inpt, params["displacement"], self.interpolation, self.fill)


def _two_floats(value: Any, name: str) -> list[float]:
    if isinstance(value, numbers.Number):
        return [float(value)] * 2  # type: ignore[arg-type]
    found = [float(x) for x in value]
    if len(found) not in (1, 2):
        raise ValueError(f"{name} is a sequence its length should be 1 or 2, got {len(found)}")
    return found * 2 if len(found) == 1 else found


class ScaleJitter(Transform):
    """Resized by a factor of an interval, within `target_size`."""

    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = (0.1, 2.0),
        interpolation: Any = _BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.target_size, self.scale_range = target_size, scale_range
        self.interpolation, self.antialias = mode_of(interpolation), antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """The new size."""
        height, width = size_of(flat_inputs)
        by = draws.uniform(*self.scale_range)
        by *= min(self.target_size[0] / height, self.target_size[1] / width)
        return {"size": (int(height * by), int(width * by))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.resize(inpt, params["size"], self.interpolation, antialias=self.antialias)
