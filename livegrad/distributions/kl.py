"""The Kullback-Leibler divergence between distributions, by pairs of families.

Most pairs of different families follow from one of two facts: KL(p || q) is the expectation of
-log q under p less the entropy of p, and it is infinite if p has values that q has not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from livegrad.distributions.bounded import Beta, ContinuousBernoulli, Dirichlet, Uniform
from livegrad.distributions.categories import Categorical, OneHotCategorical
from livegrad.distributions.composed import Independent, TransformedDistribution
from livegrad.distributions.counts import Bernoulli, Binomial, Geometric, Poisson
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.location_scale import Cauchy, Gumbel, Laplace, Normal
from livegrad.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    squared_distance,
)
from livegrad.distributions.positive import Exponential, Gamma, HalfNormal, Pareto
from livegrad.distributions.utils import euler_constant, sum_rightmost
from livegrad.ops.layers.smooth_activation import softplus
from livegrad.ops.linalg.triangular import solve_triangular
from livegrad.ops.picking.masking import where
from livegrad.ops.special.gamma import digamma, lgamma
from livegrad.ops.special.special_math import xlogy
from livegrad.tensor import Tensor

_Multivariate = MultivariateNormal | LowRankMultivariateNormal
Rule = Callable[[Any, Any], Tensor]
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
_found: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Decorates the rule for a pair of classes, which serves their subclasses too."""
    for kind, name in ((type_p, "type_p"), (type_q, "type_q")):
        if not isinstance(kind, type):  # a base of one's own need not be a Distribution
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorate(rule: Rule) -> Rule:
        _KL_REGISTRY[type_p, type_q] = rule
        _found.clear()
        return rule

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence from `q` to `p`, of the batch shape."""
    kinds = type(p), type(q)
    rule = _found.get(kinds)
    if rule is None:
        rule = _found[kinds] = _find(*kinds)
    return rule(p, q)


def _find(kind_p: type, kind_q: type) -> Rule:
    """The rule of the nearest ancestors; those of `p` come first where that is not clear."""
    order_p, order_q = kind_p.__mro__, kind_q.__mro__
    near = {
        (order_p.index(a), order_q.index(b)): rule
        for (a, b), rule in _KL_REGISTRY.items()
        if a in order_p and b in order_q
    }
    if not near:
        raise NotImplementedError(
            "No KL(p || q) is implemented for p type "
            f"{kind_p.__name__} and q type {kind_q.__name__}"
        )
    left, right = min(near), min(near, key=lambda pair: (pair[1], pair[0]))
    if near[left] is not near[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({kind_p.__name__}, {kind_q.__name__}). Please register_kl "
            "for this pair",
            RuntimeWarning,
            stacklevel=4,
        )
    return near[left]


# ------------------------------------------------------------------------------- the same family


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    success = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    failure = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    success = where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, success))
    failure = where(p.probs == 1, 0.0, where(q.probs == 1, math.inf, failure))
    return success + failure


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._pair(), q._pair())


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norm = lgamma(total) - lgamma(b.sum(-1)) - (lgamma(a) - lgamma(b)).sum(-1)
    return norm + ((a - b) * (digamma(a) - digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, math.inf, p.total_count * each)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = where(q.probs == 0, math.inf, terms)
    return where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p, q)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    spread = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return spread.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    slope = p.mean * (p.logits - q.logits)
    return slope + p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    norm = b * (p.rate / q.rate).log() + lgamma(b) - lgamma(a)
    return norm + (a - b) * digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    tail = (shift + lgamma(1 + ratio)).exp()
    return -ratio.log() - shift + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    value = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, value)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    value = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, value)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate(p: _Multivariate, q: _Multivariate) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be "
            "computed"
        )
    a, b = p.scale_tril, q.scale_tril
    trace = solve_triangular(b, a, upper=False).square().sum((-2, -1))
    distance = squared_distance(b, q.loc - p.loc)
    return half_log_det(b) - half_log_det(a) + 0.5 * (trace + distance - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence of Independent: reinterpreted_batch_ndims must agree; got "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "kl_divergence of transformed distributions: transforms and event shapes must agree"
        )
    return kl_divergence(p.base_dist, q.base_dist)


# ------------------------------------------------------------------------------ different families


def _against_exponential(p: Distribution, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _against_normal(p: Distribution, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc).square()
    norm = q.scale.log() + 0.5 * math.log(2 * math.pi)
    return -p.entropy() + norm + 0.5 * square / q.scale.square()


def _against_gamma(p: Distribution, q: Gamma, mean_log: Tensor) -> Tensor:
    c = q.concentration
    norm = lgamma(c) - xlogy(c, q.rate)
    return -p.entropy() + norm - (c - 1) * mean_log + q.rate * p.mean


def _against_gumbel(p: Distribution, q: Gumbel, log_moment: Tensor) -> Tensor:
    """`log_moment` is log E[exp(-x / scale)] under p."""
    shift = q.loc / q.scale
    return -p.entropy() + q.scale.log() + p.mean / q.scale - shift + (shift + log_moment).exp()


def _register(rule: Rule, ps: tuple[type, ...], qs: tuple[type, ...]) -> None:
    """One rule for all pairs of these families."""
    for p in ps:
        for q in qs:
            register_kl(p, q)(rule)


_register(_against_exponential, (Beta, ContinuousBernoulli, Gamma), (Exponential,))
_register(
    _against_normal,
    (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform),
    (Normal,),
)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - p.probs * q.rate.log() + q.rate


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    a, b = p.concentration1, p.concentration0
    return _against_gamma(p, q, digamma(a) - digamma(a + b))


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _share_uniform(p: Beta | ContinuousBernoulli, q: Uniform) -> Tensor:
    value = -p.entropy() + (q.high - q.low).log()
    return where((q.low > 0) | (q.high < 1), math.inf, value)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return _against_gamma(p, q, -p.rate.log() - euler_constant)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    return _against_gumbel(p, q, -((p.rate * q.scale).reciprocal()).log1p())


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    return _against_gumbel(p, q, -p.concentration * ((p.rate * q.scale).reciprocal()).log1p())


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    return _against_gumbel(p, q, -p.loc / q.scale + 0.5 * (p.scale / q.scale).square())


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    away = (p.loc - q.loc) / p.scale
    bell = math.sqrt(2 / math.pi) * p.scale * (-0.5 * away.square()).exp()
    distance = bell + (p.loc - q.loc) * (away * math.sqrt(0.5)).erf()
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    return where(p.alpha <= 1, math.inf, _against_exponential(p, q))


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    value = _against_gamma(p, q, p.scale.log() + p.alpha.reciprocal())
    return where(p.alpha <= 1, math.inf, value)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    return where(p.alpha <= 2, math.inf, _against_normal(p, q))


def _mean_log(low: Tensor, high: Tensor) -> Tensor:
    """E[log x] for x uniform between bounds that are not negative."""
    return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    norm = lgamma(a) + lgamma(b) - lgamma(a + b)
    inside = (p.low >= 0) & (p.high <= 1)
    low, high = where(inside, p.low, 0.0), where(inside, p.high, 1.0)
    logs = (a - 1) * _mean_log(low, high) + (b - 1) * _mean_log(1 - high, 1 - low)
    return where(inside, norm - p.entropy() - logs, math.inf)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    value = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()
    return where((p.high >= 1) | (p.low <= 0), math.inf, value)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return where(p.low < 0, math.inf, _against_exponential(p, q))


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    inside = p.low >= 0
    low, high = where(inside, p.low, 0.0), where(inside, p.high, 1.0)
    return where(inside, _against_gamma(p, q, _mean_log(low, high)), math.inf)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    width = (p.high - p.low) / q.scale
    log_moment = -p.low / q.scale + (-(-width).expm1() / width).log()
    return _against_gumbel(p, q, log_moment)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    inside = p.low >= q.scale
    low, high = where(inside, p.low, 1.0), where(inside, p.high, 2.0)
    logs = (q.alpha + 1) * _mean_log(low, high)
    value = -p.entropy() - q.alpha.log() - q.alpha * q.scale.log() + logs
    return where(inside, value, math.inf)


# ----------------------------------------------------------------------------------- no overlap


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    parameter: Tensor = next(iter(p._given_parameters().values()))
    return parameter.new_full(p.batch_shape, math.inf)


_register(
    _infinite,
    (Exponential, Gamma, Gumbel, Laplace, Normal),
    (Beta, ContinuousBernoulli, Pareto, Uniform),
)
_register(_infinite, (Gumbel, Laplace, Normal), (Exponential, Gamma))
_register(_infinite, (Pareto,), (Beta, ContinuousBernoulli, Uniform))
_register(_infinite, (Beta, ContinuousBernoulli), (Pareto,))
_register(_infinite, (Poisson,), (Bernoulli, Binomial))
