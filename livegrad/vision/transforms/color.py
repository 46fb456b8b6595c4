"""Transforms of colours."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import livegrad as lg
from livegrad import Tensor
from livegrad.vision import tv_tensors as tv
from livegrad.vision.pictures import is_pil
from livegrad.vision.transforms import draws, functional as F
from livegrad.vision.transforms.base import RandomTransform, Transform


class Normalize(Transform):
    """See `functional.normalize`."""

    shown = ("mean", "std")

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Pillow's images have no means."""
        if any(is_pil(x) for x in flat_inputs):
            raise TypeError(f"img should be Tensor Image. Got {type(flat_inputs[0])}")

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.normalize(inpt, self.mean, self.std, self.inplace)


class Grayscale(Transform):
    """See `functional.rgb_to_grayscale`."""

    shown = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.rgb_to_grayscale(inpt, self.num_output_channels)


class RandomGrayscale(RandomTransform):
    """Grey with probability `p`, in as many channels as there are."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if isinstance(inpt, tv.BoundingBoxes | tv.Mask):
            return inpt
        return F.rgb_to_grayscale(inpt, F.get_num_channels(inpt))


class RGB(Transform):
    """Three channels, also of grey images."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if isinstance(inpt, tv.BoundingBoxes | tv.Mask):
            return inpt
        if is_pil(inpt):
            return inpt.convert("RGB")
        return F.rgb_to_grayscale(inpt, 3) if F.get_num_channels(inpt) == 1 else inpt


_Range = tuple[float, float] | None


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed at random, in any order."""

    shown = ("brightness", "contrast", "saturation", "hue")

    def __init__(
        self,
        brightness: Any = 0,
        contrast: Any = 0,
        saturation: Any = 0,
        hue: Any = 0,
    ) -> None:
        super().__init__()
        self.brightness = self._interval(brightness, "brightness")
        self.contrast = self._interval(contrast, "contrast")
        self.saturation = self._interval(saturation, "saturation")
        self.hue = self._interval(hue, "hue", 0.0, (-0.5, 0.5), False)

    @staticmethod
    def _interval(
        value: Any,
        name: str,
        center: float = 1.0,
        bound: tuple[float, float] = (0, math.inf),
        clip: bool = True,
    ) -> _Range:
        if value is None:
            return None
        if isinstance(value, numbers.Number):
            width = float(value)  # type: ignore[arg-type]
            if width < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            low, high = center - width, center + width
            low = max(low, 0.0) if clip else low
        elif isinstance(value, Sequence) and len(value) == 2:
            low, high = (float(x) for x in value)
        else:
            raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
        return None if low == high == center else (low, high)

    @staticmethod
    def get_params(
        brightness: _Range, contrast: _Range, saturation: _Range, hue: _Range
    ) -> tuple[list[int], float | None, float | None, float | None, float | None]:
        """The order of the four, and a factor for each; None for those that do not happen."""
        source = draws.source()
        order = [0, 1, 2, 3]
        source.shuffle(order)
        b, c, s, h = (
            None if x is None else source.uniform(*x)
            for x in (brightness, contrast, saturation, hue)
        )
        return order, b, c, s, h

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """The order, and the factors."""
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        return {"order": order, "factors": factors}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        for i in params["order"]:
            factor = params["factors"][i]
            if factor is not None:
                inpt = _ADJUST[i](inpt, factor)
        return inpt


_ADJUST: tuple[Callable[..., Any], ...] = (
    F.adjust_brightness,
    F.adjust_contrast,
    F.adjust_saturation,
    F.adjust_hue,
)


class RandomInvert(RandomTransform):
    """See `functional.invert`."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.invert(inpt)


class RandomAutocontrast(RandomTransform):
    """See `functional.autocontrast`."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.autocontrast(inpt)


class RandomEqualize(RandomTransform):
    """See `functional.equalize`."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.equalize(inpt)


class RandomPosterize(RandomTransform):
    """See `functional.posterize`."""

    shown, between = ("bits", "p"), ","

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.posterize(inpt, self.bits)


class RandomSolarize(RandomTransform):
    """See `functional.solarize`."""

    shown, between = ("threshold", "p"), ","

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.solarize(inpt, self.threshold)


class RandomAdjustSharpness(RandomTransform):
    """See `functional.adjust_sharpness`."""

    shown, between = ("sharpness_factor", "p"), ","

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.adjust_sharpness(inpt, self.sharpness_factor)


