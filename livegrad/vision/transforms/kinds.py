"""Transforms that change what kind of thing an image is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import livegrad as lg
from livegrad import Tensor
from livegrad.vision import tv_tensors as tv
from livegrad.vision.pictures import is_pil
from livegrad.vision.transforms import functional as F
from livegrad.vision.transforms.base import Transform, is_plain


class _Conversion(Transform):
    """Of what is an image; the rest of a sample stays."""

    def forward(self, *inputs: Any) -> Any:
        """Images, or samples."""
        if len(inputs) == 1 and not isinstance(inputs[0], list | tuple | Mapping):
            return self.transform(inputs[0], {})  # refused, if it is no image
        return super().forward(*inputs)


class ToTensor(_Conversion):
    """See `functional.to_tensor`."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return inpt if isinstance(inpt, tv.TVTensor) else F.to_tensor(inpt)


class PILToTensor(_Conversion):
    """See `functional.pil_to_tensor`."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return inpt if isinstance(inpt, Tensor) and is_tv(inpt) else F.pil_to_tensor(inpt)


def is_tv(value: Any) -> bool:
    """Whether a tensor says what it is."""
    return isinstance(value, tv.TVTensor)


class ToImage(_Conversion):
    """See `functional.to_image`."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return inpt if isinstance(inpt, tv.BoundingBoxes | tv.Mask | tv.Video) else F.to_image(inpt)


class ToPILImage(_Conversion):
    """See `functional.to_pil_image`."""

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if is_pil(inpt) or isinstance(inpt, tv.BoundingBoxes | tv.Mask | tv.Video):
            return inpt
        return F.to_pil_image(inpt, self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class ToPureTensor(_Conversion):
    """Tensors that no longer say what they are."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return inpt.as_subclass(Tensor) if is_tv(inpt) else inpt


class ConvertImageDtype(Transform):
    """See `functional.convert_image_dtype`."""

    def __init__(self, dtype: Any = lg.float32) -> None:
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if isinstance(inpt, tv.BoundingBoxes | tv.Mask):
            return inpt
        return F.convert_image_dtype(inpt, self.dtype)


class ToDtype(Transform):
    """In another dtype; with `scale`, images so that white stays white.

    `dtype` may be a dict by class; what it does not name stays, unless it has "others".
    """

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        self.dtype, self.scale = dtype, scale

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if not isinstance(inpt, Tensor):
            return inpt
        if not isinstance(self.dtype, Mapping):
            if not is_plain(inpt) and not isinstance(inpt, tv.Image | tv.Video):
                return inpt
            return F.to_dtype(inpt, self.dtype, self.scale)
        dtype = self.dtype.get(type(inpt), self.dtype.get("others"))
        return inpt if dtype is None else F.to_dtype(inpt, dtype, self.scale)


class Lambda(Transform):
    """A function of your own."""

    def __init__(self, lambd: Callable[..., Any], *types: type) -> None:
        super().__init__()
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd, self.types = lambd, types or (object,)

    def forward(self, *inputs: Any) -> Any:
        """Whatever the function takes."""
        if self.types == (object,) and len(inputs) == 1:
            return self.lambd(inputs[0])
        return super().forward(*inputs)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return self.lambd(inpt) if isinstance(inpt, self.types) else inpt

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ConvertBoundingBoxFormat(Transform):
    """Boxes in another format."""

    def __init__(self, format: Any) -> None:
        super().__init__()
        self.format = format

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        if isinstance(inpt, tv.BoundingBoxes):
            return F.convert_bounding_box_format(inpt, self.format)
        return inpt


class ClampBoundingBoxes(Transform):
    """Boxes without what is outside of the image."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input."""
        return F.clamp_bounding_boxes(inpt) if isinstance(inpt, tv.BoundingBoxes) else inpt
