"""Pooling: windows of the last dims made one value each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.nn.tuples import _ntuple
from livegrad.tensor import Tensor

Sizes = int | tuple[int, ...]


class _Pool(Module):
    """A pooling layer: `_function` is what it calls, `_rank` the number of dims it pools."""

    _rank: int
    _function: Callable[..., Any]

    def _call(self, *args: Any) -> Any:
        return type(self)._function(*args)


# ------------------------------------------------------------------------------------ maximum


class _MaxPoolNd(_Pool):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The greatest value of each window, and with `return_indices` its place."""
        return self._call(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """See `livegrad.nn.functional.max_pool1d`."""

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """See `livegrad.nn.functional.max_pool2d`.

    Args:
        kernel_size: of a window.
        stride: None: windows side by side.
        padding: around the images.
        dilation: from one element of a window to the next.
        return_indices: also the places of the greatest.
        ceil_mode: also the windows that begin inside and end outside.

    Example:
        >>> nn.MaxPool2d(2)(lg.ones(1, 3, 8, 8)).shape
        livegrad.Size([1, 3, 4, 4])
    """

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """See `livegrad.nn.functional.max_pool3d`."""

    _function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(_Pool):
    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        each = _ntuple(self._rank)
        self.kernel_size = each(kernel_size)
        self.stride = each(stride if stride is not None else kernel_size)
        self.padding = each(padding)

    def forward(self, input: Tensor, indices: Any, output_size: Any = None) -> Tensor:
        """The values at the places they were taken from, 0 elsewhere."""
        out: Tensor = self._call(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )
        return out

    def extra_repr(self) -> str:
        """Sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """See `livegrad.nn.functional.max_unpool1d`."""

    _rank = 1
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """See `livegrad.nn.functional.max_unpool2d`."""

    _rank = 2
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """See `livegrad.nn.functional.max_unpool3d`."""

    _rank = 3
    _function = staticmethod(F.max_unpool3d)


class _FractionalMaxPoolNd(_Pool):
    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        each = _ntuple(self._rank)
        self.kernel_size = each(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else each(output_size)
        self.output_ratio = None if output_ratio is None else each(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, or a pooling "
                "ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """The greatest value of each of `output_size` windows at random places."""
        return self._call(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """See `livegrad.nn.functional.fractional_max_pool2d`."""

    _rank = 2
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """See `livegrad.nn.functional.fractional_max_pool3d`."""

    _rank = 3
    _function = staticmethod(F.fractional_max_pool3d)


# ------------------------------------------------------------------------------------ average


class _AvgPoolNd(_Pool):
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        """Sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """See `livegrad.nn.functional.avg_pool1d`."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        each = _ntuple(1)
        self.kernel_size = each(kernel_size)
        self.stride = each(stride if stride is not None else kernel_size)
        self.padding = each(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The mean of each window."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _WideAvgPool(_AvgPoolNd):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The mean of each window."""
        out: Tensor = self._call(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
        return out


class AvgPool2d(_WideAvgPool):
    """See `livegrad.nn.functional.avg_pool2d`.

    Args:
        kernel_size: of a window.
        stride: None: windows side by side.
        padding: around the images.
        ceil_mode: whether a last window may reach past the end.
        count_include_pad: whether padding counts in means.
        divisor_override: what sums are divided by, instead of the number of elements.

    Example:
        >>> nn.AvgPool2d(2)(lg.ones(1, 3, 8, 8)).shape
        livegrad.Size([1, 3, 4, 4])
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_WideAvgPool):
    """See `livegrad.nn.functional.avg_pool3d`."""

    _function = staticmethod(F.avg_pool3d)


class _LPPoolNd(_Pool):
    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """The root of the sum of powers of each window."""
        out: Tensor = self._call(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )
        return out

    def extra_repr(self) -> str:
        """Power and sizes."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """See `livegrad.nn.functional.lp_pool1d`."""

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """See `livegrad.nn.functional.lp_pool2d`."""

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """See `livegrad.nn.functional.lp_pool3d`."""

    _function = staticmethod(F.lp_pool3d)


# ----------------------------------------------------------------------------------- adaptive


class _AdaptiveMaxPoolNd(_Pool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """The greatest value of each of `output_size` windows."""
        return self._call(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """Size of the output."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """See `livegrad.nn.functional.adaptive_max_pool1d`."""

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """See `livegrad.nn.functional.adaptive_max_pool2d`."""

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """See `livegrad.nn.functional.adaptive_max_pool3d`."""

    _function = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(_Pool):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The mean of each of `output_size` windows."""
        out: Tensor = self._call(input, self.output_size)
        return out

    def extra_repr(self) -> str:
        """Size of the output."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """See `livegrad.nn.functional.adaptive_avg_pool1d`."""

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """See `livegrad.nn.functional.adaptive_avg_pool2d`.

    Args:
        output_size: how many bins: one number, or one for each dim.

    Example:
        >>> nn.AdaptiveAvgPool2d(1)(lg.ones(1, 3, 8, 8)).shape
        livegrad.Size([1, 3, 1, 1])
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """See `livegrad.nn.functional.adaptive_avg_pool3d`."""

    _function = staticmethod(F.adaptive_avg_pool3d)
