"""Norms with their statistics as further results: PyTorch's `native_` functions.

As there, only group_norm's means and deviations have gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.blame import as_float
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, setting
from livegrad.ops.elementwise.arithmetic import add
from livegrad.ops.elementwise.roots import rsqrt
from livegrad.ops.layers.composite import (
    SOFTMAX_BACKWARD,
    Attrs,
    Metas,
    compute_dtype,
    layer_norm,
    to_dtype,
)
from livegrad.ops.making.generate import filled
from livegrad.ops.norms.channel_norm import Layout
from livegrad.ops.norms.moments import moments
from livegrad.ops.norms.normalisation import (
    batch_normed,
    group_norm,
    instance_norm as _instance_norm,
)
from livegrad.ops.shaping.movement import normal_dim, reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _statistic_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    # Half precisions have statistics of their own dtype, as in PyTorch on the CPU.
    return meta_of(shape, metas[0].dtype)


def _statistic_expand(n: Any, x: Tensor) -> Tensor:
    which, view, dims = n.attrs
    seen = reshape_to(to_dtype(x, compute_dtype(n)), view)
    value, variance = moments(seen, dims)
    if which == "rstd":
        value = rsqrt(add(variance, n.args[0]))
    return to_dtype(reshape_to(value, n.meta.shape), n.meta.dtype)


STATISTIC: Op = Op(
    "norm_statistic",
    "composite",
    # attrs ("mean" or "rstd", shape in which x is seen, dims), args (eps,).
    infer=_statistic_infer,
    expand=_statistic_expand,
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4, 5),),
            lambda x: record(STATISTIC, (x,), ("rstd", (3, 4, 5), (0, 2)), (0.1,), (4,)),
        ),
        lambda: s.Sample(
            (s.uniform(3, 4),),
            lambda x: record(STATISTIC, (x,), ("mean", (3, 2, 2), (2,)), (0.1,), (3, 2)),
        ),
    ),
)


def _statistics(
    x: Tensor,
    view: tuple[int, ...],
    dims: tuple[int, ...],
    eps: float,
    shape: tuple[int, ...],
    flows: bool = False,
) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal deviation, without gradient unless it `flows`."""
    with setting(grad=flows and LOCAL.state.grad):
        mean, rstd = [
            record(STATISTIC, (x,), (which, view, dims), (as_float(eps),), shape)
            for which in ("mean", "rstd")
        ]
    return mean, rstd


@exact
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm`, and the mean and reciprocal deviation of the batch (empty in evaluation)."""
    if node_of(input).meta.ndim < 2:
        raise IndexError(
            f"batch_norm: expected input of at least 2 dims; got {list(node_of(input).meta.shape)}"
        )
    y = batch_normed(input, running_mean, running_var, weight, bias, training, momentum, eps)
    meta = node_of(input).meta
    if not training:
        nothing = filled((0,), 0, meta.dtype)
        return y, nothing, filled((0,), 0, meta.dtype)
    layout = Layout("batch", meta.shape, 0)
    return y, *_statistics(input, meta.shape, layout.dims, eps, (meta.shape[1],))


@exact
def _native_batch_norm_legit(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """`native_batch_norm`, with or without running statistics."""
    running = rest[:2] if len(rest) == 5 else (None, None)
    return native_batch_norm(input, weight, bias, *running, *rest[-3:])


def _batch_norm_with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`native_batch_norm` in training, and an empty tensor that other devices need."""
    results = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *results, filled((0,), 0, dtypes.uint8)


def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm`, and the mean and reciprocal deviation of each group."""
    shape = node_of(input).meta.shape
    if shape[:2] != (N, C) or prod(shape[2:]) != HxW:
        raise RuntimeError(
            f"native_group_norm: N, C and HxW must be the sizes of the input; got {N}, {C} and "
            f"{HxW}; expected those of {list(shape)}"
        )
    y = group_norm(input, group, weight, bias, eps)
    layout = Layout("group", node_of(input).meta.shape, group)
    return y, *_statistics(input, layout.shape, layout.dims, eps, (N, group), flows=True)


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm`, and the mean and reciprocal deviation of each row."""
    y = layer_norm(input, normalized_shape, weight, bias, eps)
    shape = node_of(input).meta.shape
    lead = len(shape) - len(normalized_shape)
    view = (prod(shape[:lead]), prod(shape[lead:]))
    kept = (*shape[:lead], *(1,) * len(normalized_shape))
    return y, *_statistics(input, view, (1,), eps, kept)


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """`livegrad.nn.functional.batch_norm` with the order of arguments of `torch.batch_norm`."""
    return batch_normed(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """`livegrad.nn.functional.instance_norm` with the order of arguments of torch's."""
    return _instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: dtypes.DType
) -> Tensor:
    """The gradient of softmax's input, from that of its result and the result."""
    meta, given = node_of(output).meta, node_of(grad_output).meta
    if given.shape != meta.shape:
        raise RuntimeError(
            f"_softmax_backward_data: grad_output and output must have one shape; got "
            f"{list(given.shape)} and {list(meta.shape)}"
        )
    dim = normal_dim("_softmax_backward_data", dim, meta.ndim)
    input_dtype = dtypes.as_dtype(input_dtype)
    return to_dtype(record(SOFTMAX_BACKWARD, (grad_output, output), (dim,)), input_dtype)
