"""Samples of distributions: moments, gradients through them, and what holds without a formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import genpareto

import livegrad as lg
import livegrad.distributions as ld
from livegrad.distributions import utils

COUNT = 40_000
T = lg.tensor

DISTRIBUTIONS: dict[str, Any] = {
    "Bernoulli": lambda: ld.Bernoulli(T([0.2, 0.7])),
    "Beta": lambda: ld.Beta(T([0.5, 3.0]), T([2.0, 1.5])),
    "Binomial": lambda: ld.Binomial(10, T([0.2, 0.7])),
    "Chi2": lambda: ld.Chi2(T([1.0, 5.0])),
    "ContinuousBernoulli": lambda: ld.ContinuousBernoulli(T([0.2, 0.7])),
    "Dirichlet": lambda: ld.Dirichlet(T([0.5, 1.5, 3.0])),
    "Exponential": lambda: ld.Exponential(T([0.5, 2.0])),
    "FisherSnedecor": lambda: ld.FisherSnedecor(T([3.0]), T([14.0])),
    "Gamma": lambda: ld.Gamma(T([0.3, 4.0]), T([1.0, 2.0])),
    "GeneralizedPareto": lambda: ld.GeneralizedPareto(T([0.0, 1.0]), T([1.0, 2.0]), T([0.1, -0.2])),
    "Geometric": lambda: ld.Geometric(T([0.3, 0.7])),
    "Gumbel": lambda: ld.Gumbel(T([0.0, 1.0]), T([1.0, 0.5])),
    "HalfNormal": lambda: ld.HalfNormal(T([0.5, 2.0])),
    "InverseGamma": lambda: ld.InverseGamma(T([6.0, 8.0]), T([1.0, 2.0])),
    "Kumaraswamy": lambda: ld.Kumaraswamy(T([0.7, 2.0]), T([1.5, 3.0])),
    "Laplace": lambda: ld.Laplace(T([0.0, 1.0]), T([1.0, 0.5])),
    "LogNormal": lambda: ld.LogNormal(T([0.0, 0.5]), T([0.5, 0.25])),
    "Multinomial": lambda: ld.Multinomial(6, T([0.2, 0.3, 0.5])),
    "NegativeBinomial": lambda: ld.NegativeBinomial(T([3.0, 5.0]), T([0.3, 0.6])),
    "Normal": lambda: ld.Normal(T([0.0, 1.0]), T([1.0, 0.5])),
    "OneHotCategorical": lambda: ld.OneHotCategorical(T([0.2, 0.3, 0.5])),
    "Pareto": lambda: ld.Pareto(T([1.0, 2.0]), T([9.0, 12.0])),
    "Poisson": lambda: ld.Poisson(T([0.5, 20.0])),
    "StudentT": lambda: ld.StudentT(T([9.0, 20.0]), T([0.0, 1.0]), T([1.0, 0.5])),
    "Uniform": lambda: ld.Uniform(T([0.0, -1.0]), T([1.0, 3.0])),
    "Weibull": lambda: ld.Weibull(T([1.0, 2.0]), T([1.5, 3.0])),
    "mixture": lambda: ld.MixtureSameFamily(
        ld.Categorical(T([0.3, 0.7])), ld.Normal(T([-1.0, 2.0]), T([0.5, 1.0]))
    ),
    "vector": lambda: ld.MultivariateNormal(
        T([1.0, -1.0]), covariance_matrix=T([[2.0, 0.6], [0.6, 1.0]])
    ),
    "low rank": lambda: ld.LowRankMultivariateNormal(
        T([1.0, -1.0]), T([[1.0], [0.5]]), T([0.5, 0.25])
    ),
}


@pytest.fixture(autouse=True)
def _seed() -> None:
    lg.manual_seed(3)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_moments(name: str) -> None:
    d = DISTRIBUTIONS[name]()
    x = np.asarray(d.sample((COUNT,)), np.float64)
    mean, variance = np.asarray(d.mean), np.asarray(d.variance)
    error = 5 * np.sqrt(variance / COUNT)
    assert (np.abs(x.mean(0) - mean) < error).all(), (x.mean(0), mean)
    fourth = ((x - x.mean(0)) ** 4).mean(0)
    error = 6 * np.sqrt(fourth / COUNT)
    assert (np.abs(x.var(0) - variance) < error).all(), (x.var(0), variance)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in DISTRIBUTIONS if DISTRIBUTIONS[n]().has_rsample])
def test_gradients_of_moments(name: str) -> None:
    """The mean of gradients through samples is the gradient of the mean."""
    reference = DISTRIBUTIONS[name]()
    given = reference._given_parameters()
    leaves = {k: v.detach().double().clone().requires_grad_() for k, v in given.items()}
    d = type(reference)(**leaves)
    x = d.rsample((COUNT,))
    weights = lg.tensor(np.cos(np.arange(x[0].numel()))).reshape(x.shape[1:])
    loss = (x.mean(0) * weights).sum()
    want = lg.autograd.grad((d.mean * weights).sum(), list(leaves.values()), allow_unused=True)
    got = lg.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    for key, a, b in zip(leaves, got, want, strict=True):
        wanted = np.zeros_like(a) if b is None else np.asarray(b)
        np.testing.assert_allclose(np.asarray(a), wanted, rtol=0.1, atol=0.06, err_msg=key)


@pytest.mark.parametrize(
    "name", ["Normal", "Laplace", "Cauchy", "Gumbel", "Exponential", "Weibull"]
)
def test_cdf_of_samples_is_uniform(name: str) -> None:
    d = getattr(ld, name)(*([0.7] if name == "Exponential" else [0.7, 1.5]))
    u = np.sort(np.asarray(d.cdf(d.sample((COUNT,)))))
    grid = np.arange(COUNT) / COUNT
    assert np.abs(u - grid).max() < 2 / np.sqrt(COUNT)


def test_generalized_pareto_like_scipy() -> None:
    loc, scale, shape = (
        np.array([0.0, 1.0, -1.0]),
        np.array([1.0, 2.0, 0.5]),
        np.array([0.4, 0.0, -0.3]),
    )
    d = ld.GeneralizedPareto(T(loc), T(scale), T(shape))
    p = np.array([0.1, 0.5, 0.9])
    x = genpareto.ppf(p, shape, loc, scale)
    np.testing.assert_allclose(np.asarray(d.icdf(T(p))), x)
    np.testing.assert_allclose(np.asarray(d.cdf(T(x))), p)
    np.testing.assert_allclose(np.asarray(d.log_prob(T(x))), genpareto.logpdf(x, shape, loc, scale))
    np.testing.assert_allclose(np.asarray(d.mean), genpareto.mean(shape, loc, scale))
    np.testing.assert_allclose(np.asarray(d.variance), genpareto.var(shape, loc, scale))


def test_correlation_factors() -> None:
    factor = ld.LKJCholesky(3, 2.0).sample((4000,))
    assert bool(ld.constraints.corr_cholesky.check(factor).all())
    correlation = np.asarray(factor @ factor.mT)
    # Each correlation is 2 * Beta(a, a) - 1 with a = concentration + (dim - 2) / 2.
    assert correlation[:, 1, 0].var() == pytest.approx(1 / (2 * 2.5 + 1), rel=0.1)
    assert correlation[:, 2, 1].var() == pytest.approx(1 / (2 * 2.5 + 1), rel=0.1)


def test_wishart() -> None:
    covariance = T([[2.0, 0.6], [0.6, 1.0]])
    d = ld.Wishart(5.0, covariance)
    x = np.asarray(d.sample((COUNT,)), np.float64)
    np.testing.assert_allclose(x.mean(0), np.asarray(d.mean), rtol=0.05)
    np.testing.assert_allclose(x.var(0), np.asarray(d.variance), rtol=0.1)


def test_von_mises_is_centred_on_loc() -> None:
    d = ld.VonMises(T(3.0), T(4.0))
    x = np.asarray(d.sample((COUNT,)), np.float64)
    assert x.min() >= -np.pi
    assert x.max() <= np.pi
    direction = np.exp(1j * x).mean()
    assert abs(np.angle(direction) - 3.0) < 0.02
    assert abs(1 - abs(direction) - d.variance.item()) < 0.01


def test_small_concentrations_stay_inside() -> None:
    x = ld.Dirichlet(lg.full((3,), 1e-3)).sample((1000,))
    assert bool(lg.isfinite(x.log()).all())
    assert bool(((x.sum(-1) - 1).abs() < 1e-5).all())
    y = ld.Beta(1e-3, 1e-3).sample((4000,))
    assert abs(float(y.mean()) - 0.5) < 0.05


def test_sample_has_no_gradient_and_rsample_has() -> None:
    loc = lg.zeros(3, requires_grad=True)
    d = ld.Normal(loc, 1.0)
    assert not d.sample().requires_grad
    assert d.rsample().requires_grad


def test_validation_can_be_switched_off() -> None:
    assert float(ld.Normal(0.0, -1.0, validate_args=False).scale) == -1.0
    ld.Distribution.set_default_validate_args(False)
    try:
        ld.Exponential(1.0).log_prob(T(-1.0))
    finally:
        ld.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="support"):
        ld.Exponential(1.0).log_prob(T(-1.0))


def test_samples_follow_the_seed() -> None:
    drawn = []
    for _ in range(2):
        lg.manual_seed(11)
        drawn.append(
            [ld.Gamma(T([0.5, 2.0]), 1.0).sample().tolist(), ld.Poisson(3.0).sample().item()]
        )
    assert drawn[0] == drawn[1]


def test_register_kl_prefers_the_nearest_ancestor() -> None:
    class Special(ld.Normal):
        pass

    p, q = Special(0.0, 1.0), ld.Normal(1.0, 2.0)
    assert ld.kl_divergence(p, q).item() == pytest.approx(
        ld.kl_divergence(ld.Normal(0.0, 1.0), q).item()
    )

    @ld.register_kl(Special, ld.Normal)
    def _rule(p: Any, q: Any) -> Any:
        return lg.tensor(-1.0)

    assert ld.kl_divergence(p, q).item() == -1.0


def test_training_through_samples() -> None:
    """A normal distribution learns to match another by gradients through its samples."""
    loc = lg.tensor(3.0, requires_grad=True)
    log_scale = lg.tensor(1.0, requires_grad=True)
    optimizer = lg.optim.Adam([loc, log_scale], lr=0.05)
    target = ld.Normal(-1.0, 0.5)
    for _ in range(300):
        d = ld.Normal(loc, log_scale.exp())
        x = d.rsample((64,))
        loss = (d.log_prob(x) - target.log_prob(x)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert abs(loc.item() + 1.0) < 0.1
    assert abs(log_scale.exp().item() - 0.5) < 0.1


def test_what_packages_of_distributions_use() -> None:
    x = lg.arange(24.0).reshape(2, 3, 4)
    assert lg.equal(utils._sum_rightmost(x, 2), x.sum((1, 2)))
    assert utils._sum_rightmost(x, 0) is x
    lg.manual_seed(0)
    drawn = utils._standard_normal(lg.Size([200, 50]), lg.float64, "cpu")
    assert (drawn.shape, drawn.dtype) == ((200, 50), lg.float64)
    assert abs(drawn.mean().item()) < 0.05
    assert abs(drawn.std().item() - 1) < 0.05


class Shifted(ld.Independent):
    """A family of one's own, as programs write them."""

    def __init__(self, loc: Any) -> None:
        super().__init__(ld.Normal(loc, 1.0), 1)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Shifted, _instance)
        return super().expand(batch_shape, new)


