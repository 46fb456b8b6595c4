"""Maximum pooling that always gives (values, places), and its gradient as a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.ops.elementwise.arithmetic import where
from livegrad.ops.making.generate import filled
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.windows import adaptive_pooling as adaptive, pooling

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool1d` with places."""
    windows = (kernel_size, stride, padding, dilation, ceil_mode)
    return pooling.max_pool1d(input, *windows, return_indices=True)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool2d` with places."""
    windows = (kernel_size, stride, padding, dilation, ceil_mode)
    return pooling.max_pool2d(input, *windows, return_indices=True)


@in_float32
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool3d` with places."""
    windows = (kernel_size, stride, padding, dilation, ceil_mode)
    return pooling.max_pool3d(input, *windows, return_indices=True)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """`adaptive_max_pool1d` with places."""
    return adaptive.adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """`adaptive_max_pool2d` with places."""
    return adaptive.adaptive_max_pool2d(input, output_size, True)


@in_float32
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """`adaptive_max_pool3d` with places."""
    return adaptive.adaptive_max_pool3d(input, output_size, True)


@in_float32
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool2d` with places."""
    sizes = (kernel_size, output_size, output_ratio)
    return adaptive.fractional_max_pool2d(input, *sizes, True, _random_samples)


@in_float32
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool3d` with places."""
    sizes = (kernel_size, output_size, output_ratio)
    return adaptive.fractional_max_pool3d(input, *sizes, True, _random_samples)


def max_pool2d_with_indices_backward(
    grad_output: Tensor,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """The gradient of `max_pool2d`: what arrives, added where the greatest elements were."""
    pool = pooling.pool_of(
        "max_pool2d_backward", 2, input, kernel_size, stride, padding, dilation, ceil_mode
    )
    shape = node_of(input).meta.shape
    wanted = (*shape[:-2], *pool.counts)
    for what, x in (("grad_output", grad_output), ("indices", indices)):
        if node_of(x).meta.shape != wanted:
            raise RuntimeError(
                f"max_pool2d_backward: got {what} of shape {list(node_of(x).meta.shape)}; expected "
                f"{list(wanted)}"
            )
    out = pooling.scattered(grad_output, indices, 2, shape)
    # As in PyTorch, `input` has a gradient too, which is 0: it only told where the maxima are.
    return where(filled((), False, dtypes.bool_), input, out)
