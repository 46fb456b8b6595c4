"""Samples of given probabilities, rates and shapes: multinomial, Poisson, binomial, gamma.

Most need a varying number of random words per element, and run on the host.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record, unary
from livegrad.ops.elementwise.arithmetic import (
    cast,
    div,
    mul,
    neg,
    where,
    zero_gradient,
)
from livegrad.ops.elementwise.comparison import clamp
from livegrad.ops.elementwise.pointwise_math import log
from livegrad.ops.making.philox import philox, unit64
from livegrad.ops.making.random import RAND, float_dtype
from livegrad.ops.picking.checking import CHECK_WEIGHT, CHECK_WEIGHTS, WRONG_WEIGHTS
from livegrad.ops.reductions.reduce import argmin, sum as sum_of
from livegrad.ops.shaping.movement import whole
from livegrad.ops.special.special_math import special
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import exact
from livegrad.random import Generator, default_generator

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


def _numbers_of(n: Any, stream: int) -> np.random.Generator:
    """NumPy's generator for a draw: its own stream for every (seed, offset) and kind of draw."""
    seed, offset = n.args
    key = [seed & 0xFFFFFFFFFFFFFFFF, stream]
    return np.random.Generator(np.random.Philox(key=key, counter=[0, offset, 0, 0]))


def _source(generator: Generator | None) -> Generator:
    return default_generator if generator is None else generator


# -------------------------------------------------------------------------------- multinomial


def _multinomial_ref(n: Any, weights: Array) -> Array:
    (replacement,) = n.attrs
    seed, offset = n.args
    rows = weights.reshape(-1, weights.shape[-1]).astype(np.float64)
    share = np.cumsum(rows, 1)
    total = share[:, -1:]
    # Of a NaN no minimum is at least 0; what is infinite makes the last sum so.
    valid = not rows.size or (rows.min() >= 0 and total.min() > 0 and np.isfinite(total.max()))
    if not valid:
        raise RuntimeError(WRONG_WEIGHTS)
    count = n.meta.shape[-1]
    if not replacement:
        if ((rows > 0).sum(1) < count).any():
            raise RuntimeError(
                "multinomial: fewer categories have positive probability than samples are wanted "
                "without replacement"
            )
        words = philox(seed, np.arange(rows.size).reshape(rows.shape) + offset)
        # The smallest of exponential numbers with these rates, then the next, …
        waits = -np.log(1.0 - unit64(words[0], words[1]))
        order = np.argsort(np.where(rows > 0, waits / np.where(rows > 0, rows, 1), np.inf), 1)
        return order[:, :count].reshape(n.meta.shape)
    words = philox(seed, np.arange(rows.shape[0] * count).reshape(-1, count) + offset)
    draws = unit64(words[0], words[1]) * total
    if len(rows) == 1:
        found: Array = np.searchsorted(share[0], draws[0], side="right")
        return found.reshape(n.meta.shape)
    picked = [np.searchsorted(c, d, side="right") for c, d in zip(share, draws, strict=True)]
    return np.stack(picked).reshape(n.meta.shape) if picked else np.zeros(n.meta.shape, np.int64)


MULTINOMIAL = Op(
    "multinomial",
    "host",
    # Categories drawn with the weights of each row: attrs (replacement,), args (seed, offset).
    infer=lambda metas, attrs, shape: meta_of(shape, dtypes.int64),
    ref=_multinomial_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 5, low=0.1),),
            lambda x: multinomial(x, 2, generator=Generator(1)),
            smooth=False,
        ),
        lambda: s.Sample(
            (s.uniform(5, low=0.1),),
            lambda x: multinomial(x, 9, True, generator=Generator(1)),
            smooth=False,
        ),
    ),
)


def _drawn_expand(n: Any, weights: Tensor) -> Tensor:
    """The first of exponential numbers with these rates."""
    wide = unary(CHECK_WEIGHT, cast(weights, dtypes.float64))
    rates = div(wide, unary(CHECK_WEIGHTS, sum_of(wide, -1, True)))
    unit = record(RAND, (), (dtypes.float64,), n.args, weights.shape)
    waits = div(neg(log(1.0 - unit)), rates)
    return argmin(where(rates > 0, waits, math.inf), -1, True)


