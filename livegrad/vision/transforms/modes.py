"""How values between pixels are made up."""

from __future__ import annotations

from enum import Enum
from typing import Any


class InterpolationMode(Enum):
    """Torchvision's names; box, hamming and lanczos are Pillow's alone."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# Pillow's numbers.
NUMBERS = {
    InterpolationMode.NEAREST: 0,
    InterpolationMode.LANCZOS: 1,
    InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3,
    InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
    InterpolationMode.NEAREST_EXACT: 0,
}
_BY_NUMBER = {number: mode for mode, number in reversed(NUMBERS.items())}


def mode_of(given: Any) -> InterpolationMode:
    """The mode, also from Pillow's number."""
    if isinstance(given, InterpolationMode):
        return given
    if isinstance(given, int) and int(given) in _BY_NUMBER:
        return _BY_NUMBER[int(given)]
    raise TypeError(
        "Argument interpolation should be a InterpolationMode or a corresponding Pillow integer "
        "constant"
    )
