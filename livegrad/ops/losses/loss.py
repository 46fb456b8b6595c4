"""Losses of one element at a time, each one node forward and one node per gradient.

`define` makes such a loss of a formula and its slopes. Here are those of a difference; likelihoods
are in `likelihood_loss.py`, margins in `ranking_loss.py`, losses over classes in `class_loss.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.blame import check_number
from livegrad.graph.handle import node_of
from livegrad.graph.infer import TYPE_NAMES, broadcast_shapes, not_implemented
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import GradFn, LayoutRule, Op, as_first, as_iterated
from livegrad.graph.record import record
from livegrad.graph.symbol import real
from livegrad.ops.elementwise.arithmetic import abs, div, mul, sgn, sign, sub, where
from livegrad.ops.elementwise.comparison import ge, gt, lt
from livegrad.ops.layers.composite import (
    Array,
    Attrs,
    Metas,
    compute_dtype,
    to_dtype,
)
from livegrad.ops.losses.class_loss import REDUCTIONS, check_reduction, old_reduction
from livegrad.ops.losses.loss_layout import absolute_difference, by_steps
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.shaping.movement import constant, expand
from livegrad.ops.support import parts, samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

    Formula = Callable[..., Tensor]

# inputs (x, target, …), attrs (reduction, flags), args as the loss needs them; the gradient of
# operand i is the op `<name>_backward` with inputs (g, x, target, …), attrs (reduction, flags, i).


def reduced(each: Tensor, reduction: str, batch: int = 1) -> Tensor:
    """`each` itself, its sum, its mean, or its sum divided by the size of the batch."""
    if reduction == "none":
        return each
    total = rd.sum(each)
    if reduction == "sum":
        return total
    return div(total, _share(each, reduction, batch))


def _share(each: Tensor, reduction: str, batch: int) -> float:
    return real(batch if reduction == "batchmean" else node_of(each).meta.numel)


def _batch(x: Tensor) -> int:
    meta = node_of(x).meta
    return meta.shape[0] if meta.ndim else 1


def loss_dtype(name: str, metas: Sequence[Meta], rule: str = "float") -> DType:
    """The dtype of a loss: that of its inputs together.

    Args:
        rule: "float" refuses integers, "to float" converts them, "any" leaves them.
    """
    dtype = metas[0].dtype
    for meta in metas[1:]:
        dtype = dtypes.promote_types(dtype, meta.dtype)
    if dtype.category in (dtypes.INT, dtypes.BOOL):
        if rule == "float":
            raise NotImplementedError(
                f'"{name}" not implemented for {dtype.name}; expected floating-point tensors. '
                "Convert them with .float()"
            )
        if rule == "to float":
            return dtypes.get_default_dtype()
    if dtype.is_complex and rule == "float":
        raise not_implemented(name, dtype)
    return dtype


def _result_dtype(name: str, rule: str, metas: Sequence[Meta], common: DType) -> DType:
    """The dtype of a loss whose inputs have `common` together, as each is in PyTorch.

    Args:
        rule: "first" or "second" gives it the dtype of that input, "same" takes inputs of one dtype
            only, "ranked" lets a tensor without dims give way, "floats" does too and takes nothing
            but floats, "numbers" takes no bools; otherwise it is `common`.
    """
    least = {"floats": dtypes.FLOAT, "numbers": dtypes.INT}.get(rule, dtypes.BOOL)
    if any([m.dtype.category < least for m in metas]):
        kinds = " and ".join([TYPE_NAMES[m.dtype.name] for m in metas])
        raise RuntimeError(f"{name}: expected {rule}; found {kinds}")
    if rule == "same" and any([m.dtype is not common for m in metas]):
        kinds = " and ".join([TYPE_NAMES[m.dtype.name] for m in metas])
        raise RuntimeError(f"{name}: expected tensors of one dtype; found {kinds}")
    if rule in ("ranked", "floats") and common.category >= dtypes.FLOAT:
        ranked = dtypes.result_dtype(tuple([(m.dtype, 2 if m.ndim else 1) for m in metas]))
        return ranked if ranked.category >= dtypes.FLOAT else common
    if rule in ("first", "second"):
        own = metas[rule == "second"].dtype
        if common.category > own.category:
            raise RuntimeError(
                f"{name}: result type {TYPE_NAMES[common.name]} can't be cast to the desired "
                f"output type {TYPE_NAMES[own.name]}"
            )
        return own
    return common


def define(
    name: str,
    value: Formula,
    slopes: tuple[Formula | None, ...],
    call: Any,
    *,
    args: tuple[float, ...] = (),
    flags: Any = False,
    dtype: str = "float",
    result: str = "",
    low: float = -1.0,
    autocast: str | None = "float32",
    layout: LayoutRule = as_iterated,
    flat: tuple[tuple[int, ...], ...] | None = None,
    within: Formula | None = None,
    grad_fn: GradFn = None,
) -> Op:
    """Registers a loss `value(n, x, t, …)` per element, with its slope in each input.

    `args` and `flags` are what the samples of the gradient op take; `dtype` is a rule of
    `loss_dtype`, `result` one of `_result_dtype`, `layout` that of the loss per element; `flat`
    says, per slope, in which of the inputs it is constant. Where `within(n, x, t, …)` does not hold
    gradients end: they are 0, also of what is NaN.
    """

    def infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
        full = broadcast_shapes(name, [m.shape for m in metas])
        found = loss_dtype(name, metas, dtype)
        if attrs[0] == "mean" and found.category in (dtypes.INT, dtypes.BOOL):
            raise RuntimeError(
                f"{name}: a mean needs a floating-point dtype; got {found.name}. Convert with "
                ".float() first"
            )
        found = _result_dtype(name, result, metas, found)
        return meta_of(full if attrs[0] == "none" else (), found.to_real())

    def expand(n: Any, *inputs: Tensor) -> Tensor:
        wide = loss_dtype(name, [node_of(x).meta for x in inputs], dtype).compute
        each = value(n, *[to_dtype(x, wide) for x in inputs])
        return to_dtype(reduced(each, n.attrs[0], _batch(inputs[0])), n.meta.dtype)

    def backward_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
        full = broadcast_shapes(name, [m.shape for m in metas[1:]])
        return meta_of(full, loss_dtype(name, metas, dtype))

    def backward_expand(n: Any, g: Tensor, *inputs: Tensor) -> Tensor:
        reduction, _, which = n.attrs
        g, *wide = [to_dtype(x, compute_dtype(n)) for x in (g, *inputs)]
        slope_of = slopes[which]
        assert slope_of is not None
        slope = slope_of(n, *wide)
        if reduction in ("mean", "batchmean"):
            count = broadcast_shapes(name, [node_of(x).meta.shape for x in inputs])
            whole = _batch(inputs[0]) if reduction == "batchmean" else meta_of(count, g.dtype).numel
            g = div(g, real(max(whole, 1)))
        product = mul(slope, g)
        if within is not None:
            product = where(within(n, *wide), product, 0)
        return to_dtype(_full(product, n.meta.shape), n.meta.dtype)

    def rule(which: int) -> Any:
        def gradient(g: Tensor, y: Tensor, *inputs: Tensor) -> Tensor:
            node = y._node
            if flat is not None:
                inputs = tuple(
                    [constant(x) if i in flat[which] else x for i, x in enumerate(inputs)]
                )
            return record(backward, (g, *inputs), (*node.attrs, which), node.args)

        return gradient

    backward = Op(
        f"{name}_backward",
        "composite",
        infer=backward_infer,
        expand=backward_expand,
        saves="x",
        samples=_backward_samples(lambda: backward, slopes, flags, args, low),
    )
    return Op(
        name,
        "composite",
        infer=infer,
        expand=expand,
        layout=lambda metas, attrs, meta: layout(metas, attrs, meta) if meta.ndim else None,
        grads=tuple([None if slope is None else rule(i) for i, slope in enumerate(slopes)]),
        saves="x",
        autocast=autocast,
        grad_fn=grad_fn,
        samples=loss_samples(call, len(slopes), low),
    )


def _full(x: Tensor, shape: Any) -> Tensor:
    return x if node_of(x).meta.shape == shape else expand(x, shape)


def several(count: int, shape: tuple[int, ...], low: float) -> tuple[Array, ...]:
    """`count` arrays for samples."""
    return tuple([s.uniform(*shape, low=low, high=0.9, seed=9 * i) for i in range(count)])


def loss_samples(call: Any, count: int, low: float) -> s.SampleRule:
    """Samples of a loss of `count` tensors in every reduction."""
    return s.calls(
        lambda: s.Sample(several(count, (3, 37), low), lambda *x: call(*x), smooth=False),
        lambda: s.Sample(several(count, (2, 2), low), lambda *x: call(*x)),
        lambda: s.Sample(several(count, (3,), low), lambda *x: call(*x, reduction="none")),
        lambda: s.Sample(several(count, (), low), lambda *x: call(*x, reduction="sum")),
        lambda: s.Sample(several(count, (0, 2), low), lambda *x: call(*x, reduction="sum")),
    )


def _backward_samples(
    op_of: Callable[[], Op], slopes: Sequence[Any], flags: Any, args: tuple[float, ...], low: float
) -> s.SampleRule:
    """Samples of the gradient of each operand; their gradients are tested with the loss's."""

    def sample(which: int) -> s.Sample:
        reduction, shape = ("mean", ()) if which == 0 else ("none", (3, 4))
        inputs = (s.uniform(*shape, seed=5), *several(len(slopes), (3, 4), low))
        attrs = (reduction, flags, which)
        return s.Sample(inputs, lambda *t: record(op_of(), t, attrs, args), smooth=False)

    return s.calls(*[lambda i=i: sample(i) for i, slope in enumerate(slopes) if slope is not None])


