"""Tensors that say what they are: images, videos, masks, boxes.

Transforms treat each as it must be treated. What operations make of them are plain tensors, except
copies: `clone`, `to` and `detach` keep the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeVar

import livegrad as lg
from livegrad import Tensor
from livegrad.subclassing import disabled_torch_function
from livegrad.vision.pictures import is_pil, pil_to_tensor

T = TypeVar("T", bound="TVTensor")


class TVTensor(Tensor):
    """What all of them share."""

    def __new__(
        cls: type[T],
        data: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> T:
        return cls._made(data, dtype, device, requires_grad)

    @classmethod
    def _made(cls: type[T], data: Any, dtype: Any, device: Any, requires_grad: bool | None) -> T:
        if is_pil(data):
            data = pil_to_tensor(data)
        if requires_grad is None:
            requires_grad = isinstance(data, Tensor) and data.requires_grad
        plain = lg.as_tensor(data, dtype=dtype, device=device)
        found = plain.detach().as_subclass(cls)
        return found.requires_grad_(requires_grad) if requires_grad else found

    @classmethod
    def wrap(cls: type[T], tensor: Tensor, like: Any = None) -> T:
        """A tensor as one of this class, with what else `like` knows."""
        return tensor.as_subclass(cls)

    # What operations make of it is a Tensor, whatever other classes do.
    __torch_function__ = staticmethod(disabled_torch_function)

    def clone(self, *args: Any, **options: Any) -> Any:
        """A copy of the same class."""
        return wrap(super().clone(*args, **options), like=self)

    def to(self, *args: Any, **options: Any) -> Any:
        """In another dtype or on another device, of the same class."""
        return wrap(super().to(*args, **options), like=self)

    def detach(self) -> Any:
        """The same values without their history, of the same class."""
        return wrap(super().detach(), like=self)


class Image(TVTensor):
    """Images (…, C, H, W); (H, W) gets a channel."""

    @classmethod
    def _made(cls: type[T], data: Any, dtype: Any, device: Any, requires_grad: bool | None) -> T:
        found = super()._made(data, dtype, device, requires_grad)
        if found.ndim < 2:
            raise ValueError
        return cls.wrap(found.unsqueeze(0)) if found.ndim == 2 else found


class Video(TVTensor):
    """Videos (…, T, C, H, W)."""


class Mask(TVTensor):
    """Masks (…, H, W): of each object, or with a class per pixel."""


class BoundingBoxFormat(Enum):
    """What the four numbers of a box are."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


class BoundingBoxes(TVTensor):
    """Boxes (N, 4) in an image of `canvas_size` (height, width)."""

    format: BoundingBoxFormat
    canvas_size: tuple[int, int]

    def __new__(
        cls,
        data: Any,
        *,
        format: BoundingBoxFormat | str,
        canvas_size: Sequence[int],
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> BoundingBoxes:
        found = cls._made(data, dtype, device, requires_grad)
        if found.ndim == 1:
            found = found.unsqueeze(0).as_subclass(cls)
        if found.ndim != 2 or found.shape[-1] != 4:
            raise ValueError(f"Expected a 1D or 2D tensor of boxes, got {tuple(found.shape)}")
        return _told(found, format, canvas_size)

    @classmethod
    def wrap(
        cls,
        tensor: Tensor,
        like: Any = None,
        *,
        format: BoundingBoxFormat | str | None = None,
        canvas_size: Sequence[int] | None = None,
    ) -> BoundingBoxes:
        """Boxes that know what `like` knows, unless it is given."""
        format = like.format if format is None else format
        canvas_size = like.canvas_size if canvas_size is None else canvas_size
        return _told(tensor.as_subclass(cls), format, canvas_size)

    def __repr__(self, **options: Any) -> str:
        plain = super().__repr__()
        return f"{plain[:-1]}, format={self.format}, canvas_size={self.canvas_size})"


def _told(boxes: Any, format: BoundingBoxFormat | str, canvas_size: Sequence[int]) -> BoundingBoxes:
    boxes.format = BoundingBoxFormat[format.upper()] if isinstance(format, str) else format
    boxes.canvas_size = tuple(canvas_size)
    return boxes


def wrap(wrappee: Tensor, *, like: Any, **kwargs: Any) -> Any:
    """A tensor as one of the class of `like`."""
    if isinstance(like, TVTensor):
        return type(like).wrap(wrappee, like=like, **kwargs)
    return wrappee
