"""Distributions against PyTorch's: densities, moments, entropies, divergences, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.distributions as ld

torch = pytest.importorskip("torch")
td = torch.distributions

RNG = np.random.default_rng(0)
SPD = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, -0.3], [0.1, -0.3, 1.0]])


def real(*shape: int) -> Any:
    return RNG.normal(size=shape)


def positive(*shape: int) -> Any:
    return RNG.uniform(0.4, 3.0, shape)


def share(*shape: int) -> Any:
    return RNG.uniform(0.1, 0.9, shape)


def simplex(*shape: int) -> Any:
    drawn = RNG.uniform(0.2, 1.0, shape)
    return drawn / drawn.sum(-1, keepdims=True)


def counts(*shape: int) -> Any:
    return RNG.integers(0, 6, shape).astype(np.float64)


def one_hot(*shape: int) -> Any:
    return np.eye(shape[-1])[RNG.integers(0, shape[-1], shape[:-1])]


def tril() -> Any:
    return np.linalg.cholesky(SPD)


def corr() -> Any:
    spread = np.sqrt(np.diag(SPD))
    return np.linalg.cholesky(SPD / np.outer(spread, spread))


# name: (parameters, values of shape 5 + batch + event)
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "Bernoulli": ({"probs": share(3)}, (share(5, 3) > 0.5) * 1.0),
    "Bernoulli logits": ({"logits": real(3)}, (share(5, 3) > 0.5) * 1.0),
    "Beta": ({"concentration1": positive(2, 3), "concentration0": positive(3)}, share(5, 2, 3)),
    "Binomial": ({"total_count": np.full(3, 6.0), "probs": share(3)}, counts(5, 3)),
    "Binomial logits": ({"total_count": np.full(3, 6.0), "logits": real(3)}, counts(5, 3)),
    "Categorical": ({"probs": simplex(3, 4)}, RNG.integers(0, 4, (5, 3))),
    "Categorical logits": ({"logits": real(3, 4)}, RNG.integers(0, 4, (5, 3))),
    "Cauchy": ({"loc": real(3), "scale": positive(3)}, real(5, 3)),
    "Chi2": ({"df": positive(3)}, positive(5, 3)),
    "ContinuousBernoulli": ({"probs": np.array([0.2, 0.5, 0.7])}, share(5, 3)),
    "Dirichlet": ({"concentration": positive(2, 4)}, simplex(5, 2, 4)),
    "Exponential": ({"rate": positive(3)}, positive(5, 3)),
    "FisherSnedecor": ({"df1": 3 + positive(3), "df2": 5 + positive(3)}, positive(5, 3)),
    "Gamma": ({"concentration": positive(3), "rate": positive(3)}, positive(5, 3)),
    "Geometric": ({"probs": share(3)}, counts(5, 3)),
    "Geometric logits": ({"logits": real(3)}, counts(5, 3)),
    "Gumbel": ({"loc": real(3), "scale": positive(3)}, real(5, 3)),
    "HalfCauchy": ({"scale": positive(3)}, positive(5, 3)),
    "HalfNormal": ({"scale": positive(3)}, positive(5, 3)),
    "InverseGamma": ({"concentration": 2 + positive(3), "rate": positive(3)}, positive(5, 3)),
    "Kumaraswamy": (
        {"concentration1": 1 + positive(3), "concentration0": 1 + positive(3)},
        share(5, 3),
    ),
    "LKJCholesky": ({"dim": 3, "concentration": positive(2)}, np.tile(corr(), (5, 2, 1, 1))),
    "Laplace": ({"loc": real(3), "scale": positive(3)}, real(5, 3)),
    "LogNormal": ({"loc": real(3), "scale": positive(3)}, positive(5, 3)),
    "LogisticNormal": ({"loc": real(2, 3), "scale": positive(2, 3)}, simplex(5, 2, 4)),
    "LowRankMultivariateNormal": (
        {"loc": real(2, 3), "cov_factor": real(2, 3, 2), "cov_diag": positive(3)},
        real(5, 2, 3),
    ),
    "Multinomial": ({"total_count": 4, "probs": simplex(2, 3)}, np.tile([2.0, 1, 1], (5, 2, 1))),
    "MultivariateNormal covariance": (
        {"loc": real(2, 3), "covariance_matrix": SPD},
        real(5, 2, 3),
    ),
    "MultivariateNormal precision": ({"loc": real(3), "precision_matrix": SPD}, real(5, 3)),
    "MultivariateNormal tril": ({"loc": real(2, 3), "scale_tril": tril()}, real(5, 2, 3)),
    "NegativeBinomial": ({"total_count": positive(3), "probs": share(3)}, counts(5, 3)),
    "NegativeBinomial logits": ({"total_count": positive(3), "logits": real(3)}, counts(5, 3)),
    "Normal": ({"loc": real(2, 1), "scale": positive(3)}, real(5, 2, 3)),
    "OneHotCategorical": ({"probs": simplex(2, 4)}, one_hot(5, 2, 4)),
    "Pareto": ({"scale": positive(3), "alpha": 2 + positive(3)}, 4 + positive(5, 3)),
    "Poisson": ({"rate": positive(3)}, counts(5, 3)),
    "RelaxedBernoulli": ({"temperature": np.array(0.7), "probs": share(3)}, share(5, 3)),
    "RelaxedOneHotCategorical": (
        {"temperature": np.array(0.7), "logits": real(2, 4)},
        simplex(5, 2, 4),
    ),
    "StudentT": ({"df": 2.5 + positive(3), "loc": real(3), "scale": positive(3)}, real(5, 3)),
    "Uniform": ({"low": -1 - positive(3), "high": 1 + positive(3)}, share(5, 3)),
    "VonMises": ({"loc": real(3), "concentration": positive(3)}, real(5, 3)),
    "Wishart": (
        {"df": 4 + positive(2), "covariance_matrix": SPD},
        np.tile(SPD @ SPD, (5, 2, 1, 1)),
    ),
    "Weibull": ({"scale": positive(3), "concentration": 1 + positive(3)}, positive(5, 3)),
}
CASES["OneHotCategoricalStraightThrough"] = CASES["OneHotCategorical"]


def made(library: Any, tensor: Any, name: str) -> tuple[Any, dict[str, Any]]:
    """The distribution of a case in one of the libraries, and its parameters as leaves."""
    leaves = {k: v if isinstance(v, int) else tensor(v) for k, v in CASES[name][0].items()}
    for leaf in leaves.values():
        if not isinstance(leaf, int):
            leaf.requires_grad_()
    return getattr(library, name.split()[0])(**leaves), leaves


def theirs(name: str) -> tuple[Any, dict[str, Any]]:
    return made(td, lambda v: torch.tensor(v), name)


def ours(name: str) -> tuple[Any, dict[str, Any]]:
    return made(ld, lambda v: lg.tensor(v), name)


def agree(got: Any, want: Any, what: str, rtol: float = 1e-7) -> None:
    assert tuple(got.shape) == tuple(want.shape), what
    np.testing.assert_allclose(
        np.asarray(got.detach()), want.detach().numpy(), rtol=rtol, atol=1e-9, err_msg=what
    )


def compare(got: Any, want: Any, mine: dict[str, Any], their: dict[str, Any], what: str) -> None:
    """Values, and gradients by the parameters where there are any."""
    agree(got, want, what)
    if not want.requires_grad:
        return
    weights = np.cos(np.arange(want.numel())).reshape(tuple(want.shape))
    want_leaves = [x for x in their.values() if not isinstance(x, int)]
    leaves = [x for x in mine.values() if not isinstance(x, int)]
    options = {"allow_unused": True, "retain_graph": True}
    loss, wanted = (got * lg.tensor(weights)).sum(), (want * torch.tensor(weights)).sum()
    expected = torch.autograd.grad(wanted, want_leaves, **options)
    found = lg.autograd.grad(loss, leaves, **options)
    for name, a, b in zip(mine, found, expected, strict=False):
        if a is None or b is None:
            other = b if a is None else a
            assert other is None or not np.asarray(other.detach()).any(), f"{what} by {name}"
            continue
        agree(a, b, f"gradient of {what} by {name}", rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_log_prob(name: str) -> None:
    (d, mine), (t, their) = ours(name), theirs(name)
    value = CASES[name][1]
    assert tuple(d.batch_shape) == tuple(t.batch_shape)
    assert tuple(d.event_shape) == tuple(t.event_shape)
    x, y = lg.tensor(value), torch.tensor(value)
    if value.dtype.kind == "f" and not t.support.is_discrete:
        x.requires_grad_(), y.requires_grad_()
        mine["value"], their["value"] = x, y
    compare(d.log_prob(x), t.log_prob(y), mine, their, "log_prob")


@pytest.mark.parametrize("name", CASES)
def test_moments_and_entropy(name: str) -> None:
    (d, mine), (t, their) = ours(name), theirs(name)
    for what in ("mean", "variance", "stddev", "mode", "entropy", "perplexity"):
        try:
            want = getattr(t, what)
            want = want() if callable(want) else want
        except (NotImplementedError, AttributeError):
            continue
        got = getattr(d, what)
        got = got() if callable(got) else got
        if what in ("mode", "stddev", "perplexity"):
            if name != "Kumaraswamy":  # its mode is NaN there
                agree(got, want, what)
        else:
            compare(got, want, mine, their, what)


@pytest.mark.parametrize("name", CASES)
def test_cumulative(name: str) -> None:
    (d, mine), (t, their) = ours(name), theirs(name)
    value = CASES[name][1]
    try:
        want = t.cdf(torch.tensor(value))
    except NotImplementedError:
        return
    got = d.cdf(lg.tensor(value))
    agree(got, want, "cdf")
    if name not in ("Chi2", "Gamma", "InverseGamma"):  # not differentiable by the shape
        compare(got, want, mine, their, "cdf")
    try:
        want = t.icdf(torch.tensor(np.broadcast_to([0.2, 0.5, 0.9], value.shape).copy()))
    except NotImplementedError:
        return
    probabilities = lg.tensor(np.broadcast_to([0.2, 0.5, 0.9], value.shape).copy())
    compare(d.icdf(probabilities), want, mine, their, "icdf")


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize("name", CASES)
def test_shapes(name: str) -> None:
    (d, _), (t, _) = ours(name), theirs(name)
    assert d.has_rsample == t.has_rsample
    assert d.has_enumerate_support == t.has_enumerate_support
    for shape in ((), (4,), (2, 1)):
        assert tuple(d.sample(shape).shape) == tuple(t.sample(shape).shape)
    larger = (2, 3, *t.batch_shape)
    wide, wanted = d.expand(larger), t.expand(larger)
    assert tuple(wide.batch_shape) == larger
    value = CASES[name][1][:1]
    assert tuple(value.shape[1:]) == (*t.batch_shape, *t.event_shape)
    agree(wide.log_prob(lg.tensor(value)), wanted.log_prob(torch.tensor(value)), "expanded")
    assert tuple(wide.sample((2,)).shape) == tuple(wanted.sample((2,)).shape)
    if t.has_enumerate_support:
        agree(d.enumerate_support(), t.enumerate_support(), "enumerate_support")
        agree(d.enumerate_support(False), t.enumerate_support(False), "enumerate_support")
    assert repr(d).split("(")[0] == repr(t).split("(")[0]


@pytest.mark.parametrize("name", [n for n in CASES if ours(n)[0].has_rsample])
def test_samples_lie_in_the_support(name: str) -> None:
    d, mine = ours(name)
    drawn = d.rsample((20,))
    assert bool(d.support.check(drawn).all())
    if name.startswith("OneHot"):
        return
    leaves = [x for x in mine.values() if not isinstance(x, int)]
    for g in lg.autograd.grad(drawn.sum() * 1.0 + (drawn * drawn).sum(), leaves):
        assert bool(g.isfinite().all())


def test_gamma_reparameterisation() -> None:
    shape = np.exp(RNG.uniform(-2, 4, 200))
    a = lg.tensor(shape).requires_grad_()
    x = ld.Gamma(a, lg.tensor(1.0).double()).rsample()
    (slope,) = lg.autograd.grad(x.sum(), [a])
    want = torch._standard_gamma_grad(torch.tensor(shape), torch.tensor(np.asarray(x.detach())))
    np.testing.assert_allclose(np.asarray(slope), want.numpy(), rtol=1e-3)


# ----------------------------------------------------------------------------------- divergences

PAIRS = [
    (p, q)
    for p in ("Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "ContinuousBernoulli",
              "Dirichlet", "Exponential", "Gamma", "Geometric", "Gumbel", "HalfNormal", "Laplace",
              "LowRankMultivariateNormal", "MultivariateNormal covariance", "Normal",
              "OneHotCategorical", "Pareto", "Poisson", "Uniform", "LogNormal")
    for q in CASES
    if (type(theirs(p)[0]), type(theirs(q)[0])) in td.kl._KL_REGISTRY
]  # fmt: skip


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=lambda name: name.replace(" ", "_"))
def test_kl(p: str, q: str) -> None:
    (a, mine), (b, more) = ours(p), ours(q)
    (c, their), (d, others) = theirs(p), theirs(q)
    if p == q:  # other parameters, or the divergence is 0
        for (kind, leaf), other in zip(more.items(), others.values(), strict=True):
            if kind not in ("covariance_matrix", "total_count", "low", "high"):
                with lg.no_grad(), torch.no_grad():
                    other.copy_(other.flip(0))
                    leaf.copy_(leaf.flip(0))
        b = type(b)(**more) if p != "LogNormal" else type(b)(*more.values())
        d = type(d)(**others) if p != "LogNormal" else type(d)(*others.values())
    names = {f"p.{k}": v for k, v in mine.items()} | {f"q.{k}": v for k, v in more.items()}
    theirs_all = {f"p.{k}": v for k, v in their.items()} | {f"q.{k}": v for k, v in others.items()}
    try:
        want = td.kl_divergence(c, d)
    except IndexError:
        pytest.skip("PyTorch does not broadcast here")
    got = ld.kl_divergence(a, b)
    if bool(torch.isfinite(want).all()):
        compare(got, want, names, theirs_all, f"kl {p} {q}")
    else:
        agree(got, want, f"kl {p} {q}")


def test_kl_of_independent() -> None:
    loc, scale = real(2, 3), positive(2, 3)
    p = ld.Independent(ld.Normal(lg.tensor(loc), lg.tensor(scale)), 1)
    q = ld.Independent(ld.Normal(lg.tensor(-loc), lg.tensor(scale + 1)), 1)
    r = td.Independent(td.Normal(torch.tensor(loc), torch.tensor(scale)), 1)
    s = td.Independent(td.Normal(torch.tensor(-loc), torch.tensor(scale + 1)), 1)
    agree(ld.kl_divergence(p, q), td.kl_divergence(r, s), "kl")
    agree(p.log_prob(lg.tensor(loc)), r.log_prob(torch.tensor(loc)), "log_prob")
    agree(p.entropy(), r.entropy(), "entropy")


def test_mixture() -> None:
    weights, loc, scale = simplex(2, 3), real(2, 3), positive(2, 3)
    value = real(5, 2)

    def build(library: Any, tensor: Any) -> Any:
        mixture = library.Categorical(tensor(weights))
        return library.MixtureSameFamily(mixture, library.Normal(tensor(loc), tensor(scale)))

    d, t = build(ld, lg.tensor), build(td, torch.tensor)
    for what in ("mean", "variance"):
        agree(getattr(d, what), getattr(t, what), what)
    agree(d.log_prob(lg.tensor(value)), t.log_prob(torch.tensor(value)), "log_prob")
    agree(d.cdf(lg.tensor(value)), t.cdf(torch.tensor(value)), "cdf")
    assert tuple(d.sample((7,)).shape) == (7, 2)
    assert tuple(d.expand((4, 2)).sample((7,)).shape) == (7, 4, 2)


# ------------------------------------------------------------------------------------ transforms

TRANSFORMS: dict[str, tuple[Any, Any]] = {
    "exp": (lambda m, t: m.ExpTransform(), real(4, 3)),
    "power": (lambda m, t: m.PowerTransform(t(np.array(2.5))), positive(4, 3)),
    "sigmoid": (lambda m, t: m.SigmoidTransform(), real(4, 3)),
    "tanh": (lambda m, t: m.TanhTransform(), real(4, 3)),
    "softplus": (lambda m, t: m.SoftplusTransform(), real(4, 3)),
    "affine": (lambda m, t: m.AffineTransform(t(real_3), t(scale_3)), real(4, 3)),
    "affine vector": (lambda m, t: m.AffineTransform(1.5, -2.0, event_dim=1), real(4, 3)),
    "softmax": (lambda m, t: m.SoftmaxTransform(), real(4, 3)),
    "stick": (lambda m, t: m.StickBreakingTransform(), real(4, 3)),
    "cholesky": (lambda m, t: m.LowerCholeskyTransform(), real(4, 3, 3)),
    "corr": (lambda m, t: m.CorrCholeskyTransform(), real(4, 6)),
    "definite": (lambda m, t: m.PositiveDefiniteTransform(), real(4, 3, 3)),
    "reshape": (lambda m, t: m.ReshapeTransform((3,), (3, 1)), real(4, 3)),
    "independent": (lambda m, t: m.IndependentTransform(m.ExpTransform(), 1), real(4, 3)),
    "compose": (
        lambda m, t: m.ComposeTransform(
            [m.AffineTransform(0.5, 2.0), m.SigmoidTransform(), m.AffineTransform(-1.0, 3.0)]
        ),
        real(4, 3),
    ),
    "compose vector": (
        lambda m, t: m.ComposeTransform([m.ExpTransform(), m.StickBreakingTransform()]),
        real(4, 3),
    ),
    "cat": (
        lambda m, t: m.CatTransform([m.ExpTransform(), m.TanhTransform()], 1, [1, 2]),
        real(4, 3),
    ),
    "stack": (
        lambda m, t: m.StackTransform(
            [m.ExpTransform(), m.TanhTransform(), m.SigmoidTransform()], 1
        ),
        real(4, 3),
    ),
    "cdf": (
        lambda m, t: m.CumulativeDistributionTransform(
            (ld if m is ld.transforms else td).Normal(t(real_3), t(scale_3))
        ),
        real(4, 3),
    ),
}
real_3, scale_3 = real(3), positive(3)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    build, value = TRANSFORMS[name]
    a, b = build(ld.transforms, lg.tensor), build(td.transforms, torch.tensor)
    x, y = lg.tensor(value).requires_grad_(), torch.tensor(value).requires_grad_()
    got, want = a(x), b(y)
    compare(got, want, {"x": x}, {"x": y}, name)
    assert tuple(a.forward_shape(value.shape)) == tuple(b.forward_shape(value.shape))
    assert a.domain.event_dim == b.domain.event_dim
    assert a.codomain.event_dim == b.codomain.event_dim
    assert a.bijective == b.bijective
    assert bool(a.codomain.check(got).all())
    agree(a.inv(got), b.inv(want), f"inverse of {name}", rtol=1e-6)
    try:
        stretch = b.log_abs_det_jacobian(y, want)
    except NotImplementedError:
        return
    compare(a.log_abs_det_jacobian(x, got), stretch, {"x": x}, {"x": y}, f"jacobian of {name}")
    inverse = a.inv.log_abs_det_jacobian(got, x)
    agree(inverse, b.inv.log_abs_det_jacobian(want, y), f"jacobian of {name}.inv")


@pytest.mark.parametrize("kind", ["biject_to", "transform_to"])
@pytest.mark.parametrize(
    "constraint",
    ["positive", "nonnegative", "unit_interval", "simplex", "real", "lower_cholesky",
     "positive_definite", "corr_cholesky", "real_vector"],
)  # fmt: skip
def test_registry(kind: str, constraint: str) -> None:
    value = {"lower_cholesky": real(4, 3, 3), "positive_definite": real(4, 3, 3)}.get(
        constraint, real(4, 6)
    )
    try:
        their = getattr(td, kind)(getattr(td.constraints, constraint))
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            getattr(ld, kind)(getattr(ld.constraints, constraint))
        return
    mine = getattr(ld, kind)(getattr(ld.constraints, constraint))
    agree(mine(lg.tensor(value)), their(torch.tensor(value)), constraint)


def test_transformed_distribution() -> None:
    loc, scale, value = real(3), positive(3), share(5, 3)

    def build(library: Any, tensor: Any) -> Any:
        base = library.Normal(tensor(loc), tensor(scale))
        module = library.transforms
        parts = [module.AffineTransform(0.5, -2.0), module.SigmoidTransform()]
        return library.TransformedDistribution(base, parts)

    d, t = build(ld, lg.tensor), build(td, torch.tensor)
    x, y = lg.tensor(value), torch.tensor(value)
    for what in ("log_prob", "cdf", "icdf"):
        agree(getattr(d, what)(x), getattr(t, what)(y), what)
    assert tuple(d.rsample((2,)).shape) == (2, 3)
    assert tuple(d.expand((2, 3)).batch_shape) == (2, 3)


# ------------------------------------------------------------------------------------- bad input

BAD: dict[str, Any] = {
    "scale": lambda m, t: m.Normal(t(0.0), t(-1.0)),
    "nan": lambda m, t: m.Normal(t(float("nan")), t(1.0)),
    "probs": lambda m, t: m.Bernoulli(t(1.5)),
    "both": lambda m, t: m.Bernoulli(t(0.5), t(0.5)),
    "neither": lambda m, t: m.Categorical(),
    "scalar": lambda m, t: m.Categorical(t(0.5)),
    "simplex": lambda m, t: m.Categorical(t([-0.5, 1.5])),
    "bounds": lambda m, t: m.Uniform(t(1.0), t(0.0)),
    "kind": lambda m, t: m.Normal("a", 1.0),
    "support": lambda m, t: m.Exponential(t(1.0)).log_prob(t(-1.0)),
    "boolean": lambda m, t: m.Bernoulli(t(0.5)).log_prob(t(0.5)),
    "event": lambda m, t: m.Dirichlet(t([1.0, 2.0])).log_prob(t([0.2, 0.3, 0.5])),
    "batch": lambda m, t: m.Normal(t([0.0, 1.0]), 1.0).log_prob(t([0.0, 1.0, 2.0])),
    "number": lambda m, t: m.Normal(t(0.0), t(1.0)).log_prob(0.5),
    "independent": lambda m, t: m.Independent(m.Normal(t(0.0), t(1.0)), 1),
    "matrix": lambda m, t: m.MultivariateNormal(t([0.0, 1.0]), t([[1.0, 2.0], [2.0, 1.0]])),
    "matrices": lambda m, t: m.MultivariateNormal(t([0.0])),
    "kl": lambda m, t: m.kl_divergence(m.Normal(t(0.0), t(1.0)), m.Poisson(t(1.0))),
    "rsample": lambda m, t: m.Poisson(t(1.0)).rsample(),
    "cache": lambda m, t: m.ExpTransform(cache_size=2),
    "mode": lambda m, t: (
        m.MixtureSameFamily(m.Categorical(t([0.5, 0.5])), m.Normal(t([0.0, 1.0]), 1.0)).mode
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises_the_same_class(name: str) -> None:
    with pytest.raises(Exception) as wanted:
        BAD[name](td, torch.tensor)
    with pytest.raises(wanted.type):
        BAD[name](ld, lg.tensor)
