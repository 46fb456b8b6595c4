"""Augmentations by policies: AutoAugment, RandAugment, TrivialAugment, AugMix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import livegrad as lg
from livegrad import Tensor
from livegrad.vision import tv_tensors as tv
from livegrad.vision.pictures import is_pil
from livegrad.vision.transforms import draws, functional as F
from livegrad.vision.transforms.base import Transform
from livegrad.vision.transforms.geometry import size_of
from livegrad.vision.transforms.modes import InterpolationMode, mode_of
from livegrad.vision.transforms.tensor_color import largest

_NEAREST, _BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


class AutoAugmentPolicy(Enum):
    """The data that a policy was found for."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


# Of the paper: pairs of operation, probability in tenths, and strength (- where it has none).
_POLICIES = {
    AutoAugmentPolicy.IMAGENET: """
        Posterize 4 8 Rotate 6 9 | Solarize 6 5 AutoContrast 6 - | Equalize 8 - Equalize 6 -
        Posterize 6 7 Posterize 6 6 | Equalize 4 - Solarize 2 4 | Equalize 4 - Rotate 8 8
        Solarize 6 3 Equalize 6 - | Posterize 8 5 Equalize 10 - | Rotate 2 3 Solarize 6 8
        Equalize 6 - Posterize 4 6 | Rotate 8 8 Color 4 0 | Rotate 4 9 Equalize 6 -
        Equalize 0 - Equalize 8 - | Invert 6 - Equalize 10 - | Color 6 4 Contrast 10 8
        Rotate 8 8 Color 10 2 | Color 8 8 Solarize 8 7 | Sharpness 4 7 Invert 6 -
        ShearX 6 5 Equalize 10 - | Color 4 0 Equalize 6 - | Equalize 4 - Solarize 2 4
        Solarize 6 5 AutoContrast 6 - | Invert 6 - Equalize 10 - | Color 6 4 Contrast 10 8
        Equalize 8 - Equalize 6 -""",
    AutoAugmentPolicy.CIFAR10: """
        Invert 1 - Contrast 2 6 | Rotate 7 2 TranslateX 3 9 | Sharpness 8 1 Sharpness 9 3
        ShearY 5 8 TranslateY 7 9 | AutoContrast 5 - Equalize 9 - | ShearY 2 7 Posterize 3 7
        Color 4 3 Brightness 6 7 | Sharpness 3 9 Brightness 7 9 | Equalize 6 - Equalize 5 -
        Contrast 6 7 Sharpness 6 5 | Color 7 7 TranslateX 5 8 | Equalize 3 - AutoContrast 4 -
        TranslateY 4 3 Sharpness 2 6 | Brightness 9 6 Color 2 8 | Solarize 5 2 Invert 0 -
        Equalize 2 - AutoContrast 6 - | Equalize 2 - Equalize 6 - | Color 9 9 Equalize 6 -
        AutoContrast 8 - Solarize 2 8 | Brightness 1 3 Color 7 0 | Solarize 4 5 AutoContrast 9 -
        TranslateY 9 9 TranslateY 7 9 | AutoContrast 9 - Solarize 8 3 | Equalize 8 - Invert 1 -
        TranslateY 7 9 AutoContrast 9 -""",
    AutoAugmentPolicy.SVHN: """
        ShearX 9 4 Invert 2 - | ShearY 9 8 Invert 7 - | Equalize 6 - Solarize 6 6
        Invert 9 - Equalize 6 - | Equalize 6 - Rotate 9 3 | ShearX 9 4 AutoContrast 8 -
        ShearY 9 8 Invert 4 - | ShearY 9 5 Solarize 2 6 | Invert 9 - AutoContrast 8 -
        Equalize 6 - Rotate 9 3 | ShearX 9 4 Solarize 3 3 | ShearY 8 8 Invert 7 -
        Equalize 9 - TranslateY 6 6 | Invert 9 - Equalize 6 - | Contrast 3 3 Rotate 8 4
        Invert 8 - TranslateY 0 2 | ShearY 7 6 Solarize 4 8 | Invert 6 - Rotate 8 4
        ShearY 3 7 TranslateX 9 3 | ShearX 1 6 Invert 6 - | Solarize 7 2 TranslateY 6 7
        ShearY 8 4 Invert 8 - | ShearX 7 9 TranslateY 8 3 | ShearY 8 5 AutoContrast 7 -
        ShearX 7 2 Invert 1 -""",
}

