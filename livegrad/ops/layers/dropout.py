"""Dropout of whole channels, dropout that keeps mean and variance, and other random activations.

As with plain dropout (`random.py`) the gradient draws the same numbers again: no mask is kept.
"""

from __future__ import annotations

import warnings
from math import prod
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.blame import as_float, check_number
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.op import Op, as_scaled
from livegrad.graph.record import record
from livegrad.graph.views import row_major
from livegrad.graph.writes import prepare_write, rebind
from livegrad.ops.bookkeeping.in_place import also_of
from livegrad.ops.elementwise.arithmetic import add, div, mul, neg, sub, where
from livegrad.ops.elementwise.comparison import ge, gt
from livegrad.ops.elementwise.pointwise_math import log
from livegrad.ops.layers.activation import leaky_relu
from livegrad.ops.layers.composite import Attrs, Metas, softmax, to_dtype
from livegrad.ops.making.generate import zeros_like
from livegrad.ops.making.random import RAND, dropout, uniform
from livegrad.ops.reductions.reduce import max as largest
from livegrad.ops.support import samples as s
from livegrad.random import Generator, default_generator

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# The value that dropped elements take in alpha dropout: the limit of selu on the left.
_ALPHA = 1.7580993408473766


def _draw_shape(shape: Shape, channels: bool) -> Shape:
    """One number per element, or per channel (dims 0 and 1)."""
    return (*shape[:2], *(1,) * (len(shape) - 2)) if channels else shape


def _drawn(n: Any) -> Tensor:
    """Numbers in [0, 1) for the result of a node whose args end with (seed, offset)."""
    shape = _draw_shape(n.meta.shape, n.attrs[0])
    return record(RAND, (), (dtypes.float32,), n.args[-2:], shape)


def _floating(name: str) -> Any:
    def infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
        x = metas[-1]
        if x.dtype.category != dtypes.FLOAT:
            raise RuntimeError(
                f"{name}: result type Float can't be cast to the input's type; got "
                f"{x.dtype.name}; expected a floating-point tensor"
            )
        return x

    return infer


def _dropped_expand(n: Any, x: Tensor) -> Tensor:
    p, scale, shift, otherwise = n.args[:4]
    kept = add(mul(x, scale), shift) if n.attrs[1] else mul(x, scale)
    return where(ge(_drawn(n), p), kept, otherwise if n.attrs[1] else 0)


def _dropped_rule(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    return record(DROP, (g,), (y._node.attrs[0], False), y._node.args)


DROP: Op = Op(
    "feature_dropout",
    "composite",
    # x * scale (+ shift), else with probability p 0 (or a number): attrs (whether by channel,
    # whether alpha dropout), args (p, scale, shift, number, seed, offset).
    infer=_floating("feature_dropout"),
    expand=_dropped_expand,
    layout=as_scaled,
    grads=(_dropped_rule,),
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4, 5),), lambda x: _drop(x, 0.5, True, False, Generator(1))),
        lambda: s.Sample((s.uniform(3, 37),), lambda x: _drop(x, 0.2, False, True, Generator(2))),
        lambda: s.Sample((s.uniform(2, 5, 2),), lambda x: _drop(x, 0.4, True, True, Generator(3))),
        lambda: s.Sample((s.uniform(0, 5, 2),), lambda x: _drop(x, 0.4, True, True, Generator(4))),
    ),
)


def _drop(x: Tensor, p: float, channels: bool, alpha: bool, generator: Generator) -> Tensor:
    count = prod(_draw_shape(node_of(x).meta.shape, channels))
    if alpha:
        scale = ((_ALPHA**2 * p + 1) * (1 - p)) ** -0.5
        numbers = (as_float(p), scale, _ALPHA * scale * p, _ALPHA * scale * (p - 1))
    else:
        numbers = (as_float(p), 1 / (1 - p), 0.0, 0.0)
    return record(DROP, (x,), (channels, alpha), (*numbers, *generator.draw(count)))


