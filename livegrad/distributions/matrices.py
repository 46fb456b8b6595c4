"""Distributions of matrices: covariances, and Cholesky factors of correlations."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from livegrad import dtypes
from livegrad.autograd.modes import no_grad
from livegrad.distributions import constraints
from livegrad.distributions.bounded import Beta
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.exp_family import ExponentialFamily
from livegrad.distributions.multivariate import factor_of_inverse, half_log_det
from livegrad.distributions.utils import bells, broadcast_all, lazy_property
from livegrad.graph.infer import broadcast_shapes
from livegrad.ops.linalg.cholesky import cholesky, cholesky_inverse, cholesky_solve
from livegrad.ops.linalg.determinants import slogdet
from livegrad.ops.making.generate import steps
from livegrad.ops.making.sampling import standard_gamma
from livegrad.ops.picking.masking import where
from livegrad.ops.shaping.joining import pad
from livegrad.ops.special.gamma import digamma, lgamma, mvlgamma
from livegrad.ops.support.reading import is_tensor
from livegrad.tensor import Tensor


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices of size `dim`.

    The density of a matrix is proportional to a power of its determinant: 1 for `concentration` 1,
    nearer to the identity for more. Lewandowski, Kurowicka and Joe, "Generating random correlation
    matrices based on vines and extended onion method" (2009).
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Row by row: how long the part left of the diagonal is, and in which direction."""
        shape = tuple(self._extended_shape(sample_shape))
        dtype = self.concentration.dtype
        with no_grad():
            places = pad(steps(self.dim - 1, 0.0, 1.0, dtype), (1, 0))
            rest = (self.concentration + 0.5 * (self.dim - 2)).unsqueeze(-1) - 0.5 * places
            lengths = Beta(0.5 * places + 0.5, rest, validate_args=False).sample(sample_shape)
            direction = bells(shape, dtype).tril(-1)
            size = direction.square().sum(-1, True).sqrt()
            unit = direction / where(size == 0, 1.0, size)
            left = lengths.sqrt().unsqueeze(-1) * unit
            tiny = dtypes.finfo(dtype).tiny
            return left + (1 - left.square().sum(-1)).clamp(min=tiny).sqrt().diag_embed()

    def _log_prob(self, value: Tensor) -> Tensor:
        c, below = self.concentration, self.dim - 1
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        order = 2 * (c - 1).unsqueeze(-1) + steps(below, self.dim - 2.0, -1.0, c.dtype)
        alpha = c + 0.5 * below
        norm = mvlgamma(alpha - 0.5, below) - below * lgamma(alpha)
        return (order * diagonal.log()).sum(-1) - norm - 0.5 * below * math.log(math.pi)


class Wishart(ExponentialFamily):
    """Sums of `df` outer products of normal vectors, by their covariance, precision or factor."""

    support = constraints.positive_definite
    has_rsample = True
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        chosen = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(chosen) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        name, matrix = chosen[0]
        if matrix.ndim < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        whole = df if is_tensor(df) else matrix.new_full((), float(df))
        batch = broadcast_shapes("Wishart", [tuple(whole.shape), tuple(matrix.shape[:-2])])
        size = matrix.shape[-1]
        self._size: int = size
        self.df: Tensor = whole.expand(batch)
        self.__dict__[name] = matrix.expand((*batch, size, size))
        super().__init__(batch, (size, size), validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril: Tensor = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = factor_of_inverse(matrix)

    @property
    def arg_constraints(self) -> Any:
        """There must be more degrees of freedom than the size of the matrices, less one."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._size - 1),
        }

    def _full(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._full(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the vectors."""
        factor = self._unbroadcasted_scale_tril
        return self._full(factor @ factor.transpose(-2, -1))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._full(cholesky_inverse(self._unbroadcasted_scale_tril))

    def _freedom(self) -> Tensor:
        return self.df.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._freedom() * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self._freedom() - self._size - 1
        return where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._freedom() * (v.square() + outer)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        # Bartlett's decomposition: chi numbers on the diagonal, normal ones below it.
        less = steps(self._size, 0.0, 1.0, self.df.dtype)
        freedom = 0.5 * (self.df.unsqueeze(-1) - less)
        chi2 = 2 * standard_gamma(freedom.expand(shape[:-1]))
        noise = bells(shape, self.df.dtype).tril(-1) + chi2.sqrt().diag_embed()
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.transpose(-2, -1)

    def entropy(self) -> Tensor:
        p, df = self._size, self.df
        halves = 0.5 * (df.unsqueeze(-1) - steps(p, 0.0, 1.0, df.dtype))
        spread = 0.5 * (df - p - 1) * digamma(halves).sum(-1)
        norm = (p + 1) * half_log_det(self._unbroadcasted_scale_tril) + mvlgamma(0.5 * df, p)
        return norm + 0.5 * p * (p + 1) * math.log(2) - spread + 0.5 * df * p

    def _log_prob(self, value: Tensor) -> Tensor:
        p, df, factor = self._size, self.df, self._unbroadcasted_scale_tril
        factor = factor.expand((*value.shape[:-2], p, p))
        trace = cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        norm = df * (0.5 * p * math.log(2) + half_log_det(self._unbroadcasted_scale_tril))
        power = 0.5 * (df - p - 1) * slogdet(value)[1]
        return power - 0.5 * trace - norm - mvlgamma(0.5 * df, p)