def test_a_family_with_an_own_beginning_is_expanded() -> None:
    wide = Shifted(T([0.0, 1.0])).expand((3,))
    assert type(wide) is Shifted
    assert wide.batch_shape == (3,)
    assert wide.log_prob(lg.zeros(3, 2)).shape == (3,)


def test_a_family_with_an_own_beginning_says_how_it_is_expanded() -> None:
    class Odd(ld.Chi2):
        def __init__(self) -> None:
            super().__init__(T([1.0]))

    with pytest.raises(NotImplementedError, match=r"must also define a custom \.expand"):
        Odd().expand((2,))


def test_a_distribution_may_be_a_module_too() -> None:
    class Prior(ld.Gamma, lg.nn.Module):
        def __init__(self) -> None:
            lg.nn.Module.__init__(self)
            ld.Gamma.__init__(self, T(2.0), T(1.0))

    prior = Prior()
    assert prior.log_prob(T(1.0)).item() == pytest.approx(-1.0)
    assert "Gamma" in repr(ld.Gamma(T(2.0), T(1.0)))


def test_the_entropy_of_an_exponential_family_follows_from_its_normaliser() -> None:
    class Mine(ld.ExponentialFamily):
        """The exponential distribution, by its natural parameter -rate."""

        rate = T([0.5, 2.0])
        _mean_carrier_measure = 0
        _natural_params = (-rate,)

        def _log_normalizer(self, x: Any) -> Any:
            return -lg.log(-x)

    assert isinstance(ld.Normal(0.0, 1.0), ld.ExponentialFamily)
    want = ld.Exponential(Mine.rate).entropy()
    assert Mine((2,), validate_args=False).entropy().tolist() == pytest.approx(want.tolist())


