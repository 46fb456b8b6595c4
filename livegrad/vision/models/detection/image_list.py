"""Images of several sizes in one tensor."""

from __future__ import annotations

from livegrad import Tensor


class ImageList:
    """Images filled up to one size (N, C, H, W), and the sizes that they had before."""

    def __init__(self, tensors: Tensor, image_sizes: list[tuple[int, int]]) -> None:
        self.tensors = tensors
        self.image_sizes = image_sizes

    def to(self, device: object) -> ImageList:
        """The same on another device."""
        return ImageList(self.tensors.to(device), self.image_sizes)
