"""Statistics that training collects: normalising with them, and moving them along."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from livegrad.graph.blame import as_float
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op, as_suggested
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.graph.writes import rebind, rebind_uncounted
from livegrad.ops.elementwise.arithmetic import add, mul, sub
from livegrad.ops.elementwise.roots import rsqrt
from livegrad.ops.layers.composite import (
    Attrs,
    Metas,
    check_affine,
    compute_dtype,
    need_float,
    to_dtype,
)
from livegrad.ops.making.generate import steps
from livegrad.ops.norms.channel_norm import Layout
from livegrad.ops.norms.moments import mean_over, moments
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _known_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x = metas[0]
    need_float("batch_norm", x.dtype)
    names = ["running_mean", "running_var"] + ["weight"] * attrs[1] + ["bias"] * attrs[2]
    for meta, what in zip(metas[1:], names, strict=True):
        if meta.shape != (x.shape[1],):
            raise RuntimeError(
                f"batch_norm: {what} should contain {x.shape[1]} elements, one per channel of "
                f"input {list(x.shape)}; got {list(meta.shape)}"
            )
        check_affine("batch_norm", what, x.dtype, meta.dtype)
    return x


def _known_parts(n: Any, x: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """x - mean, rstd, and weight and bias, ready to be broadcast."""
    dtype = compute_dtype(n)
    along = Layout("batch", node_of(x).meta.shape, 0).affine
    mean, variance, *affine = [reshape_to(to_dtype(t, dtype), along) for t in rest]
    return sub(to_dtype(x, dtype), mean), rsqrt(add(variance, n.args[0])), affine


def _known_expand(n: Any, *inputs: Tensor) -> Tensor:
    apart, rstd, affine = _known_parts(n, *inputs)
    y = mul(apart, mul(rstd, affine.pop(0)) if n.attrs[1] else rstd)
    return to_dtype(add(y, affine[0]) if n.attrs[2] else y, n.meta.dtype)


def _known_backward_expand(n: Any, g: Tensor, *inputs: Tensor) -> Tensor:
    which = n.attrs[0]
    apart, rstd, affine = _known_parts(n, *inputs)
    g = to_dtype(g, compute_dtype(n))
    if which == "input":
        slope = mul(g, mul(rstd, affine[0]) if affine else rstd)
        return to_dtype(slope, n.meta.dtype)
    dims = (0, *range(2, node_of(g).meta.ndim))
    product = mul(g, mul(apart, rstd)) if which == "weight" else g
    return to_dtype(reshape_to(rd.sum(product, dims, True), n.meta.shape), n.meta.dtype)


NORM_WITH_STATISTICS_BACKWARD: Op = Op(
    "norm_with_statistics_backward",
    "composite",
    # inputs (g, x, mean, variance[, weight]), attrs (which operand,), args (eps,).
    infer=lambda metas, attrs, shape: (
        metas[1] if attrs[0] == "input" else meta_of((metas[1].shape[1],), metas[1].dtype)
    ),
    expand=_known_backward_expand,
    saves="x",
    samples=s.calls(
        *[
            lambda which=which: s.Sample(
                (
                    s.uniform(3, 4, 2),
                    s.uniform(3, 4, 2, seed=1),
                    s.uniform(4, seed=2),
                    s.uniform(4, low=0.5, seed=3),
                    s.uniform(4, seed=4),
                ),
                lambda *t: record(NORM_WITH_STATISTICS_BACKWARD, t, (which,), (1e-2,)),
                smooth=False,
            )
            for which in ("input", "weight", "bias")
        ]
    ),
)


def _known_rule(which: str) -> Any:
    def rule(g: Tensor, y: Tensor, *inputs: Tensor) -> Tensor:
        weighted = y._node.attrs[1]
        name = "bias" if which == "weight" and not weighted else which
        kept = inputs[:4] if weighted else inputs[:3]
        return record(NORM_WITH_STATISTICS_BACKWARD, (g, *kept), (name,), y._node.args)

    return rule


NORM_WITH_STATISTICS = Op(
    "norm_with_statistics",
    "composite",
    # inputs (x, mean, variance[, weight][, bias]), attrs (0, has weight, has bias), args (eps,).
    infer=_known_infer,
    expand=_known_expand,
    layout=as_suggested,
    grads=(_known_rule("input"), None, None, _known_rule("weight"), _known_rule("bias")),
    saves="x",
    linked=4,
    samples=s.calls(
        # Statistics get no gradient, and so are no inputs.
        lambda: s.Sample(
            (s.uniform(3, 4, 2), s.uniform(4), s.uniform(4)),
            lambda x, w, b: with_statistics("", x, *_some(x), w, b, 1e-2),
        ),
        lambda: s.Sample(
            (s.uniform(3, 4), s.uniform(4)),
            lambda x, b: with_statistics("", x, *_some(x), None, b, 1e-2),
        ),
    ),
)


def _some(x: Tensor) -> tuple[Tensor, Tensor]:
    """A mean and a variance of four channels, for samples."""
    return steps(4, -0.5, 0.25, x.dtype), steps(4, 0.5, 0.25, x.dtype)


# -------------------------------------------------------------------------- running statistics


def _running_expand(n: Any, running: Tensor, x: Tensor) -> Tensor:
    kind, which = n.attrs
    keep, share = n.args
    shape = node_of(x).meta.shape
    layout = Layout(kind, shape, 0)
    value, variance = moments(to_dtype(x, node_of(x).meta.dtype.compute), layout.dims)
    if which == "variance":
        count = prod([shape[d] for d in layout.dims])
        value = mul(variance, float(count) / (count - 1) if count > 1 else float("nan"))
    if kind == "instance":
        value = mean_over(value, (0,))
    wide = compute_dtype(n)
    new = reshape_to(to_dtype(value, wide), n.meta.shape)
    return to_dtype(add(mul(to_dtype(running, wide), keep), mul(new, share)), n.meta.dtype)


RUNNING_STATISTIC: Op = Op(
    "running_statistic",
    "composite",
    # inputs (running, x), attrs (kind, "mean" or "variance"), args (1 - momentum, momentum).
    infer=lambda metas, attrs, shape: metas[0],
    expand=_running_expand,
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4), s.uniform(2, 4, 2)),
            lambda r, x: record(RUNNING_STATISTIC, (r, x), ("batch", "variance"), (0.9, 0.1)),
        ),
        lambda: s.Sample(
            (s.uniform(4), s.uniform(2, 4, 2)),
            lambda r, x: record(RUNNING_STATISTIC, (r, x), ("instance", "mean"), (0.5, 0.5)),
        ),
    ),
)


def update(
    kind: str, x: Tensor, mean: Tensor | None, variance: Tensor | None, momentum: float
) -> None:
    """Moves running statistics toward those of `x`, in place.

    As in PyTorch, `_version` counts it where they are of instances alone.
    """
    if node_of(x).meta.numel == 0:
        return
    write = rebind if kind == "instance" else rebind_uncounted
    momentum = as_float(momentum)
    args = (1.0 - momentum, momentum)
    state = LOCAL.state
    grad, state.grad = state.grad, False
    try:
        for running, which in ((mean, "mean"), (variance, "variance")):
            if running is not None:
                write(running, record(RUNNING_STATISTIC, (running, x), (kind, which), args))
    finally:
        state.grad = grad


def check_running(name: str, channels: int, **given: Tensor | None) -> None:
    """RuntimeError unless running statistics have one value per channel, and no gradient."""
    for what, tensor in given.items():
        if tensor is None:
            continue
        node = node_of(tensor)
        if node.meta.shape != (channels,):
            raise RuntimeError(
                f"{name}: {what} should contain {channels} elements not {node.meta.numel}"
            )
        if node.grad_to is not None and LOCAL.state.grad and tensor.requires_grad:
            raise RuntimeError(
                f"{name} is not differentiable with respect to argument '{what}'. This input "
                "cannot have requires_grad True."
            )


def with_statistics(
    name: str,
    x: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """`x` normalised with a mean and a variance per channel that are known already."""
    if mean is None or variance is None:
        raise RuntimeError(f"{name}: expected running_mean and running_var in evaluation mode")
    inputs = [t for t in (x, mean, variance, weight, bias) if t is not None]
    attrs = (0, weight is not None, bias is not None)
    return record(NORM_WITH_STATISTICS, inputs, attrs, (as_float(eps),))