DRAWN = Op(
    "drawn",
    "composite",
    # One category drawn with the weights of each row: args (seed, offset).
    infer=lambda metas, attrs, shape: meta_of(shape, dtypes.int64),
    expand=_drawn_expand,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 5, low=0.1),),
            lambda x: multinomial(x, 1, generator=Generator(1)),
            smooth=False,
        ),
        lambda: s.Sample(
            (s.uniform(40, low=0.1),),
            lambda x: multinomial(x, 1, True, generator=Generator(2)),
            smooth=False,
        ),
    ),
)


@exact
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Numbers of categories drawn with the probabilities (or weights) in each row.

    Args:
        input: weights (categories,) or (rows, categories), none below 0; they need not add up to 1.
        num_samples: how many are drawn from each row.
        replacement: whether a category may come again.
        generator: what draws; livegrad's default one if None.

    Example:
        >>> lg.multinomial(lg.tensor([0.0, 1.0, 0.0]), 1)
        tensor([1])
    """
    meta = node_of(input).meta
    if meta.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: prob_dist must be 1 or 2 dim; got {meta.ndim}")
    float_dtype("multinomial", meta.dtype)
    num_samples = whole("multinomial", "num_samples", num_samples)
    if not meta.shape[-1]:
        raise RuntimeError(f"multinomial: there are no categories; got shape {list(meta.shape)}")
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples; got {num_samples}")
    if not replacement and num_samples > meta.shape[-1]:
        raise RuntimeError(
            "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement; "
            f"got {num_samples} and {meta.shape[-1]}"
        )
    shape = (*meta.shape[:-1], num_samples)
    if num_samples == 1 and meta.shape[-1] > 1:  # of one category, nobody would look at weights
        return record(DRAWN, (input,), (), _source(generator).draw(meta.numel), shape)
    rows = meta.numel // meta.shape[-1] if meta.numel else 0
    drawn = rows * (num_samples if replacement else meta.shape[-1])
    attrs = (bool(replacement),)
    return record(MULTINOMIAL, (input,), attrs, _source(generator).draw(drawn), shape)


# ------------------------------------------------------------------------------------- counts


def _poisson_ref(n: Any, rate: Array) -> Array:
    if (rate < 0).any():
        raise RuntimeError("poisson: invalid Poisson rate, expected rate to be non-negative")
    return np.asarray(_numbers_of(n, 1).poisson(rate.astype(np.float64)))


POISSON = Op(
    "poisson",
    "host",
    # args (seed, offset)
    infer=lambda metas, attrs, shape: metas[0],
    ref=_poisson_ref,
    grads=(zero_gradient,),
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4, low=0.1, high=9.0),),
            lambda x: poisson(x, Generator(1)),
            smooth=False,
        ),
        lambda: s.Sample((s.uniform(0),), lambda x: poisson(x, Generator(1)), smooth=False),
    ),
)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts of the Poisson distribution with the rate that each element gives."""
    meta = node_of(input).meta
    float_dtype("poisson", meta.dtype)
    return record(POISSON, (input,), (), _source(generator).draw(meta.numel))


def _binomial_infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    count, chance = metas
    if count.dtype is not chance.dtype:
        raise RuntimeError(
            "binomial: Expected all inputs to have same dtype; got "
            f"{count.dtype.name} and {chance.dtype.name}"
        )
    float_dtype("binomial", count.dtype)
    return meta_of(broadcast_shapes("binomial", [count.shape, chance.shape]), count.dtype)


def _binomial_ref(n: Any, count: Array, chance: Array) -> Array:
    if (count < 0).any() or not ((chance >= 0) & (chance <= 1)).all():
        raise RuntimeError(
            "binomial: expected counts that are not negative and probabilities in [0, 1]"
        )
    trials = np.broadcast_to(count, n.meta.shape).astype(np.int64)
    return np.asarray(_numbers_of(n, 2).binomial(trials, chance.astype(np.float64)))


