"""Composite ops over rows: softmax, normalisation, similarity. Losses are in `ops/losses/loss.py`.

Each is recorded as one node and so is its gradient; the planner expands them, merges what they have
in common (the row maximum, the mean …) and makes one kernel of what streams the same rows.
Half precisions are computed in float32 and rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.blame import as_float, as_index, as_items, one_or_several
from livegrad.graph.handle import node_of
from livegrad.graph.infer import TYPE_NAMES, broadcast_shapes
from livegrad.graph.layout import (
    Strides,
    broadcast_strides,
    channels_last_strides,
    contiguous_strides,
    elementwise_strides,
    is_channels_last,
    is_contiguous,
    prefers_channels_last,
)
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, div, mul, neg, sub, where
from livegrad.ops.elementwise.comparison import lt
from livegrad.ops.elementwise.pointwise_math import exp, log
from livegrad.ops.elementwise.roots import rsqrt
from livegrad.ops.norms.moments import mean_over, moments
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.reductions.statistics import norm
from livegrad.ops.shaping.movement import expand, normal_dim, whole
from livegrad.ops.support import batched, folds, parts, samples as s
from livegrad.ops.support.out import casting, exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]


def to_dtype(x: Tensor, dtype: DType) -> Tensor:
    """`x` itself if it has the dtype, else converted."""
    return x if node_of(x).meta.dtype is dtype else cast(x, dtype)


def compute_dtype(n: Any) -> DType:
    """The dtype in which a node's expansion computes."""
    return n.meta.dtype.compute  # type: ignore[no-any-return]


def need_float(name: str, dtype: DType) -> None:
    """NotImplementedError unless `dtype` is a floating type."""
    if dtype.category != dtypes.FLOAT:
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{TYPE_NAMES[dtype.name]}'; expected a floating-point "
            "tensor. Convert it with .float(), or pass dtype="
        )