_Step = tuple[str, float, int | None]


def policy(of: AutoAugmentPolicy) -> list[tuple[_Step, _Step]]:
    """Pairs of operation, probability and strength."""
    words = _POLICIES[of].replace("|", " ").split()
    steps: list[_Step] = [
        (name, int(p) / 10, None if strength == "-" else int(strength))
        for name, p, strength in zip(words[0::3], words[1::3], words[2::3], strict=True)
    ]
    return list(zip(steps[0::2], steps[1::2], strict=True))


# Of an operation: the strength that the largest number means, and whether it has two directions.
_Space = dict[str, tuple[Callable[[float], float], bool]]


def _space(
    shear: float, move: tuple[float, float], turn: float, colour: float, bits: int
) -> _Space:
    """Strengths, from a number of 0 to 1. `bits` is how many Posterize takes away at most."""

    def to(most: float) -> Callable[[float], float]:
        return lambda part: most * part

    found: _Space = {
        "ShearX": (to(shear), True),
        "ShearY": (to(shear), True),
        "TranslateX": (to(move[0]), True),
        "TranslateY": (to(move[1]), True),
        "Rotate": (to(turn), True),
        "Posterize": (lambda part: 8 - round(bits * part), False),
        "Solarize": (lambda part: 255.0 * (1 - part), False),
        "AutoContrast": (to(0.0), False),
        "Equalize": (to(0.0), False),
    }
    return found | {name: (to(colour), True) for name in _COLOURS}


_COLOURS = ("Brightness", "Color", "Contrast", "Sharpness")


def apply_op(img: Any, name: str, strength: float, mode: InterpolationMode, fill: Any) -> Any:
    """One operation."""
    moved: dict[str, Any] = {"interpolation": mode, "fill": fill}
    if name in ("ShearX", "ShearY"):
        turn = math.degrees(math.atan(strength))
        shear = [turn, 0.0] if name == "ShearX" else [0.0, turn]
        return F.affine(img, 0.0, [0, 0], 1.0, shear, center=[0, 0], **moved)
    if name in ("TranslateX", "TranslateY"):
        by = [int(strength), 0] if name == "TranslateX" else [0, int(strength)]
        return F.affine(img, 0.0, by, 1.0, [0.0, 0.0], **moved)
    if name == "Rotate":
        return F.rotate(img, strength, **moved)
    if name == "Posterize":
        return F.posterize(img, int(strength))
    if name == "Solarize":
        return F.solarize(img, strength if is_pil(img) else strength * _white(img) / 255)
    if name in _ADJUST:
        return _ADJUST[name](img, 1.0 + strength)
    return _PLAIN[name](img)


def _white(img: Any) -> float:
    return float(largest(img.dtype))


_ADJUST: dict[str, Callable[[Any, float], Any]] = {
    "Brightness": F.adjust_brightness,
    "Color": F.adjust_saturation,
    "Contrast": F.adjust_contrast,
    "Sharpness": F.adjust_sharpness,
}
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "AutoContrast": F.autocontrast,
    "Equalize": F.equalize,
    "Invert": F.invert,
    "Identity": lambda img: img,
}


