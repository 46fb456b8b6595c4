"""The windows of PyTorch's own namespace: `hann_window(length)` and its like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.elsewhere import placed
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.making.generate import filled
from livegrad.ops.shaping.movement import whole
from livegrad.signal.windows import cosine_sum, kaiser_curve, triangle

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _prepare(name: str, length: int, dtype: Any) -> tuple[int, dtypes.DType]:
    length = whole(name, "window_length", length)
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if not target.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {target!r}")
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    return length, target


def _finish(
    window: Tensor, length: int, dtype: dtypes.DType, device: Any, requires_grad: bool
) -> Tensor:
    result = filled((1,), 1.0, dtype) if length == 1 else cast(window, dtype)
    result = placed(result, device)
    return result.requires_grad_() if requires_grad else result


def _span(length: int, periodic: bool) -> int:
    return max(length if periodic else length - 1, 1)


def _cosine_window(
    name: str,
    length: int,
    periodic: bool,
    weights: list[float],
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    length, target = _prepare(name, length, dtype)
    window = cosine_sum(length, _span(length, periodic), weights)
    return _finish(window, length, target, device, requires_grad)


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that begins with 0, and ends with 0 unless `periodic`."""
    window_length, target = _prepare("bartlett_window", window_length, dtype)
    window = triangle(window_length, _span(window_length, periodic))
    return _finish(window, window_length, target, device, requires_grad)


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Blackman's sum of three cosines."""
    weights = [0.42, 0.5, 0.08]
    return _cosine_window(
        "blackman_window", window_length, periodic, weights, dtype, device, requires_grad
    )


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`alpha - beta * cos(2 * pi * n / last)`."""
    return _cosine_window(
        "hamming_window", window_length, periodic, [alpha, beta], dtype, device, requires_grad
    )


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine that begins with 0, and ends with 0 unless `periodic`."""
    return _cosine_window(
        "hann_window", window_length, periodic, [0.5, 0.5], dtype, device, requires_grad
    )


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Kaiser's window with the shape parameter `beta`."""
    window_length, target = _prepare("kaiser_window", window_length, dtype)
    window = kaiser_curve(window_length, _span(window_length, periodic), beta)
    return _finish(window, window_length, target, device, requires_grad)
