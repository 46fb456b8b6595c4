"""Normalisation of channels: batch_norm, instance_norm, group_norm, local_response_norm.

Norms over the last dims, layer_norm and rms_norm, are in `composite.py`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.blame import as_float, as_index, check_number
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op, as_scaled
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, div, mul
from livegrad.ops.elementwise.division import divide
from livegrad.ops.elementwise.power import pow
from livegrad.ops.layers.composite import (
    Attrs,
    Metas,
    compute_dtype,
    need_float,
    to_dtype,
)
from livegrad.ops.making.generate import filled
from livegrad.ops.norms.channel_norm import BATCH_NORM, GROUP_NORM, INSTANCE_NORM, record_norm
from livegrad.ops.norms.running_statistics import check_running, update, with_statistics
from livegrad.ops.shaping.joining import pad
from livegrad.ops.shaping.movement import reshape_to, whole
from livegrad.ops.shaping.slicing import narrow
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel (dim 1) with mean 0 and variance 1 over the batch, times `weight`, plus `bias`.

    Args:
        running_mean: moved toward the batch's mean by `momentum` in training, else taken for it.
        running_var: likewise, with the unbiased variance.

    Example:
        >>> F.batch_norm(lg.tensor([[0.0], [2.0]]), None, None, training=True)
        tensor([[-1.0000],
                [ 1.0000]])
    """
    shape = node_of(input).meta.shape
    if training and shape and prod((shape[0], *shape[2:])) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(shape)}"
        )
    check_number(eps)
    if eps < 0 or (training and eps == 0):
        raise ValueError(f"batch_norm eps must be positive, or 0 in evaluation, but got {eps}")
    return batch_normed(input, running_mean, running_var, weight, bias, training, momentum, eps)


def batch_normed(
    x: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """`batch_norm` of arguments that were checked."""
    meta = node_of(x).meta
    if meta.ndim < 2:
        if meta.ndim == 1 and meta.numel == 0:
            return x.clone()
        raise IndexError(f"batch_norm: expected input of at least 2 dims; got {list(meta.shape)}")
    check_running("batch_norm", meta.shape[1], running_mean=mean, running_var=variance)
    weight, bias = [_per_channel(t, meta) for t in (weight, bias)]
    if not meta.numel and not training:
        mean, variance = [_per_channel(t, meta) for t in (mean, variance)]
    if training:
        y = record_norm(BATCH_NORM, x, weight, bias, eps)
        update("batch", x, mean, variance, momentum)
        return y
    return with_statistics("batch_norm", x, mean, variance, weight, bias, eps)


def _per_channel(given: Tensor | None, x: Meta) -> Tensor | None:
    """What has a number for each channel, in whatever shape; of no values, also of any dtype."""
    if given is None:
        return None
    meta = node_of(given).meta
    if meta.shape != (x.shape[1],) and meta.numel == x.shape[1]:
        given = reshape_to(given, (x.shape[1],))
    return given if x.numel else to_dtype(given, x.dtype)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each example with mean 0 and variance 1, times `weight`, plus `bias`.

    Args:
        use_input_stats: False: take the running statistics for mean and variance.
    """
    shape = node_of(input).meta.shape
    if use_input_stats and prod(shape[2:]) == 1:
        raise ValueError(
            "Expected more than 1 spatial element when training, got input size " + str(list(shape))
        )
    if len(shape) < 2:
        raise IndexError(f"instance_norm: expected input of at least 2 dims; got {list(shape)}")
    check_running("instance_norm", shape[1], running_mean=running_mean, running_var=running_var)
    if not use_input_stats:
        return with_statistics("instance_norm", input, running_mean, running_var, weight, bias, eps)
    y = record_norm(INSTANCE_NORM, input, weight, bias, eps)
    update("instance", input, running_mean, running_var, momentum)
    return y


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Each group of channels of each example with mean 0 and variance 1, then `weight`, `bias`.

    Example:
        >>> F.group_norm(lg.randn(2, 6, 4), 3).shape
        livegrad.Size([2, 6, 4])
    """
    shape = node_of(input).meta.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    num_groups = as_index(num_groups)
    if num_groups <= 0:
        raise RuntimeError(
            f"group_norm: expected num groups to be greater than 0, got {num_groups}"
        )
    if shape[1] % num_groups:
        raise RuntimeError(
            "group_norm: expected number of channels in input to be divisible by num_groups, but "
            f"got input of shape {list(shape)} and num_groups={num_groups}"
        )
    if not shape[1]:
        num_groups = 1  # all of them are empty
    if prod((shape[0] * shape[1] // num_groups, *shape[2:])) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(shape)}"
        )
    return record_norm(GROUP_NORM, input, weight, bias, eps, num_groups)


# -------------------------------------------------------------------- local response normalisation


def _local_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    (x,) = metas
    dtype = dtypes.get_default_dtype() if x.dtype.category == dtypes.INT else x.dtype
    need_float("local_response_norm", dtype)
    return meta_of(x.shape, dtype)


def _local_expand(n: Any, x: Tensor) -> Tensor:
    (size,) = n.attrs
    alpha, beta, k = n.args
    channels = n.meta.shape[1]
    whole = node_of(x).meta.dtype.category == dtypes.INT  # whose mean PyTorch rounds down
    x = x if whole else to_dtype(x, compute_dtype(n))
    places = (0, 0) * (n.meta.ndim - 2)
    padded = pad(mul(x, x), (*places, size // 2, (size - 1) // 2))
    total = narrow(padded, 1, 0, channels)
    for i in range(1, size):
        total = add(total, narrow(padded, 1, i, channels))
    mean = divide(total, size, rounding_mode="trunc") if whole else div(total, float(size))
    scale = pow(add(mul(mean, alpha), k), filled((), beta, compute_dtype(n)))
    return to_dtype(div(x, scale), n.meta.dtype)


LOCAL_RESPONSE_NORM = Op(
    "local_response_norm",
    "composite",
    # attrs (number of neighbouring channels,), args (alpha, beta, k); differentiated through the
    # expansion.
    infer=_local_infer,
    expand=_local_expand,
    layout=as_scaled,
    saves="x",
    grad_fn="DivBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 5, 3),), lambda x: local_response_norm(x, 3, 0.5)),
        lambda: s.Sample((s.uniform(2, 3, 2, 2),), lambda x: local_response_norm(x, 2, 0.5)),
    ),
)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """`input / (k + alpha * m) ** beta`, with m the mean square over `size` channels around."""
    meta = node_of(input).meta
    if meta.ndim < 3:
        raise ValueError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {meta.ndim} "
            "dimensions)"
        )
    size = whole("local_response_norm", "size", size)
    if size < 1:
        raise RuntimeError(f"local_response_norm: expected size to be positive; got {size}")
    if meta.numel == 0:
        return input
    args = (as_float(alpha), as_float(beta), as_float(k))
    return record(LOCAL_RESPONSE_NORM, (input,), (size,), args)
