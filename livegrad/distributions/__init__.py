"""Probability distributions, under the names of `torch.distributions`.

Each has `sample`, `log_prob`, moments and `entropy`; those with `has_rsample` have samples through
which gradients flow. See `Distribution` for shapes and for what is checked.
"""

from __future__ import annotations

import sys

from livegrad.distributions import (
    constraints as constraints,
    transforms as transforms,
    utils as utils,
)
from livegrad.distributions.bounded import (
    Beta as Beta,
    ContinuousBernoulli as ContinuousBernoulli,
    Dirichlet as Dirichlet,
    Kumaraswamy as Kumaraswamy,
    Uniform as Uniform,
)
from livegrad.distributions.categories import (
    Categorical as Categorical,
    Multinomial as Multinomial,
    OneHotCategorical as OneHotCategorical,
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
)
from livegrad.distributions.circular import VonMises as VonMises
from livegrad.distributions.composed import (
    Independent as Independent,
    LogisticNormal as LogisticNormal,
    LogNormal as LogNormal,
    MixtureSameFamily as MixtureSameFamily,
    TransformedDistribution as TransformedDistribution,
)
from livegrad.distributions.constraint_registry import (
    biject_to as biject_to,
    transform_to as transform_to,
)
from livegrad.distributions.counts import (
    Bernoulli as Bernoulli,
    Binomial as Binomial,
    Geometric as Geometric,
    NegativeBinomial as NegativeBinomial,
    Poisson as Poisson,
)
from livegrad.distributions.distribution import Distribution as Distribution
from livegrad.distributions.exp_family import ExponentialFamily as ExponentialFamily
from livegrad.distributions.kl import kl_divergence as kl_divergence, register_kl as register_kl
from livegrad.distributions.location_scale import (
    Cauchy as Cauchy,
    Gumbel as Gumbel,
    Laplace as Laplace,
    Normal as Normal,
    StudentT as StudentT,
)
from livegrad.distributions.matrices import LKJCholesky as LKJCholesky, Wishart as Wishart
from livegrad.distributions.multivariate import (
    LowRankMultivariateNormal as LowRankMultivariateNormal,
    MultivariateNormal as MultivariateNormal,
    factor_of_inverse as _precision_to_scale_tril,
    squared_distance as _batch_mahalanobis,
)
from livegrad.distributions.positive import (
    Chi2 as Chi2,
    Exponential as Exponential,
    FisherSnedecor as FisherSnedecor,
    Gamma as Gamma,
    GeneralizedPareto as GeneralizedPareto,
    HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal,
    InverseGamma as InverseGamma,
    Pareto as Pareto,
    Weibull as Weibull,
)
from livegrad.distributions.relaxed import (
    ExpRelaxedCategorical as ExpRelaxedCategorical,
    LogitRelaxedBernoulli as LogitRelaxedBernoulli,
    RelaxedBernoulli as RelaxedBernoulli,
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from livegrad.distributions.transforms import (
    AbsTransform as AbsTransform,
    AffineTransform as AffineTransform,
    CatTransform as CatTransform,
    ComposeTransform as ComposeTransform,
    CorrCholeskyTransform as CorrCholeskyTransform,
    CumulativeDistributionTransform as CumulativeDistributionTransform,
    ExpTransform as ExpTransform,
    IndependentTransform as IndependentTransform,
    LowerCholeskyTransform as LowerCholeskyTransform,
    PositiveDefiniteTransform as PositiveDefiniteTransform,
    PowerTransform as PowerTransform,
    ReshapeTransform as ReshapeTransform,
    SigmoidTransform as SigmoidTransform,
    SoftmaxTransform as SoftmaxTransform,
    SoftplusTransform as SoftplusTransform,
    StackTransform as StackTransform,
    StickBreakingTransform as StickBreakingTransform,
    TanhTransform as TanhTransform,
    Transform as Transform,
    identity_transform as identity_transform,
)
from livegrad.ops.support.strangers import asks

asks(__name__)

# PyTorch has a file for each, by which programs import it: `from …distributions.normal import …`.
for _name in (
    "bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet exponential "
    "fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy half_normal independent "
    "inverse_gamma kumaraswamy laplace lkj_cholesky log_normal logistic_normal "
    "lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal "
    "negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli "
    "relaxed_categorical studentT transformed_distribution uniform von_mises weibull wishart"
).split():
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = sys.modules[__name__]
