"""The gamma function's relatives: its logarithm, that one's derivatives, incomplete gamma, zeta."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.handle import node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op, as_iterated
from livegrad.graph.record import record, unary
from livegrad.ops.elementwise.arithmetic import add, cast, define, mul, neg, sub
from livegrad.ops.elementwise.host_functions import apply, define_on_host, need_tensors
from livegrad.ops.elementwise.pointwise_math import exp
from livegrad.ops.making.generate import steps
from livegrad.ops.reductions.reduce import sum as sum_of
from livegrad.ops.shaping.movement import unsqueeze
from livegrad.ops.special.special_math import special, xlogy
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.out import casting, plain

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


# ----------------------------------------------------------------------- logarithm, derivatives


def _digamma(x: Array) -> Array:
    # SciPy gives NaN at 0 as well, and is less precise just below integers.
    result = special("digamma", x)
    return np.where(x == 0, np.copysign(np.inf, -x), result).astype(x.dtype)


LGAMMA = define(
    "lgamma",
    ref=lambda x: np.where(x == -np.inf, np.inf, special("gammaln", x)),
    emit=lambda e, x: e.lgamma(x),
    grads=(lambda g, y, x: mul(g, digamma(x)),),
    result="float",
    saves="x",
    samples=s.unary(0.2, 6.0),
)
DIGAMMA = define(
    "digamma",
    ref=_digamma,
    emit=lambda e, x: e.digamma(x),
    grads=(lambda g, y, x: mul(g, unary(TRIGAMMA, x)),),
    result="float",
    saves="x",
    samples=s.unary(0.2, 6.0),
)
TRIGAMMA: Op = define(
    "trigamma",
    ref=lambda x: special("polygamma", 1, x).astype(x.dtype),
    emit=lambda e, x: e.trigamma(x),
    grads=(lambda g, y, x: mul(g, polygamma(2, x)),),
    result="float",
    saves="x",
    grad_fn="PolygammaBackward0",
    samples=s.unary(0.2, 6.0),
)


@casting
@plain
def lgamma(input: Tensor) -> Tensor:
    """Elementwise `log |gamma(input)|`; infinite at 0, -1, -2, …

    float32 within 0.51 ULP, float64 as the C library.
    """
    return unary(LGAMMA, input)


@casting
@plain
def digamma(input: Tensor) -> Tensor:
    """Elementwise derivative of lgamma; infinite at 0, NaN at -1, -2, …

    float32 within 0.51 ULP, float64 within 8 ULP where `input` is positive.
    """
    return unary(DIGAMMA, input)


def _float_infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    (x,) = metas
    if x.dtype.is_complex:
        raise not_implemented("polygamma", x.dtype)
    floating = x.dtype if x.dtype.is_floating_point else dtypes.get_default_dtype()
    return meta_of(x.shape, floating)


POLYGAMMA: Op = Op(
    "polygamma",
    "host",
    # attrs (order,), from 2 on.
    infer=_float_infer,
    ref=lambda n, x: special("polygamma", n.attrs[0], x),
    layout=as_iterated,
    grads=(lambda g, y, x: mul(g, polygamma(y._node.attrs[0] + 1, x)),),
    saves="x",
    batch=batched.as_it_is,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4, low=0.5, high=4.0),), lambda x: polygamma(2, x)),
        lambda: s.Sample((s.uniform(low=1.0, high=2.0),), lambda x: polygamma(3, x)),
        lambda: s.Sample((s.uniform(0, 2),), lambda x: polygamma(2, x)),
    ),
)


@casting
def polygamma(n: int, input: Tensor) -> Tensor:
    """Elementwise `n`-th derivative of digamma."""
    n = as_index(n)
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n; got {n}")
    if n < 2:
        return unary(TRIGAMMA if n else DIGAMMA, input)
    return record(POLYGAMMA, (input,), (n,))


def polygamma_of(self: Tensor, n: int) -> Tensor:
    """Elementwise `n`-th derivative of digamma: the method form of `polygamma`."""
    return polygamma(n, self)


def _mvlgamma_expand(n: Any, x: Tensor) -> Tensor:
    (p,) = n.attrs
    x = cast(x, n.meta.dtype)
    shifts = steps(p, (1 - p) / 2, 0.5, n.meta.dtype)
    total = sum_of(lgamma(add(unsqueeze(x, -1), shifts)), -1)
    return add(total, p * (p - 1) / 4 * math.log(math.pi))


MVLGAMMA = Op(
    "mvlgamma",
    "composite",
    # attrs (p,)
    infer=_float_infer,
    expand=_mvlgamma_expand,
    saves="x",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4, low=1.5, high=4.0),), lambda x: mvlgamma(x, 3)),
        lambda: s.Sample((s.uniform(low=1.0, high=2.0),), lambda x: mvlgamma(x, 1)),
        lambda: s.Sample((s.uniform(0, 2),), lambda x: mvlgamma(x, 2)),
    ),
)


_MOST_TERMS = 1 << 24


@casting
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Elementwise logarithm of the multivariate gamma function of dimension `p`."""
    p = as_index(p)
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1; got {p}")
    if p > _MOST_TERMS:
        raise RuntimeError(f"mvlgamma: can't allocate memory for {p} terms per element")
    meta = node_of(input).meta
    if meta.dtype is dtypes.bool_:
        raise not_implemented("mvlgamma", dtypes.bool_)
    return record(MVLGAMMA, (input,), (int(p),))