# ------------------------------------------------------------------------------------- weights


def _weighted_expand(n: Any, *tensors: Tensor) -> Tensor:
    op, reduction, by_weight, flags = n.attrs
    dtype = compute_dtype(n)
    *inputs, weight = [to_dtype(x, dtype) for x in tensors]
    each = mul(record(op, inputs, ("none", flags), n.args), weight)
    if by_weight and reduction == "mean":
        return to_dtype(div(rd.sum(each), rd.sum(weight)), n.meta.dtype)
    return to_dtype(reduced(each, reduction), n.meta.dtype)


def _weighted_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    op, reduction = attrs[:2]
    full = broadcast_shapes(op.name, [m.shape for m in metas])
    op.infer(metas[:-1], ("none", attrs[3]), None)  # raises what the loss itself raises
    return meta_of(full if reduction == "none" else (), loss_dtype(op.name, metas))


WEIGHTED_LOSS = Op(
    "weighted_loss",
    "composite",
    # inputs (those of the loss, weight), attrs (loss, reduction, whether a mean is divided by the
    # sum of the weights, flags), args of the loss; differentiated through the expansion.
    infer=_weighted_infer,
    expand=_weighted_expand,
    layout=lambda metas, attrs, meta: attrs[0].layout(metas[:-1], attrs, meta),
    saves="x",
    autocast="float32",
    samples=s.calls(
        lambda: s.Sample(
            several(3, (3, 4), 0.1), lambda x, t, w: mse_loss(x, t, weight=w, reduction="mean")
        ),
        lambda: s.Sample(several(3, (5,), 0.1), lambda x, t, w: huber_loss(x, t, "none", 1.0, w)),
    ),
)


