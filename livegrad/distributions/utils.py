"""What distributions share: parameters as tensors of one shape, and probabilities as log-odds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from livegrad import dtypes
from livegrad.creation import tensor
from livegrad.graph.meta import Shape, Size
from livegrad.ops.making.random import gaussian, uniform
from livegrad.ops.shaping.movement import broadcast_tensors
from livegrad.ops.shaping.triangles import tril_indices
from livegrad.ops.support.reading import is_tensor
from livegrad.tensor import Tensor

T = TypeVar("T")
euler_constant = 0.57721566490153286060

__all__ = [
    "Tensor",
    "bells",
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "sum_rightmost",
    "tril_matrix_to_vec",
    "units",
    "vec_to_tril_matrix",
]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of their common shape; numbers take the tensors' dtype."""
    for value in values:
        if not is_tensor(value) and not isinstance(value, int | float):
            raise ValueError(
                "Input arguments must all be instances of Number or livegrad.Tensor; "
                f"got {type(value).__name__}"
            )
    tensors = [x for x in values if is_tensor(x)]
    dtype = tensors[0].dtype if tensors else dtypes.get_default_dtype()
    whole = [x if is_tensor(x) else tensor(x, dtype=dtype) for x in values]
    return tuple(broadcast_tensors(*whole))


def units(shape: Shape, dtype: Any) -> Tensor:
    """Uniform random numbers in the open interval (0, 1), whose logarithms are finite."""
    drawn = uniform(tuple(shape), dtype)
    return drawn.clamp(min=dtypes.finfo(dtype).tiny)


def bells(shape: Shape, dtype: Any) -> Tensor:
    """Standard normal random numbers."""
    return gaussian(tuple(shape), dtype)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """`value` summed over its last `dims` dims."""
    return value if dims == 0 else value.sum(tuple(range(-dims, 0)))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the rounding unit of their dtype."""
    eps = dtypes.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from log-odds, or from unnormalised log-probabilities along the last dim."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds of probabilities, or log-probabilities along the last dim."""
    safe = clamp_probs(probs)
    return safe.log() - (-safe).log1p() if is_binary else safe.log()


class lazy_property(Generic[T]):
    """A property computed when it is first asked for, and an ordinary attribute from then on."""

    def __init__(self, wrapped: Callable[[Any], T]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


# The names by which packages of distributions use them.
_sum_rightmost = sum_rightmost


def _standard_normal(shape: Shape, dtype: Any, device: Any) -> Tensor:
    return bells(shape, dtype).to(device)


def as_size(shape: Any) -> Size:
    """A shape, given as any sequence of ints."""
    return Size(tuple(shape))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangles of square matrices, up to a diagonal, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The square matrices of which `vec` are the lower triangles; 0 above."""
    # The positive root of n² + (1 + 2 diag) n - |diag| (diag + 1) - 2 size = 0.
    size, step = vec.shape[-1], 1 + 2 * diag
    root = ((step**2 + 8 * size + 4 * abs(diag) * (diag + 1)) ** 0.5 - step) / 2
    n = round(root)
    if n - root > dtypes.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {size} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    rows, columns = tril_indices(n, n, diag)
    out = vec.new_zeros((*vec.shape[:-1], n, n))
    out[..., rows, columns] = vec
    return out
