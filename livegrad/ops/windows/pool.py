"""How the windows of a pooling lie."""

from __future__ import annotations

from typing import NamedTuple

from livegrad.ops.windows.unfolding import Sizes, span


class Pool(NamedTuple):
    """attrs: how windows lie in the last dims of an input."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes  # before; what comes after follows from the counts
    dilation: Sizes
    sizes: Sizes  # of the input
    counts: Sizes  # windows per dim
    # What a sum is divided by: the elements inside the padded input, inside the input, or a number.
    inside: str = "padded"
    divisor: int = 0

    def pads(self, first: int) -> dict[int, tuple[int, int]]:
        """Elements to add around the dims from `first` on so that exactly the windows fit."""
        found = {}
        for i, size in enumerate(self.sizes):
            reach = self.stride[i] * (self.counts[i] - 1) + span(self.kernel[i], self.dilation[i])
            found[first + i] = (self.padding[i], reach - self.padding[i] - size)
        return found
