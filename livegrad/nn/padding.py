"""Padding of the last one, two or three dims."""

from __future__ import annotations

from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.nn.tuples import _ntuple
from livegrad.tensor import Tensor

Amounts = int | tuple[int, ...]


class _PadNd(Module):
    """Padding before and after each dim, from the last to the first; see `functional.pad`."""

    _rank: int
    _mode: str

    def __init__(self, padding: Amounts) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._rank)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """`input` with more on its edges."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Amounts."""
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    _mode = "constant"

    def __init__(self, padding: Amounts, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """`input` with `value` on its edges."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Amounts and value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """One value before and after the last dim."""

    _rank = 1


class ConstantPad2d(_ConstantPadNd):
    """One value around the last two dims."""

    _rank = 2


class ConstantPad3d(_ConstantPadNd):
    """One value around the last three dims."""

    _rank = 3


class ZeroPad1d(ConstantPad1d):
    """Zeros before and after the last dim."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Amounts."""
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Zeros around the last two dims."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Amounts."""
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Zeros around the last three dims."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Amounts."""
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """The last dim mirrored at its ends."""

    _rank = 1


class ReflectionPad2d(_ReflectionPadNd):
    """The last two dims mirrored at their ends."""

    _rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The last three dims mirrored at their ends."""

    _rank = 3


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """The ends of the last dim repeated."""

    _rank = 1


class ReplicationPad2d(_ReplicationPadNd):
    """The edges of the last two dims repeated."""

    _rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The faces of the last three dims repeated."""

    _rank = 3


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """`input` going on at one end as it begins at the other."""
        rank = self._rank
        if input.ndim not in (rank + 1, rank + 2):
            raise ValueError(f"expected {rank + 1}D or {rank + 2}D input (got {input.ndim}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """The last dim going round."""

    _rank = 1


class CircularPad2d(_CircularPadNd):
    """The last two dims going round."""

    _rank = 2


class CircularPad3d(_CircularPadNd):
    """The last three dims going round."""

    _rank = 3