def _dropout(
    x: Tensor, p: float, training: bool, inplace: bool, channels: bool, alpha: bool
) -> Tensor:
    check_number(p)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    meta = node_of(x).meta
    if not training or p == 0 or meta.numel == 0:
        return x
    if channels and meta.ndim < 2:
        raise RuntimeError(
            f"Feature dropout requires at least 2 dimensions in the input; got {list(meta.shape)}"
        )
    if inplace:
        prepare_write(x, expanded=False)
    value = mul(x, 0) if p == 1 else _drop(x, p, channels, alpha, default_generator)
    return rebind(x, value) if inplace else value


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of (N, C, L) or (C, L) with probability `p`, scales the others."""
    return _by_channel("dropout1d", input, p, training, inplace, 3, strict=True)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of (N, C, H, W) with probability `p`, scales the others.

    A 3-d input is taken for (N, C, L), as in PyTorch, which warns of it.
    """
    rank = node_of(input).meta.ndim
    if rank not in (3, 4):
        _warn_rank("dropout2d", rank)
    if rank == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D "
            "dropout behavior is desired - input is interpreted as shape (N, C, L), where C is "
            "the channel dim. Use dropout1d instead.",
            stacklevel=2,
        )
    return _dropout(input, p, training, inplace, True, False)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W) with probability `p`."""
    return _by_channel("dropout3d", input, p, training, inplace, 5, strict=False)


def _warn_rank(name: str, rank: int) -> None:
    warnings.warn(
        f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. Please use dropout instead.",
        stacklevel=3,
    )


def _by_channel(
    name: str, x: Tensor, p: float, training: bool, inplace: bool, rank: int, strict: bool
) -> Tensor:
    """Dropout of channels for inputs that may come without a batch dim."""
    check_number(p)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    ndim = node_of(x).meta.ndim
    if ndim not in (rank - 1, rank):
        if strict:
            raise RuntimeError(
                f"{name}: Expected {rank - 1}D or {rank}D input, but received a {ndim}D input"
            )
        _warn_rank(name, ndim)
    if ndim == rank:
        return _dropout(x, p, training, inplace, True, False)
    if inplace:
        prepare_write(x, expanded=False)
    value = _dropout(x.unsqueeze(0), p, training, False, True, False).squeeze(0)
    return rebind(x, value) if inplace else value


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean 0 and variance 1, for selu: dropped elements get its lower limit."""
    return _dropout(input, p, training, inplace, False, True)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels (dims 0 and 1)."""
    return _dropout(input, p, training, inplace, True, True)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout and its mask, True where an element was kept."""
    meta = node_of(input).meta
    check_number(p)
    if train is False or p == 0:
        return input.clone(), gt(uniform(meta.shape, dtypes.float32), -1.0)
    mask = ge(uniform(meta.shape, dtypes.float32), as_float(p))
    return native_dropout_backward(input, mask, 1 / (1 - p) if p < 1 else 0.0), mask


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """`grad_output` where `mask`, times `scale`."""
    return mul(mul(grad_output, mask), as_float(scale))


# --------------------------------------------------------------------------------------- rrelu


def _slopes(n: Any, x: Tensor) -> Tensor:
    lower, width = n.args[:2]
    draw = to_dtype(_drawn(n), node_of(x).meta.dtype)
    return where(gt(x, 0), 1, add(mul(draw, width), lower))


RRELU_BACKWARD: Op = Op(
    "rrelu_backward",
    "composite",
    # inputs (g, x), attrs and args as RRELU's.
    infer=_floating("rrelu"),
    expand=lambda n, g, x: mul(g, _slopes(n, x)),
    grads=(lambda g, y, *x: record(RRELU_BACKWARD, (g, x[1]), y._node.attrs, y._node.args), None),
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 5), s.uniform(3, 5, seed=1)),
            lambda g, x: record(RRELU_BACKWARD, (g, x), (False,), (0.1, 0.2, 7, 0)),
        )
    ),
)


def _rrelu_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    return also_of(x, record(RRELU_BACKWARD, (g, x), y._node.attrs, y._node.args))


RRELU: Op = Op(
    "rrelu",
    "composite",
    # x where positive, else x times a random slope: attrs (False,), args (lower, width, seed,
    # offset).
    infer=_floating("rrelu"),
    expand=lambda n, x: mul(x, _slopes(n, x)),
    grads=(_rrelu_gradient,),
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 5),), lambda x: record(RRELU, (x,), (False,), (0.1, 0.2, 7, 0))
        )
    ),
)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu whose slope is drawn per element while training, else the mean slope."""
    check_number(lower, upper)
    if lower > upper:
        raise RuntimeError(
            "rrelu: Lower bound should be less than or equal to the upper bound; got "
            f"{lower} and {upper}"
        )
    if inplace:
        prepare_write(input, expanded=False)
    if training:
        drawn = default_generator.draw(node_of(input).meta.numel)
        args = (float(lower), float(upper - lower), *drawn)
        value = record(RRELU, (input,), (False,), args)
    else:
        value = row_major(leaky_relu(input, (lower + upper) / 2))
    return rebind(input, value) if inplace else value


# ------------------------------------------------------------------------------ gumbel_softmax


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the Gumbel-softmax distribution: categories drawn in a differentiable way.

    Args:
        tau: the temperature: the smaller, the closer to one category.
        hard: give exactly one category, with the gradient of the soft sample.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    meta = node_of(logits).meta
    # 1 - u is never 0; where it is 1 the waiting time is made a little more than 0.
    wait = neg(log(sub(1, uniform(meta.shape, meta.dtype.compute))))
    wait = where(gt(wait, 0), wait, dtypes.finfo(meta.dtype.compute).tiny)
    noise = to_dtype(neg(log(wait)), meta.dtype)
    soft = softmax(div(add(logits, noise), tau), dim)
    if not hard:
        return soft
    index = largest(soft, dim, True).indices
    chosen = zeros_like(soft).scatter(dim, index, 1.0)
    return add(sub(chosen, soft.detach()), soft)


__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "gumbel_softmax",
    "native_dropout",
    "native_dropout_backward",
    "rrelu",
]