class RandomPhotometricDistort(Transform):
    """Changes of colours as detectors are trained with: each with probability `p`."""

    def __init__(
        self,
        brightness: tuple[float, float] = (0.875, 1.125),
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: tuple[float, float] = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.ranges, self.p = (brightness, contrast, saturation, hue), p

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """A factor for each that happens, whether contrast comes first, and channels' order."""
        source = draws.source()
        factors = [source.uniform(*x) if source.random() < self.p else None for x in self.ranges]
        order = list(range(3))
        if source.random() < self.p:
            source.shuffle(order)
        return {"factors": factors, "first": source.random() < 0.5, "channels": order}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if isinstance(inpt, tv.BoundingBoxes | tv.Mask):
            return inpt
        for i in (0, 1, 2, 3) if params["first"] else (0, 2, 3, 1):
            factor = params["factors"][i]
            if factor is not None:
                inpt = _ADJUST[i](inpt, factor)
        if params["channels"] != [0, 1, 2]:
            if is_pil(inpt):
                moved = F.pil_to_tensor(inpt)[params["channels"]]
                return F.to_pil_image(moved, mode=inpt.mode)
            inpt = tv.wrap(inpt[..., params["channels"], :, :], like=inpt)
        return inpt


class GaussianBlur(Transform):
    """See `functional.gaussian_blur`; `sigma` is drawn from an interval."""

    shown = ("kernel_size", "sigma")

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        sides = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
        if any(side <= 0 or side % 2 == 0 for side in sides):
            raise ValueError("Kernel size value should be an odd and positive number.")
        self.kernel_size = tuple(sides * 2 if len(sides) == 1 else sides)
        interval = (sigma, sigma) if isinstance(sigma, numbers.Number) else tuple(sigma)
        if not 0.0 < interval[0] <= interval[1]:
            raise ValueError("sigma values should be positive and of the form (min, max).")
        self.sigma = interval

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """A spread."""
        return draws.uniform(sigma_min, sigma_max)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """The spread."""
        spread = self.get_params(*self.sigma)
        return {"sigma": [spread, spread]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.gaussian_blur(inpt, list(self.kernel_size), **params)


class LinearTransformation(Transform):
    """(image - mean) @ matrix, of the image as one row: whitening."""

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        size = transformation_matrix.shape
        if size[0] != size[1]:
            raise ValueError(
                f"transformation_matrix should be square. Got {list(size)} rectangular matrix."
            )
        if mean_vector.shape[0] != size[0]:
            raise ValueError(
                f"mean_vector should have the same length {mean_vector.shape[0]} as any one of the "
                f"dimensions of the transformation_matrix [{list(size)}]"
            )
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if isinstance(inpt, tv.BoundingBoxes | tv.Mask):
            return inpt
        count = math.prod(inpt.shape[-3:])
        if count != self.transformation_matrix.shape[0]:
            raise ValueError(
                "Input tensor and transformation matrix have incompatible shape."
                f"[{inpt.shape[-3]} x {inpt.shape[-2]} x {inpt.shape[-1]}] != "
                f"{self.transformation_matrix.shape[0]}"
            )
        flat = inpt.as_subclass(Tensor).reshape(-1, count) - self.mean_vector
        return tv.wrap((flat @ self.transformation_matrix).reshape(inpt.shape), like=inpt)


class RandomErasing(RandomTransform):
    """A rectangle of the image is filled with `value`, or with noise ("random")."""

    shown = ("p", "scale", "ratio", "value", "inplace")

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p)
        if not isinstance(value, numbers.Number | str | tuple | list):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        self.scale, self.ratio, self.value, self.inplace = scale, ratio, value, inplace

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Pillow's images are not erased."""
        if any(is_pil(x) for x in flat_inputs):
            raise TypeError("Tensor images are expected, got a PIL image: use ToTensor first")

    @staticmethod
    def get_params(
        img: Any, scale: tuple[float, float], ratio: tuple[float, float], value: Any = None
    ) -> tuple[int, int, int, int, Tensor]:
        """Row, column, height and width of the rectangle, and what fills it."""
        channels, height, width = F.get_dimensions(img)
        source = draws.source()
        for _ in range(10):
            area = height * width * source.uniform(*scale)
            sides = math.exp(source.uniform(math.log(ratio[0]), math.log(ratio[1])))
            h, w = round(math.sqrt(area * sides)), round(math.sqrt(area / sides))
            if not (h < height and w < width):
                continue
            if value is None:
                filled = lg.empty(channels, h, w, dtype=lg.float32).normal_()
            else:
                filled = lg.tensor([float(x) for x in value])[:, None, None]
            i, j = source.randrange(0, height - h + 1), source.randrange(0, width - w + 1)
            return i, j, h, w, filled.to(img.dtype)
        return 0, 0, height, width, img

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """The rectangle."""
        image = next(x for x in flat_inputs if F.is_image(x))
        value: Any = None
        if self.value != "random":
            value = [self.value] if isinstance(self.value, numbers.Number) else list(self.value)
        if value is not None and len(value) not in (1, image.shape[-3]):
            raise ValueError(
                "If value is a sequence, it should have either a single value or "
                f"{image.shape[-3]} (number of input channels)"
            )
        found = self.get_params(image, self.scale, self.ratio, value)
        return dict(zip("ijhwv", found, strict=True))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.erase(inpt, **params, inplace=self.inplace)