def _like_last(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    return metas[-1]


# ------------------------------------------------------------------------------------ softmax

# attrs of all of this family are (dim, dtype of the result).


def _softmax_infer(name: str) -> Any:
    def infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
        (x,) = metas
        normal_dim(name, attrs[0], x.ndim)
        dtype = attrs[1] or x.dtype
        need_float(name, dtype)
        return meta_of(x.shape, dtype)

    return infer


def _softmax_parts(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """`x - max` and the row sum of its exponential."""
    shifted = sub(x, rd.amax(x, dim, True))
    return shifted, rd.sum(exp(shifted), dim, True)


def _softmax_expand(n: Any, x: Tensor) -> Tensor:
    x = to_dtype(x, compute_dtype(n))
    if n.meta.numel == 0:
        return to_dtype(x, n.meta.dtype)
    shifted, total = _softmax_parts(x, n.attrs[0])
    return to_dtype(div(exp(shifted), total), n.meta.dtype)


def _log_softmax_expand(n: Any, x: Tensor) -> Tensor:
    x = to_dtype(x, compute_dtype(n))
    if n.meta.numel == 0:
        return to_dtype(x, n.meta.dtype)
    shifted, total = _softmax_parts(x, n.attrs[0])
    return to_dtype(sub(shifted, log(total)), n.meta.dtype)


def _axes(x: Array, dim: int) -> tuple[int, ...]:
    return (dim,) if x.ndim else ()


def log_softmax_array(x: Array, dim: int) -> Array:
    """NumPy meaning of log_softmax."""
    if x.size == 0:
        return x
    axes, x = _axes(x, dim), folds.widened(x)
    shifted = x - np.max(x, axis=axes, keepdims=True)
    out: Array = shifted - np.log(folds.total(np.exp(shifted), axes, True))
    return out


def softmax_array(x: Array, dim: int) -> Array:
    """NumPy meaning of softmax."""
    if x.size == 0:
        return x
    axes, x = _axes(x, dim), folds.widened(x)
    e = np.exp(x - np.max(x, axis=axes, keepdims=True))
    out: Array = e / folds.total(e, axes, True)
    return out


def _in_result_dtype(n: Any, x: Array) -> Array:
    return x.astype(n.meta.dtype.compute.storage, copy=False)


def _row_samples(function: Any, smooth: bool = True) -> s.SampleRule:
    return s.calls(
        lambda: s.Sample((s.uniform(3, 37, low=-4, high=4),), lambda x: function(x, -1), smooth),
        lambda: s.Sample((s.uniform(3, 5),), lambda x: function(x, 0), smooth),
        lambda: s.Sample((s.uniform(2, 5, 3),), lambda x: function(x, 1), smooth),
        lambda: s.Sample((s.uniform(),), lambda x: function(x, 0), smooth),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: function(x, -1), smooth),
    )


def _row_pair_samples(op_of: Any) -> s.SampleRule:
    def pair(*shape: int) -> tuple[Array, Array]:
        return s.uniform(*shape), s.uniform(*shape, low=-3, high=-0.2, seed=1)

    return s.calls(
        lambda: s.Sample(pair(3, 37), lambda g, y: record(op_of(), (g, y), (-1,))),
        lambda: s.Sample(pair(2, 5, 3), lambda g, y: record(op_of(), (g, y), (1,))),
        lambda: s.Sample(pair(0, 3), lambda g, y: record(op_of(), (g, y), (-1,))),
    )


SOFTMAX_BACKWARD: Op = Op(
    "softmax_backward",
    "composite",
    # Gradient of softmax from its result y; attrs (dim,).
    infer=_like_last,
    ref=lambda n, g, y: y * (g - folds.total(g * y, _axes(y, n.attrs[0]), True)),
    expand=lambda n, g, y: _softmax_backward(n, g, y),
    saves="x",
    batch=batched.along,
    samples=_row_pair_samples(lambda: SOFTMAX_BACKWARD),
)


def _softmax_backward(n: Any, g: Tensor, y: Tensor) -> Tensor:
    g, y = to_dtype(g, compute_dtype(n)), to_dtype(y, compute_dtype(n))
    inner = rd.sum(mul(g, y), n.attrs[0], True)
    return to_dtype(mul(y, sub(g, inner)), n.meta.dtype)


SOFTMAX = Op(
    "softmax",
    "composite",
    infer=_softmax_infer("softmax"),
    ref=lambda n, x: softmax_array(_in_result_dtype(n, x), n.attrs[0]),
    expand=_softmax_expand,
    grads=(lambda g, y, x: record(SOFTMAX_BACKWARD, (g, y), y._node.attrs[:1]),),
    saves="y",
    batch=batched.along,
    grad_fn=parts.softmax,
    samples=_row_samples(lambda x, dim: softmax(x, dim)),
)

LOG_SOFTMAX_BACKWARD: Op = Op(
    "log_softmax_backward",
    "composite",
    # Gradient of log_softmax from its result y; attrs (dim,).
    infer=_like_last,
    ref=lambda n, g, y: g - np.exp(y) * folds.total(g, _axes(y, n.attrs[0]), True),
    expand=lambda n, g, y: _log_softmax_backward(n, g, y),
    saves="x",
    batch=batched.along,
    samples=_row_pair_samples(lambda: LOG_SOFTMAX_BACKWARD),
)


def _log_softmax_backward(n: Any, g: Tensor, y: Tensor) -> Tensor:
    g, y = to_dtype(g, compute_dtype(n)), to_dtype(y, compute_dtype(n))
    total = rd.sum(g, n.attrs[0], True)
    return to_dtype(sub(g, mul(exp(y), total)), n.meta.dtype)


LOG_SOFTMAX = Op(
    "log_softmax",
    "composite",
    infer=_softmax_infer("log_softmax"),
    ref=lambda n, x: log_softmax_array(_in_result_dtype(n, x), n.attrs[0]),
    expand=_log_softmax_expand,
    grads=(lambda g, y, x: record(LOG_SOFTMAX_BACKWARD, (g, y), y._node.attrs[:1]),),
    saves="y",
    batch=batched.along,
    grad_fn=parts.softmax,
    samples=_row_samples(lambda x, dim: log_softmax(x, dim)),
)


def _row_attrs(name: str, dim: Any, dtype: Any) -> tuple[int, DType | None]:
    if type(dim) is not int:
        dim = whole(name, "dim", dim)
    return dim, None if dtype is None else dtypes.as_dtype(dtype)


@exact
def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """`exp(input)` divided by its sum along `dim`.

    Args:
        input: a tensor.
        dim: along which the results add up to 1.
        dtype: `input` is cast to it first.

    Example:
        >>> lg.softmax(lg.tensor([1.0, 2.0, 3.0]), dim=0)
        tensor([0.0900, 0.2447, 0.6652])
    """
    return record(SOFTMAX, (input,), _row_attrs("softmax", dim, dtype))


@exact
def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Logarithm of softmax along `dim`, computed stably.

    Args:
        input: a tensor.
        dim: along which the probabilities add up to 1.
        dtype: `input` is cast to it first.

    Example:
        >>> lg.log_softmax(lg.tensor([0.0, 0.0]), dim=0)
        tensor([-0.6931, -0.6931])
    """
    return record(LOG_SOFTMAX, (input,), _row_attrs("log_softmax", dim, dtype))


def softmin(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """softmax of `-input` along `dim`."""
    return softmax(neg(input), dim, dtype)


# ------------------------------------------------------------------------------ normalisation

# attrs (k, has weight, has bias): the last k dims are normalised; args (eps,).


def _norm_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x = metas[0]
    need_float("layer_norm", x.dtype)
    wanted = x.shape[x.ndim - attrs[0] :]
    for meta, what in zip(metas[1:], _affine_names(attrs), strict=True):
        if meta.shape != wanted:
            raise RuntimeError(
                f"layer_norm: expected {what} to be of same shape as normalized_shape; "
                f"got {what} of shape {list(meta.shape)} and normalized_shape {list(wanted)}"
            )
        check_affine("layer_norm", what, x.dtype, meta.dtype)
    return x


def check_affine(name: str, what: str, dtype: DType, given: DType) -> None:
    """RuntimeError unless a norm's parameter has the dtype of its input, or float32 beside half."""
    if given is dtype or (given is dtypes.float32 and dtype.itemsize == 2):
        return
    raise RuntimeError(
        f"{name}: expected {what} of dtype {TYPE_NAMES[dtype.name]}, that of the input; found "
        f"{TYPE_NAMES[given.name]}"
    )


def _affine_names(attrs: Attrs) -> list[str]:
    return ["weight"] * attrs[1] + ["bias"] * attrs[2]


def _last_dims(ndim: int, k: int) -> tuple[int, ...]:
    return tuple(range(ndim - k, ndim))


def _normalised(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """`(x - mean) * rstd` and rstd."""
    mean, variance = moments(x, dims)
    rstd = rsqrt(add(variance, eps))
    return mul(sub(x, mean), rstd), rstd


def _affine(y: Tensor, attrs: Attrs, tensors: Sequence[Tensor], dtype: DType) -> Tensor:
    rest = [to_dtype(t, dtype) for t in tensors]
    if attrs[1]:
        y = mul(y, rest.pop(0))
    return add(y, rest.pop(0)) if attrs[2] else y


def _layer_norm_expand(n: Any, x: Tensor, *affine: Tensor) -> Tensor:
    dtype = compute_dtype(n)
    y, _ = _normalised(to_dtype(x, dtype), _last_dims(n.meta.ndim, n.attrs[0]), n.args[0])
    return to_dtype(_affine(y, n.attrs, affine, dtype), n.meta.dtype)


def _normalised_array(n: Any, x: Array, centre: bool) -> tuple[Array, Array]:
    axes = _last_dims(x.ndim, n.attrs[0])
    if x.size == 0:
        return x, x
    d = folds.widened(x) - folds.average(x, axes, True) if centre else folds.widened(x)
    rstd = 1 / np.sqrt(folds.average(d * d, axes, True) + x.dtype.type(n.args[0]))
    return d * rstd, rstd


def _affine_array(y: Array, attrs: Attrs, arrays: Sequence[Array]) -> Array:
    rest = list(arrays)
    if attrs[1]:
        y = y * rest.pop(0)
    return y + rest.pop(0) if attrs[2] else y


def _layer_norm_ref(n: Any, x: Array, *affine: Array) -> Array:
    return _affine_array(_normalised_array(n, x, True)[0], n.attrs, affine)


def _norm_backward_input(centre: bool) -> Any:
    """Expansion of the gradient of a norm's input: `rstd * (h - mean(h) - y * mean(h * y))`,
    where y is the normalised input and `h = g * weight`."""

    def rule(n: Any, g: Tensor, x: Tensor, *weight: Tensor) -> Tensor:
        dtype = compute_dtype(n)
        dims = _last_dims(n.meta.ndim, n.attrs[0])
        g, x = to_dtype(g, dtype), to_dtype(x, dtype)
        y, rstd = (_normalised if centre else _scaled)(x, dims, n.args[0])
        h = mul(g, to_dtype(weight[0], dtype)) if weight else g
        inner = mul(y, mean_over(mul(h, y), dims))
        if centre:
            h = sub(h, mean_over(h, dims))
        return to_dtype(mul(rstd, sub(h, inner)), n.meta.dtype)

    return rule


def _norm_backward_weight(centre: bool) -> Any:
    """Expansion of the gradient of a norm's weight: `sum(g * y)` over the leading dims."""

    def rule(n: Any, g: Tensor, x: Tensor) -> Tensor:
        dtype = compute_dtype(n)
        shape = node_of(x).meta.shape
        dims = _last_dims(len(shape), n.attrs[0])
        y, _ = (_normalised if centre else _scaled)(to_dtype(x, dtype), dims, n.args[0])
        product = mul(to_dtype(g, dtype), y)
        lead = tuple(range(len(shape) - n.attrs[0]))
        return to_dtype(rd.sum(product, lead, False) if lead else product, n.meta.dtype)

    return rule


def _weight_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x = metas[1]
    return meta_of(x.shape[x.ndim - attrs[0] :], x.dtype)


def _norm_samples(function: Any) -> s.SampleRule:
    def weight(*shape: int) -> Array:
        return s.uniform(*shape, low=0.5, high=1.5, seed=1)

    return s.calls(
        lambda: s.Sample((s.uniform(3, 37), weight(37)), lambda x, w: function(x, (37,), w)),
        lambda: s.Sample((s.uniform(2, 3, 4), weight(3, 4)), lambda x, w: function(x, (3, 4), w)),
        lambda: s.Sample((s.uniform(4, 5),), lambda x: function(x, (5,))),
        lambda: s.Sample((s.uniform(6), weight(6)), lambda x, w: function(x, (6,), w)),
        lambda: s.Sample((s.uniform(0, 5), weight(5)), lambda x, w: function(x, (5,), w)),
    )


def _norm_backward_samples(op_of: Any, weighted: bool = False) -> s.SampleRule:
    def sample(*shape: int) -> s.Sample:
        weight = (s.uniform(7, low=0.5, high=1.5, seed=2),) if weighted else ()
        inputs = (s.uniform(*shape, seed=1), s.uniform(*shape), *weight)
        attrs = (1, weighted, False)
        return s.Sample(inputs, lambda *t: record(op_of(), t, attrs, (1e-2,)))

    return s.calls(lambda: sample(3, 7), lambda: sample(2, 3, 7), lambda: sample(7))


LAYER_NORM_BACKWARD_INPUT: Op = Op(
    "layer_norm_backward_input",
    "composite",
    # inputs (g, x[, weight])
    infer=lambda metas, attrs, shape: metas[1],
    expand=_norm_backward_input(centre=True),
    saves="x",
    samples=_norm_backward_samples(lambda: LAYER_NORM_BACKWARD_INPUT, weighted=True),
)
LAYER_NORM_BACKWARD_WEIGHT: Op = Op(
    "layer_norm_backward_weight",
    "composite",
    # inputs (g, x)
    infer=_weight_infer,
    expand=_norm_backward_weight(centre=True),
    saves="x",
    samples=_norm_backward_samples(lambda: LAYER_NORM_BACKWARD_WEIGHT),
)


def _norm_input_grad(op: Op) -> Any:
    def rule(g: Tensor, y: Tensor, x: Tensor, *affine: Tensor) -> Tensor:
        k, has_weight, _ = y._node.attrs
        inputs = (g, x, affine[0]) if has_weight else (g, x)
        return record(op, inputs, (k, has_weight, False), y._node.args)

    return rule


def _norm_weight_grad(op: Op) -> Any:
    def rule(g: Tensor, y: Tensor, x: Tensor, *affine: Tensor) -> Tensor:
        k, has_weight, _ = y._node.attrs
        if not has_weight:
            return g  # the operand is the bias
        return record(op, (g, x), (k, False, False), y._node.args)

    return rule


LAYER_NORM = Op(
    "layer_norm",
    "composite",
    infer=_norm_infer,
    ref=_layer_norm_ref,
    expand=_layer_norm_expand,
    grads=(
        _norm_input_grad(LAYER_NORM_BACKWARD_INPUT),
        _norm_weight_grad(LAYER_NORM_BACKWARD_WEIGHT),
        lambda g, y, *operands: g,  # backward sums over the leading dims by itself
    ),
    saves="x",
    linked=3,
    batch=batched.as_it_is,
    grad_fn=parts.with_parameters("NativeLayerNorm"),
    samples=_norm_samples(
        lambda x, shape, w=None: layer_norm(x, shape, w, None if w is None else w * 2, 1e-2)
    ),
)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`(input - mean) / sqrt(variance + eps) * weight + bias` over the last dims.

    Args:
        input: a tensor.
        normalized_shape: the sizes of the last dims, over which means are taken.
        weight: of that shape, or None.
        bias: of that shape, or None.
        eps: added to the variance.

    Example:
        >>> F.layer_norm(lg.tensor([[1.0, 2.0, 3.0]]), (3,))
        tensor([[-1.2247,  0.0000,  1.2247]])
    """
    k = _check_normalized("layer_norm", input, normalized_shape)
    if weight is not None and bias is not None:
        return record(LAYER_NORM, (input, weight, bias), (k, True, True), (eps,))
    inputs = [t for t in (input, weight, bias) if t is not None]
    return record(LAYER_NORM, inputs, (k, weight is not None, bias is not None), (eps,))


def _check_normalized(name: str, input: Tensor, normalized_shape: Sequence[int]) -> int:
    wanted = normalized_shape
    if type(wanted) is not tuple:
        wanted = as_items(wanted)
    shape = node_of(input).meta.shape
    k = len(wanted)
    if k == 0 or shape[-k:] != wanted:
        raise RuntimeError(
            f"{name}: given normalized_shape={list(wanted)}, expected input with shape "
            f"[*{''.join(f', {size}' for size in wanted)}], but got input of size {list(shape)}"
        )
    return k


def _scaled(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """`x * r` and r, the reciprocal of the root mean square."""
    r = rsqrt(add(mean_over(mul(x, x), dims), eps))
    return mul(x, r), r


def _rms_norm_expand(n: Any, x: Tensor, *weight: Tensor) -> Tensor:
    dtype = compute_dtype(n)
    y, _ = _scaled(to_dtype(x, dtype), _last_dims(n.meta.ndim, n.attrs[0]), n.args[0])
    return to_dtype(_affine(y, n.attrs, weight, dtype), n.meta.dtype)


def _rms_norm_ref(n: Any, x: Array, *weight: Array) -> Array:
    return _affine_array(_normalised_array(n, x, False)[0], n.attrs, weight)


RMS_NORM_BACKWARD_INPUT: Op = Op(
    "rms_norm_backward_input",
    "composite",
    # inputs (g, x[, weight])
    infer=lambda metas, attrs, shape: metas[1],
    expand=_norm_backward_input(centre=False),
    saves="x",
    samples=_norm_backward_samples(lambda: RMS_NORM_BACKWARD_INPUT, weighted=True),
)
RMS_NORM_BACKWARD_WEIGHT: Op = Op(
    "rms_norm_backward_weight",
    "composite",
    # inputs (g, x)
    infer=_weight_infer,
    expand=_norm_backward_weight(centre=False),
    saves="x",
    samples=_norm_backward_samples(lambda: RMS_NORM_BACKWARD_WEIGHT),
)


def _rms_norm_layout(metas: Metas, attrs: Attrs, meta: Meta) -> Strides:
    """That of the input times what scales it, and then the weight; in the input's format."""
    kept = meta.shape[: meta.ndim - attrs[0]] + (1,) * attrs[0]
    result = metas[0].stride()
    for shape, strides in ((kept, contiguous_strides(kept)), *_laid(metas[1:])):
        result = elementwise_strides(meta.shape, [(meta.shape, result), (shape, strides)])
    if prefers_channels_last(meta.shape, metas[0].stride()):
        lies = is_channels_last(meta.shape, result)
        return result if lies else channels_last_strides(meta.shape)
    return result if is_contiguous(meta.shape, result) else contiguous_strides(meta.shape)


def _laid(metas: Metas) -> list[tuple[Shape, Strides]]:
    return [(meta.shape, meta.stride()) for meta in metas]


RMS_NORM = Op(
    "rms_norm",
    "composite",
    infer=_norm_infer,
    layout=_rms_norm_layout,
    ref=_rms_norm_ref,
    expand=_rms_norm_expand,
    grads=(_norm_input_grad(RMS_NORM_BACKWARD_INPUT), _norm_weight_grad(RMS_NORM_BACKWARD_WEIGHT)),
    saves="x",
    batch=batched.as_it_is,
    grad_fn="MulBackward0",
    samples=_norm_samples(lambda x, shape, w=None: rms_norm(x, shape, w, 1e-2)),
)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """`input / sqrt(mean(input²) + eps) * weight` over the last dims."""
    k = _check_normalized("rms_norm", input, normalized_shape)
    dtype = node_of(input).meta.dtype
    if eps is None:
        # That of the dtype it is computed in: float32 for half precisions.
        eps = dtypes.finfo(dtypes.promote_types(dtype.to_real(), dtypes.float32)).eps
    if dtype.is_complex:  # the square, not the square of the magnitude, as in PyTorch
        y, _ = _scaled(input, _last_dims(node_of(input).meta.ndim, k), eps)
        return y if weight is None else mul(y, weight)
    if weight is None:
        return record(RMS_NORM, (input,), (k, False, False), (eps,))
    return record(RMS_NORM, (input, weight), (k, True, False), (eps,))


# --------------------------------------------------------------------------------- similarity


def _similarity_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    full = broadcast_shapes("cosine_similarity", [m.shape for m in metas])
    dtype = dtypes.promote_types(metas[0].dtype, metas[1].dtype)
    need_float("cosine_similarity", dtype)
    dim = normal_dim("cosine_similarity", attrs[0], len(full))
    return meta_of(full[:dim] + full[dim + 1 :], dtype)


def _length(x: Tensor, dim: int) -> Tensor:
    return norm(x, 2.0, dim, True)


def _similarity_expand(n: Any, x1: Tensor, x2: Tensor) -> Tensor:
    dtype, dim, eps = compute_dtype(n), n.attrs[0], n.args[0]
    x1, x2 = to_dtype(x1, dtype), to_dtype(x2, dtype)
    full = broadcast_shapes("cosine_similarity", [node_of(x).meta.shape for x in (x1, x2)])
    x1, x2 = broadcast_over(x1, full), broadcast_over(x2, full)
    a = div(x1, _at_least(_length(x1, dim), eps))
    b = div(x2, _at_least(_length(x2, dim), eps))
    return to_dtype(rd.sum(mul(a, b), dim, False), n.meta.dtype)


def broadcast_over(x: Tensor, shape: Shape) -> Tensor:
    """`x` expanded to `shape`, if it has another."""
    return x if node_of(x).meta.shape == shape else expand(x, shape)


def _at_least(x: Tensor, low: float) -> Tensor:
    """`max(x, low)`; NaN stays."""
    return where(lt(x, low), low, x)


COSINE_SIMILARITY = Op(
    "cosine_similarity",
    "composite",
    # attrs (dim,), args (eps,); differentiated through the expansion.
    infer=_similarity_infer,
    expand=_similarity_expand,
    saves="x",
    grad_fn="SumBackward1",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 5), s.uniform(3, 5, seed=1)), lambda a, b: cosine_similarity(a, b)
        ),
        lambda: s.Sample(
            (s.uniform(2, 3, 4), s.uniform(3, 1, seed=1)), lambda a, b: cosine_similarity(a, b, -2)
        ),
    ),
)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between `x1` and `x2` along `dim`; lengths count as at least `eps`.

    Args:
        x1: a tensor.
        x2: one that broadcasts with it.
        dim: along which vectors lie.
        eps: the least length to divide by.

    Example:
        >>> F.cosine_similarity(lg.tensor([[1.0, 0.0]]), lg.tensor([[1.0, 1.0]]))
        tensor([0.7071])
    """
    return record(COSINE_SIMILARITY, (x1, x2), (as_index(dim),), (as_float(eps),))


def _normalize_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    (x,) = metas
    need_float("normalize", x.dtype.to_real())
    rd.normal_dims("normalize", attrs[1], x.ndim)
    return x


def _normalize_expand(n: Any, x: Tensor) -> Tensor:
    x = to_dtype(x, compute_dtype(n))
    p, dim = n.attrs
    return to_dtype(div(x, _at_least(norm(x, p, dim, True), n.args[0])), n.meta.dtype)


def _normalize_layout(metas: Metas, attrs: Attrs, meta: Meta) -> Strides:
    """That of a quotient by the norms, as they are when expanded."""
    dims = range(meta.ndim) if attrs[1] is None else attrs[1]
    over = [d % max(meta.ndim, 1) for d in dims]
    kept = tuple([1 if d in over else size for d, size in enumerate(meta.shape)])
    norms = broadcast_strides(kept, contiguous_strides(kept), meta.shape)
    return elementwise_strides(meta.shape, [(meta.shape, metas[0].stride()), (meta.shape, norms)])


NORMALIZE = Op(
    "normalize",
    "composite",
    # attrs (p, dim), args (eps,); differentiated through the expansion.
    infer=_normalize_infer,
    expand=_normalize_expand,
    layout=_normalize_layout,
    saves="x",
    grad_fn="DivBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5),), lambda x: normalize(x)),
        lambda: s.Sample((s.uniform(3, 5),), lambda x: normalize(x, 1.0, 0)),
    ),
)


@casting
def normalize(
    input: Tensor, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12
) -> Tensor:
    """`input` divided by its p-norm along `dim`, or by `eps` where the norm is less.

    Args:
        input: a tensor.
        p: which norm.
        dim: along which it is 1 afterwards.
        eps: what is divided by at least.

    Example:
        >>> F.normalize(lg.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    dims = None if dim is None else one_or_several(dim)
    return record(NORMALIZE, (input,), (as_float(p), dims), (as_float(eps),))