def record_loss(
    op: Op,
    inputs: tuple[Tensor, ...],
    weight: Tensor | None,
    reduction: str,
    flags: Any = False,
    args: tuple[float, ...] = (),
    by_weight: bool = False,
) -> Tensor:
    """Records a loss made by `define`, weighted if there is a weight."""
    if weight is None:
        return record(op, inputs, (reduction, flags), args)
    attrs = (op, reduction, by_weight, flags)
    return record(WEIGHTED_LOSS, (*inputs, weight), attrs, args)


# --------------------------------------------------------------------------------- differences


def _opposite(slope: Formula) -> tuple[Formula, Formula]:
    """Slopes of a loss of `x - t`."""
    return slope, lambda n, x, t: slope(n, t, x)


def _squared(n: Any, x: Tensor, t: Tensor) -> Tensor:
    d = sub(x, t)
    return mul(d, d)


MSE_LOSS = define(
    "mse_loss",
    value=_squared,
    slopes=_opposite(lambda n, x, t: mul(sub(x, t), 2.0)),
    call=lambda x, t, **k: mse_loss(x, t, **k),
    grad_fn=parts.loss,
)
L1_LOSS = define(
    "l1_loss",
    result="numbers",
    layout=by_steps(absolute_difference),
    value=lambda n, x, t: abs(sub(x, t)),
    slopes=_opposite(lambda n, x, t: sgn(sub(x, t))),
    call=lambda x, t, **k: l1_loss(x, t, **k),
    grad_fn=parts.l1_loss,
    dtype="any",
)