def test_divergences_may_be_registered_for_bases_that_are_no_distributions() -> None:
    class Base:
        pass

    class Point(ld.Distribution, Base):
        pass

    @ld.register_kl(Point, Base)
    def _(p: Any, q: Any) -> Any:
        return T(7.0)

    point = Point(validate_args=False)
    assert ld.kl_divergence(point, point).item() == 7.0
    with pytest.raises(TypeError, match="type_q"):
        ld.register_kl(Point, 3)  # type: ignore[arg-type]


def test_triangles_and_vectors() -> None:
    matrix = lg.arange(9.0).reshape(3, 3)
    vec = utils.tril_matrix_to_vec(matrix)
    assert vec.tolist() == [0.0, 3.0, 4.0, 6.0, 7.0, 8.0]
    assert utils.vec_to_tril_matrix(vec).tolist() == matrix.tril().tolist()
    lower = utils.tril_matrix_to_vec(matrix, -1)
    assert utils.vec_to_tril_matrix(lower, -1).tolist() == matrix.tril(-1).tolist()
    with pytest.raises(ValueError, match="lower triangular"):
        utils.vec_to_tril_matrix(lg.ones(5))
    with pytest.raises(ValueError, match="outside"):
        utils.tril_matrix_to_vec(matrix, 3)
