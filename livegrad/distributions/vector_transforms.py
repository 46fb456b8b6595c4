"""Transforms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from livegrad import dtypes
from livegrad.distributions import constraints
from livegrad.distributions.transform import Transform
from livegrad.distributions.utils import as_size
from livegrad.ops.layers.smooth_activation import softplus
from livegrad.ops.linalg.cholesky import cholesky
from livegrad.ops.making.generate import steps
from livegrad.ops.shaping.joining import pad
from livegrad.ops.shaping.triangles import tril_indices
from livegrad.tensor import Tensor


class SoftmaxTransform(Transform):
    """`y = softmax(x)`: onto the simplex, but many `x` give one `y`."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _need_dims(shape, 1)

    inverse_shape = forward_shape


def _need_dims(shape: Any, dims: int) -> Any:
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")
    return shape


class StickBreakingTransform(Transform):
    """K numbers onto the simplex of K + 1: each says which share of the rest is broken off."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    def _offset(self, x: Tensor) -> Tensor:
        """log(K), log(K - 1), … 0: with it, x = 0 gives equal shares."""
        return steps(x.shape[-1], float(x.shape[-1]), -1.0, x.dtype).log()

    def _call(self, x: Tensor) -> Tensor:
        share = (x - self._offset(x)).sigmoid()
        rest = (1 - share).cumprod(-1)
        return pad(share, (0, 1), value=1.0) * pad(rest, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        first = y[..., :-1]
        rest = (1 - first.cumsum(-1)).clamp(min=dtypes.finfo(y.dtype).tiny)
        return first.log() - rest.log() + self._offset(first)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # A share has the slope share * (1 - share) * rest, and share * rest is y.
        return (y[..., :-1].log() - softplus(x - self._offset(x))).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        _need_dims(shape, 1)
        return as_size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        _need_dims(shape, 1)
        return as_size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """A matrix to a lower triangular one, by the exponential of its diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """A matrix to a positive definite one."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.transpose(-2, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(Transform):
    """K (K - 1) / 2 numbers to the Cholesky factor of a K x K correlation matrix.

    tanh of the numbers fills the part below the diagonal; each is the share that a row still has of
    its length 1, as in stick breaking.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = dtypes.finfo(x.dtype).eps
        r = _to_lower(x.tanh().clamp(min=-1 + eps, max=1 - eps), -1)
        remaining = (1 - r * r).sqrt().cumprod(-1)
        unit = r + _identity(r)
        return unit * pad(remaining[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        used = (y * y).cumsum(-1)
        remaining = pad((1 - used)[..., :-1], (1, 0), value=1.0)
        share = _from_lower(y, -1) / _from_lower(remaining, -1).sqrt()
        return (share.log1p() - (-share).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        volume = 0.5 * _from_lower(left, -2).log().sum(-1)
        curve = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return volume + curve

    def forward_shape(self, shape: Any) -> Any:
        _need_dims(shape, 1)
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return as_size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        _need_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return as_size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


def _identity(like: Tensor) -> Tensor:
    return like.new_ones((like.shape[-1],)).diag_embed()


def _to_lower(vector: Tensor, diagonal: int) -> Tensor:
    """The matrix with a vector's elements, row by row, in its lower triangle."""
    count = vector.shape[-1]
    size = round((0.25 + 2 * count) ** 0.5 + 0.5)
    rows, columns = tril_indices(size, size, diagonal)
    matrix = vector.new_zeros((*vector.shape[:-1], size * size))
    places = (rows * size + columns).expand(vector.shape)
    return matrix.scatter(-1, places, vector).reshape((*vector.shape[:-1], size, size))


def _from_lower(matrix: Tensor, diagonal: int) -> Tensor:
    """The elements of a matrix's lower triangle, row by row."""
    size = matrix.shape[-1]
    rows, columns = tril_indices(size, size, diagonal)
    return matrix.flatten(-2).index_select(-1, rows * size + columns)