def _smooth_l1_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    beta, half = n.args
    d = abs(sub(x, t))
    inside = div(mul(mul(d, d), 0.5), beta)
    return where(lt(d, beta), inside, sub(d, half))


def _smooth_l1_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    d = sub(x, t)
    return where(ge(abs(d), n.args[0]), sign(d), div(d, n.args[0]))  # NaN stays NaN


SMOOTH_L1_LOSS = define(
    "smooth_l1_loss",  # args (beta, beta / 2)
    value=_smooth_l1_value,
    slopes=_opposite(_smooth_l1_slope),
    call=lambda x, t, **k: smooth_l1_loss(x, t, beta=0.5, **k),
    grad_fn=parts.loss,
    args=(0.5, 0.25),
)


def _huber_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    delta, half = n.args
    d = abs(sub(x, t))
    inside = mul(mul(d, d), 0.5)
    return where(gt(d, delta), mul(sub(d, half), delta), inside)


def _huber_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    d = sub(x, t)
    # At delta itself both are equal, and PyTorch's second derivative is that of the line.
    return where(ge(abs(d), n.args[0]), mul(sign(d), n.args[0]), d)


HUBER_LOSS = define(
    "huber_loss",  # args (delta, delta / 2)
    result="first",
    layout=as_first,
    value=_huber_value,
    slopes=_opposite(_huber_slope),
    call=lambda x, t, **k: huber_loss(x, t, delta=0.5, **k),
    grad_fn=parts.loss,
    args=(0.5, 0.25),
)


def _check_sizes(input: Tensor, target: Tensor, weight: Tensor | None = None) -> None:
    """Warns of a target that will be broadcast; ValueError for a weight that would be."""
    have, wanted = node_of(target).meta.shape, node_of(input).meta.shape
    if have != wanted:
        from livegrad.lint.rules import say

        say(
            "broadcast",
            f"Using a target size ({list(have)}) that is different to the input size "
            f"({list(wanted)}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            once=False,
        )
    if weight is not None and node_of(weight).meta.shape != wanted:
        raise ValueError(
            f"Weights and input must have the same size; got {list(weight.shape)} and "
            f"{list(wanted)}"
        )


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Mean of `(input - target)²`; with `weight`, the weighted mean.

    Args:
        input: a tensor.
        target: of the same shape.
        reduction: "mean", "sum" or "none".
        weight: of each element, or None.

    Example:
        >>> F.mse_loss(lg.tensor([1.0, 2.0]), lg.tensor([1.0, 4.0]))
        tensor(2.)
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    if reduction not in REDUCTIONS:
        check_reduction(reduction)
    _check_sizes(input, target, weight)
    return record_loss(MSE_LOSS, (input, target), weight, reduction, by_weight=True)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Mean of `|input - target|`; with `weight`, the weighted mean.

    Args:
        input: a tensor.
        target: of the same shape.
        reduction: "mean", "sum" or "none".

    Example:
        >>> F.l1_loss(lg.tensor([1.0, 2.0]), lg.tensor([1.0, 4.0]))
        tensor(1.)
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    _check_sizes(input, target, weight)
    return record_loss(L1_LOSS, (input, target), weight, reduction, by_weight=True)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Mean of `|d|`, made quadratic where it is less than `beta`; d is the difference.

    Args:
        input: a tensor.
        target: of the same shape.
        reduction: "mean", "sum" or "none".
        beta: where the square ends.

    Example:
        >>> F.smooth_l1_loss(lg.tensor([0.5, 3.0]), lg.zeros(2), reduction="none")
        tensor([0.1250, 2.5000])
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    _check_sizes(input, target)
    check_number(beta)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta; got {beta}")
    if beta == 0:
        return record_loss(L1_LOSS, (input, target), None, reduction)
    args = (float(beta), beta / 2)
    return record_loss(SMOOTH_L1_LOSS, (input, target), None, reduction, False, args)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Mean of `d²/2` where `|d| <= delta`, else `delta * (|d| - delta/2)`; d is the difference."""
    check_reduction(reduction)
    _check_sizes(input, target, weight)
    check_number(delta)
    if delta <= 0:
        raise RuntimeError(
            f"huber_loss does not support non-positive values for delta; got {delta}"
        )
    args = (float(delta), delta / 2)
    return record_loss(HUBER_LOSS, (input, target), weight, reduction, False, args)
