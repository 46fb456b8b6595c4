"""Norms by channels as ops: batch_norm, instance_norm, group_norm.

    batch_norm      each channel, over the batch and all places
    instance_norm   each channel of each example, over all places
    group_norm      each group of channels of each example, over the group and all places

A norm is one node forward and one per gradient; mean and deviation are the same expressions in all
of them, so a plan computes them once. The functions are in `normalisation.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.blame import as_float
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op, as_suggested
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, mul, sub
from livegrad.ops.elementwise.roots import rsqrt
from livegrad.ops.layers.composite import (
    Array,
    Attrs,
    Metas,
    check_affine,
    compute_dtype,
    need_float,
    to_dtype,
)
from livegrad.ops.norms.moments import mean_over, moments
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import folds, parts, samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# attrs of all of this family are (groups, has weight, has bias), args (eps,).


class Layout:
    """Which dims of a view of the input are folded, and how weights are laid along it."""

    __slots__ = ("affine", "dims", "shape")

    def __init__(self, kind: str, shape: Shape, groups: int) -> None:
        places = (1,) * (len(shape) - 2)
        if kind == "group":
            inside = shape[1] // groups
            self.shape: Shape = (shape[0], groups, inside, *shape[2:])
            self.dims = tuple(range(2, len(self.shape)))
            self.affine: Shape = (1, groups, inside, *places)
        else:
            self.shape = shape
            self.dims = (*((0,) if kind == "batch" else ()), *range(2, len(shape)))
            self.affine = (1, shape[1], *places)


def _normal(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """`(x - mean) * rstd` and rstd."""
    mean, variance = moments(x, dims)
    rstd = rsqrt(add(variance, eps))
    return mul(sub(x, mean), rstd), rstd


def _infer(name: str) -> Any:
    def infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
        x = metas[0]
        need_float(name, x.dtype)
        for meta, what in zip(metas[1:], ["weight"] * attrs[1] + ["bias"] * attrs[2], strict=True):
            if meta.shape != (x.shape[1],):
                raise RuntimeError(
                    f"{name}: expected {what} to be a vector of size {x.shape[1]}, the number of "
                    f"channels in input {list(x.shape)}; got {list(meta.shape)}"
                )
            check_affine(name, what, x.dtype, meta.dtype)
        return x

    return infer


def _forward(kind: str) -> Callable[..., Tensor]:
    def expand(n: Any, x: Tensor, *affine: Tensor) -> Tensor:
        dtype = compute_dtype(n)
        layout = Layout(kind, n.meta.shape, n.attrs[0])
        x = reshape_to(to_dtype(x, dtype), layout.shape)
        mean, variance = moments(x, layout.dims)
        scale = rsqrt(add(variance, n.args[0]))
        rest = [reshape_to(to_dtype(t, dtype), layout.affine) for t in affine]
        if n.attrs[1]:
            scale = mul(scale, rest.pop(0))
        y = mul(sub(x, mean), scale)
        if n.attrs[2]:
            y = add(y, rest.pop(0))
        return to_dtype(reshape_to(y, n.meta.shape), n.meta.dtype)

    return expand


def _reference(kind: str) -> Callable[..., Array]:
    def ref(n: Any, x: Array, *affine: Array) -> Array:
        layout = Layout(kind, n.meta.shape, n.attrs[0])
        if x.size == 0:
            return x
        seen, axes = x.reshape(layout.shape), layout.dims
        apart = folds.widened(seen) - folds.average(seen, axes, True)
        variance = folds.average(apart * apart, axes, True)
        y = apart / np.sqrt(variance + x.dtype.type(n.args[0]))
        rest = [t.reshape(layout.affine) for t in affine]
        if n.attrs[1]:
            y = y * rest.pop(0)
        if n.attrs[2]:
            y = y + rest.pop(0)
        out: Array = y.reshape(x.shape)
        return out

    return ref


def _backward_input(kind: str) -> Callable[..., Tensor]:
    """`rstd * (h - mean(h) - y * mean(h * y))`, y the normal input, `h = g * weight`."""

    def expand(n: Any, g: Tensor, x: Tensor, *weight: Tensor) -> Tensor:
        dtype = compute_dtype(n)
        layout = Layout(kind, n.meta.shape, n.attrs[0])
        g, x = [reshape_to(to_dtype(t, dtype), layout.shape) for t in (g, x)]
        y, rstd = _normal(x, layout.dims, n.args[0])
        if kind == "group":
            h = mul(g, reshape_to(to_dtype(weight[0], dtype), layout.affine)) if weight else g
            inner = add(mean_over(h, layout.dims), mul(y, mean_over(mul(h, y), layout.dims)))
            slope = mul(rstd, sub(h, inner))
        else:
            # The weight is the same all over what is folded: the sums are those of its gradient.
            inner = add(mean_over(g, layout.dims), mul(y, mean_over(mul(g, y), layout.dims)))
            slope = mul(rstd, sub(g, inner))
            if weight:
                slope = mul(slope, reshape_to(to_dtype(weight[0], dtype), layout.affine))
        return to_dtype(reshape_to(slope, n.meta.shape), n.meta.dtype)

    return expand


def _backward_affine(kind: str) -> Callable[..., Tensor]:
    """`sum(g * y)` for the weight (inputs (g, x)), `sum(g)` for the bias (inputs (g,))."""

    def expand(n: Any, g: Tensor, *x: Tensor) -> Tensor:
        shape = node_of(g).meta.shape
        dtype = compute_dtype(n)
        layout = Layout(kind, shape, n.attrs[0])
        g, *seen = [reshape_to(to_dtype(t, dtype), layout.shape) for t in (g, *x)]
        if seen:
            g = mul(g, _normal(seen[0], layout.dims, n.args[0])[0])
        dims = tuple([d for d, size in enumerate(layout.affine) if size == 1 and d < g.ndim])
        return to_dtype(reshape_to(rd.sum(g, dims, True), n.meta.shape), n.meta.dtype)

    return expand


def _channels(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    return meta_of((metas[0].shape[1],), metas[0].dtype)


def _define(kind: str) -> tuple[Op, Op, Op]:
    """Registers a norm with its gradients."""
    name = f"{kind}_norm"
    groups = 2 if kind == "group" else 0

    def gradient(op: Op, attrs: Attrs, count: int, weighted: bool = False) -> s.Sample:
        inputs = tuple([s.uniform(2, 4, 3, seed=i) for i in range(count)])
        if weighted:
            inputs += (s.uniform(4, low=0.5, high=1.5, seed=7),)
        # Gradients of these are tested with those of the norm.
        return s.Sample(inputs, lambda *t: record(op, t, attrs, (1e-2,)), smooth=False)

    to_input = Op(
        f"{name}_backward_input",
        "composite",
        # inputs (g, x[, weight])
        infer=lambda metas, attrs, shape: metas[1],
        expand=_backward_input(kind),
        saves="x",
        samples=s.calls(
            lambda: gradient(to_input, (groups, True, False), 2, weighted=True),
            lambda: gradient(to_input, (groups, False, False), 2),
        ),
    )
    to_affine = Op(
        f"{name}_backward_affine",
        "composite",
        # inputs (g, x) for the weight, (g,) for the bias
        infer=_channels,
        expand=_backward_affine(kind),
        saves="x",
        samples=s.calls(
            lambda: gradient(to_affine, (groups, True, False), 2),
            lambda: gradient(to_affine, (groups, False, True), 1),
        ),
    )

    def input_rule(g: Tensor, y: Tensor, x: Tensor, *affine: Tensor) -> Tensor:
        some, weighted, _ = y._node.attrs
        inputs = (g, x, affine[0]) if weighted else (g, x)
        return record(to_input, inputs, (some, weighted, False), y._node.args)

    def first_rule(g: Tensor, y: Tensor, x: Tensor, *affine: Tensor) -> Tensor:
        some, weighted, _ = y._node.attrs
        inputs = (g, x) if weighted else (g,)
        return record(to_affine, inputs, (some, weighted, not weighted), y._node.args)

    def bias_rule(g: Tensor, y: Tensor, x: Tensor, *affine: Tensor) -> Tensor:
        return record(to_affine, (g,), (y._node.attrs[0], False, True), y._node.args)

    def sample(*shape: int, affine: int = 2) -> s.Sample:
        extra = [s.uniform(shape[1], low=0.5, high=1.5, seed=i) for i in range(affine)]
        attrs = (groups, affine > 0, affine > 1)
        return s.Sample((s.uniform(*shape), *extra), lambda *t: record(op, t, attrs, (1e-2,)))

    op = Op(
        name,
        "composite",
        infer=_infer(name),
        ref=_reference(kind),
        expand=_forward(kind),
        layout=None if kind == "instance" else as_suggested,
        grads=(input_rule, first_rule, bias_rule),
        saves="x",
        linked=0 if kind == "group" else 2,
        grad_fn=None if kind == "instance" else parts.with_parameters(f"Native{kind.title()}Norm"),
        samples=s.calls(
            lambda: sample(2, 4, 3),
            lambda: sample(2, 2, 2, 2, affine=1),
            lambda: sample(0, 4, 3),
        ),
    )
    return op, to_input, to_affine


BATCH_NORM, _, _ = _define("batch")
INSTANCE_NORM, _, _ = _define("instance")
GROUP_NORM, _, _ = _define("group")


def record_norm(
    op: Op, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, groups: int = 0
) -> Tensor:
    inputs = [t for t in (x, weight, bias) if t is not None]
    attrs = (groups, weight is not None, bias is not None)
    return record(op, inputs, attrs, (as_float(eps),))