BINOMIAL = Op(
    "binomial",
    "host",
    # inputs (number of trials, probability), args (seed, offset)
    infer=_binomial_infer,
    ref=_binomial_ref,
    grads=(zero_gradient, zero_gradient),
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.integers(3, 1) + 0.0, s.uniform(4, low=0.1, high=0.9)),
            lambda n, p: binomial(n, p, Generator(1)),
            smooth=False,
        ),
    ),
)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with probability `prob`."""
    shape = broadcast_shapes("binomial", [node_of(x).meta.shape for x in (count, prob)])
    return record(BINOMIAL, (count, prob), (), _source(generator).draw(int(np.prod(shape))))


# -------------------------------------------------------------------------------------- gamma


def _gamma_ref(n: Any, alpha: Array) -> Array:
    drawn = _numbers_of(n, 3).standard_gamma(alpha.astype(np.float64))
    # Small shapes give numbers too small for any float; their logarithms should exist.
    return np.maximum(drawn, dtypes.finfo(n.meta.dtype).tiny)


STANDARD_GAMMA = Op(
    "standard_gamma",
    "host",
    # args (seed, offset)
    infer=lambda metas, attrs, shape: metas[0],
    ref=_gamma_ref,
    grads=(lambda g, y, alpha: mul(g, record(GAMMA_SLOPE, (alpha, y))),),
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4, low=0.3, high=4.0),),
            lambda a: standard_gamma(a, Generator(1)),
            smooth=False,
        ),
        lambda: s.Sample((s.uniform(0),), lambda a: standard_gamma(a, Generator(1)), smooth=False),
    ),
)


def gamma_slope(alpha: Array, x: Array) -> Array:
    """How a gamma sample moves with its shape while its quantile stays: dx/da at constant P(a, x).

    By the implicit function theorem that is -(dP/da) / (dP/dx). With u = x * exp(-w) below x, or
    u = x * exp(w) above it, dP/da becomes the integral over w > 0 of a smooth function that decays
    from w = 0 on; of the two sides the one away from the mode is taken.
    """
    a, x = np.broadcast_arrays(alpha.astype(np.float64), x.astype(np.float64))
    nodes, weights = _half_line()
    # The width of the function: it decays exponentially, or like a bell curve next to the mode.
    larger = np.maximum(x, a)
    scale = 1 / (np.abs(x - a) + np.minimum(np.sqrt(larger), larger))
    w = scale[..., None] * nodes
    below = (x < a)[..., None]
    size = np.where(below, -w, w)
    decay = a[..., None] * size - x[..., None] * np.expm1(size)
    height = (np.log(x) - special("digamma", a))[..., None] + size
    area = np.sum(weights * height * np.exp(decay), -1) * scale
    slope = x * area
    return np.asarray(np.where(x < a, -slope, slope))


def _half_line() -> tuple[Array, Array]:
    """Nodes and weights of the double-exponential rule for the integral from 0 to infinity."""
    step = 1 / 16
    t = np.arange(-4.0, 5.0, step)
    nodes = np.exp(t - np.exp(-t))
    return nodes, step * nodes * (1 + np.exp(-t))


GAMMA_SLOPE: Op = Op(
    "gamma_slope",
    "host",
    # inputs (alpha, sample): the derivative of the sample by alpha.
    infer=lambda metas, attrs, shape: metas[1],
    ref=lambda n, alpha, x: gamma_slope(alpha, x),
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4, low=0.3, high=4.0), s.uniform(3, 4, low=0.1, high=5.0, seed=1)),
            lambda a, x: record(GAMMA_SLOPE, (a, x)),
            smooth=False,
        ),
    ),
)


def standard_gamma(alpha: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of the gamma distribution with shape `alpha` and rate 1, differentiable by `alpha`.

    The gradient is the one of implicit reparameterisation: a sample moves so that its quantile
    stays. Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018).
    """
    meta = node_of(alpha).meta
    float_dtype("standard_gamma", meta.dtype)
    return record(STANDARD_GAMMA, (alpha,), (), _source(generator).draw(meta.numel))


def dirichlet(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of the Dirichlet distribution along the last dim, differentiable."""
    dtype = float_dtype("dirichlet", node_of(concentration).meta.dtype)
    # In float64, for gamma samples of small shapes are too small for less.
    parts = standard_gamma(cast(concentration, dtypes.float64), generator)
    shares = cast(div(parts, sum_of(parts, -1, True)), dtype)
    limits = dtypes.finfo(dtype)
    return clamp(shares, limits.tiny, 1.0)


# ------------------------------------------------------------------------------------- angles

VON_MISES = Op(
    "von_mises",
    "host",
    # args (seed, offset)
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, kappa: _numbers_of(n, 4).vonmises(0.0, kappa.astype(np.float64)),
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4, low=0.3, high=4.0),),
            lambda x: von_mises(x, Generator(1)),
            smooth=False,
        ),
    ),
)


def von_mises(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Angles around 0 of von Mises' distribution."""
    meta = node_of(concentration).meta
    float_dtype("von_mises", meta.dtype)
    return record(VON_MISES, (concentration,), (), _source(generator).draw(meta.numel))