# --------------------------------------------------------------------------- incomplete, zeta


def _density(a: Tensor, x: Tensor) -> Tensor:
    """The derivative of igamma by x: `x**(a - 1) * exp(-x) / gamma(a)`."""
    return exp(sub(sub(xlogy(sub(a, 1), x), x), lgamma(a)))


def _second_only(low: float, high: float) -> s.SampleRule:
    """Samples of a function that is differentiable by its second operand alone."""
    return s.calls(
        lambda: s.Sample(
            (s.uniform(3, 1, low=low, high=high), s.uniform(4, low=0.5, high=3.0)), smooth=False
        ),
        lambda: s.Sample((1.75, s.uniform(2, 3, low=0.5, high=3.0))),
        lambda: s.Sample((2.5, s.uniform(low=0.5, high=3.0))),
        lambda: s.Sample((s.uniform(0), s.uniform(1)), smooth=False),
    )


IGAMMA = define_on_host(
    "igamma",
    lambda a, x: special("gammainc", a, x),
    (None, lambda g, y, a, x: mul(g, _density(a, x))),
    result="floating",
    saves="x",
    samples=_second_only(0.5, 3.0),
)
IGAMMAC = define_on_host(
    "igammac",
    lambda a, x: special("gammaincc", a, x),
    (None, lambda g, y, a, x: neg(mul(g, _density(a, x)))),
    result="floating",
    saves="x",
    samples=_second_only(0.5, 3.0),
)


@casting
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise share of gamma(input) that its integral has below `other`."""
    need_tensors("igamma", input=input, other=other)
    return apply(IGAMMA, input, other)


@casting
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise `1 - igamma(input, other)`, precise for large `other`."""
    need_tensors("igammac", input=input, other=other)
    return apply(IGAMMAC, input, other)


def _zeta(x: Array, q: Array) -> Array:
    # Where SciPy continues the function, PyTorch does not.
    result = np.where(x == 1, np.inf, np.where(x < 1, np.nan, special("zeta", x, q)))
    return np.where(np.isnan(x) | np.isnan(q), np.nan, result)


ZETA: Op = define_on_host(
    "zeta",
    _zeta,
    (None, lambda g, y, x, q: neg(mul(g, mul(x, apply(ZETA, add(x, 1), q))))),
    saves="x",
    samples=_second_only(1.5, 4.0),
)


@casting
def zeta(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise Hurwitz zeta function: the sum of `1 / (k + other)**input` for k = 0, 1, 2, …"""
    return apply(ZETA, input, other)