class _Augmentation(Transform):
    """Operations that are drawn for each image."""

    interpolation: InterpolationMode

    def __init__(self, interpolation: Any, fill: Any) -> None:
        super().__init__()
        self.interpolation, self.fill = mode_of(interpolation), fill

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Boxes and masks would not follow."""
        for value in flat_inputs:
            if isinstance(value, tv.BoundingBoxes | tv.Mask):
                raise TypeError(f"{type(value)} is not supported by {type(self).__name__}()")

    def _run(self, img: Any, name: str, strength: float) -> Any:
        return apply_op(img, name, strength, self.interpolation, self._fill_of(img))

    def _fill_of(self, img: Any) -> Any:
        fill = self.fill
        if fill is None or is_pil(img):
            return fill
        channels = F.get_num_channels(img)
        return (
            [float(fill)] * channels if isinstance(fill, int | float) else [float(x) for x in fill]
        )


def _signed(source: Any, strength: float) -> float:
    return -strength if source.random() < 0.5 else strength


class AutoAugment(_Augmentation):
    """Two operations that were found to work together, of the 25 pairs of a policy."""

    shown = ("policy", "fill")

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = _NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.policy = policy
        self.policies = globals()["policy"](policy)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        height, width = size_of([inpt])
        space = _space(0.3, (150.0 / 331.0 * width, 150.0 / 331.0 * height), 30.0, 0.9, 4)
        source = draws.source()
        for name, p, index in source.choice(self.policies):
            if source.random() > p:
                continue
            strength = 0.0
            if index is not None:
                rule, is_signed = space[name]
                strength = rule(index / 9)
                strength = _signed(source, strength) if is_signed else strength
            inpt = self._run(inpt, name, strength)
        return inpt


class RandAugment(_Augmentation):
    """`num_ops` operations of one strength."""

    shown = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = _NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_ops, self.magnitude = num_ops, magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        height, width = size_of([inpt])
        space = _space(0.3, (150.0 / 331.0 * width, 150.0 / 331.0 * height), 30.0, 0.9, 4)
        space["Identity"] = (lambda part: 0.0, False)
        source = draws.source()
        for _ in range(self.num_ops):
            name = source.choice(list(space))
            rule, is_signed = space[name]
            strength = rule(self.magnitude / (self.num_magnitude_bins - 1))
            inpt = self._run(inpt, name, _signed(source, strength) if is_signed else strength)
        return inpt


class TrivialAugmentWide(_Augmentation):
    """One operation of any strength."""

    shown = ("num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Any = _NEAREST, fill: Any = None
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        space = _space(0.99, (32.0, 32.0), 135.0, 0.99, 6)
        space["Identity"] = (lambda part: 0.0, False)
        source = draws.source()
        name = source.choice(list(space))
        rule, is_signed = space[name]
        strength = rule(source.randrange(self.num_magnitude_bins) / (self.num_magnitude_bins - 1))
        return self._run(inpt, name, _signed(source, strength) if is_signed else strength)


class AugMix(_Augmentation):
    """Several chains of operations, mixed with each other and with the image."""

    shown = (
        "severity",
        "mixture_width",
        "chain_depth",
        "alpha",
        "all_ops",
        "interpolation",
        "fill",
    )

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = _BILINEAR,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        if not 1 <= severity <= 10:
            raise ValueError(f"The severity must be between [1, 10]. Got {severity} instead.")
        self.severity, self.mixture_width = severity, mixture_width
        self.chain_depth, self.alpha, self.all_ops = chain_depth, alpha, all_ops

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        height, width = size_of([inpt])
        space = _space(0.3, (width / 3.0, height / 3.0), 30.0, 0.9, 4)
        space["Posterize"] = (lambda part: 4 - round(4 * part), False)
        if not self.all_ops:
            space = {name: rule for name, rule in space.items() if name not in _COLOURS}
        source = draws.source()
        image = F.pil_to_tensor(inpt) if is_pil(inpt) else inpt.as_subclass(Tensor)
        kept = source.betavariate(self.alpha, self.alpha)
        shares = [source.gammavariate(self.alpha, 1.0) for _ in range(self.mixture_width)]
        mixed = kept * image.to(lg.float32)
        for share in shares:
            value: Any = inpt
            depth = self.chain_depth if self.chain_depth > 0 else source.randrange(1, 4)
            for _ in range(depth):
                name = source.choice(list(space))
                rule, is_signed = space[name]
                strength = rule(source.randrange(self.severity) / 9)
                value = self._run(value, name, _signed(source, strength) if is_signed else strength)
            plain = F.pil_to_tensor(value) if is_pil(value) else value.as_subclass(Tensor)
            mixed = mixed + (1 - kept) * share / sum(shares) * plain
        mixed = mixed.to(image.dtype)
        return F.to_pil_image(mixed, mode=inpt.mode) if is_pil(inpt) else tv.wrap(mixed, like=inpt)


Policies = Sequence[tuple[_Step, _Step]]
