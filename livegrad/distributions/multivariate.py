"""Normal distributions of vectors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from livegrad.distributions import constraints
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.utils import bells, lazy_property
from livegrad.graph.infer import broadcast_shapes
from livegrad.ops.linalg.cholesky import cholesky, cholesky_inverse
from livegrad.ops.linalg.triangular import solve_triangular
from livegrad.tensor import Tensor


def half_log_det(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of `factor @ factor.T`, of a triangular factor."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def squared_distance(factor: Tensor, difference: Tensor) -> Tensor:
    """The squared length of a vector in the metric of `factor @ factor.T`."""
    solved = solve_triangular(factor, difference.unsqueeze(-1), upper=False)
    return solved.square().sum((-2, -1))


def factor_of_inverse(matrix: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a positive definite matrix."""
    # With rows and columns in reverse order the factor of the matrix is upper triangular.
    upper = cholesky(matrix.flip((-2, -1))).flip((-2, -1)).transpose(-2, -1)
    identity = matrix.new_ones((matrix.shape[-1],)).diag_embed()
    return solve_triangular(upper, identity.expand(matrix.shape), upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors, by their covariance, its inverse (the precision) or its Cholesky factor."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
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
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = broadcast_shapes(
            "MultivariateNormal", [tuple(matrix.shape[:-2]), tuple(loc.shape[:-1])]
        )
        size = loc.shape[-1]
        self.loc: Tensor = loc.expand((*batch, size))
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        super().__init__(batch, (size,), validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril: Tensor = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = factor_of_inverse(matrix)

    def _full(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._full(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._full(factor @ factor.transpose(-2, -1))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._full(cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        lengths = self._unbroadcasted_scale_tril.square().sum(-1)
        return lengths.expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = bells(self._extended_shape(sample_shape), self.loc.dtype)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        size = self._event_shape[0]
        constant = 0.5 * size * (1 + math.log(2 * math.pi))
        return (half_log_det(self._unbroadcasted_scale_tril) + constant).expand(self._batch_shape)

    def _log_prob(self, value: Tensor) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        distance = squared_distance(factor, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - half_log_det(factor)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors whose covariance is `cov_factor @ cov_factor.T + diag(cov_diag)`."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        size = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != size:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {size} x m")
        if cov_diag.ndim < 1 or cov_diag.shape[-1] != size:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {size}")
        shapes = [tuple(x.shape[:cut]) for x, cut in ((loc, -1), (cov_factor, -2), (cov_diag, -1))]
        batch = broadcast_shapes("LowRankMultivariateNormal", shapes)
        self.loc: Tensor = loc.expand((*batch, size))
        self.cov_factor: Tensor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag: Tensor = cov_diag.expand((*batch, size))
        super().__init__(batch, (size,), validate_args=validate_args)

    @lazy_property
    def _capacitance_tril(self) -> Tensor:
        """The factor of `1 + W.T @ D**-1 @ W`: small, where the covariance is large."""
        w = self.cov_factor
        inner = w.transpose(-2, -1) @ (w / self.cov_diag.unsqueeze(-1))
        return cholesky(inner + inner.new_ones((inner.shape[-1],)).diag_embed())

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        w = self.cov_factor
        return w @ w.transpose(-2, -1) + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by Woodbury's identity."""
        inverse = self.cov_diag.reciprocal()
        part = solve_triangular(
            self._capacitance_tril,
            (self.cov_factor * inverse.unsqueeze(-1)).transpose(-2, -1),
            upper=False,
        )
        return inverse.diag_embed() - part.transpose(-2, -1) @ part

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.__dict__.pop("_capacitance_tril", None)
        return new

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        low = bells((*shape[:-1], self.cov_factor.shape[-1]), self.loc.dtype)
        noise = self.cov_diag.sqrt() * bells(shape, self.loc.dtype)
        return self.loc + (self.cov_factor @ low.unsqueeze(-1)).squeeze(-1) + noise

    def _log_det(self) -> Tensor:
        return 2 * half_log_det(self._capacitance_tril) + self.cov_diag.log().sum(-1)

    def entropy(self) -> Tensor:
        return 0.5 * (self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._log_det())

    def _log_prob(self, value: Tensor) -> Tensor:
        difference = value - self.loc
        scaled = difference / self.cov_diag
        inner = (self.cov_factor.transpose(-2, -1) @ scaled.unsqueeze(-1)).squeeze(-1)
        distance = (difference * scaled).sum(-1) - squared_distance(self._capacitance_tril, inner)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + distance)
