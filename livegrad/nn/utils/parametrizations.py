"""Ready-made parametrizations: orthogonal, weight_norm, spectral_norm."""

from __future__ import annotations

from typing import Any

from livegrad import dtypes, linalg
from livegrad.autograd import no_grad
from livegrad.creation import zeros, zeros_like
from livegrad.nn import functional as F
from livegrad.nn.conv import _ConvTransposeNd
from livegrad.nn.module import Module
from livegrad.nn.parameter import is_lazy
from livegrad.nn.utils import parametrize
from livegrad.nn.utils.weight_norm import norm_except_dim
from livegrad.ops.elementwise.arithmetic import where
from livegrad.ops.linalg.orthogonal import geqrf
from livegrad.ops.making.random import randn
from livegrad.ops.products.matmul import mv, vdot
from livegrad.ops.shaping.joining import cat
from livegrad.sequences import eye
from livegrad.tensor import Tensor

# ---------------------------------------------------------------------------------- orthogonal


def _is_orthogonal(q: Any) -> bool:
    size = q.shape[-1]
    eps = 10 * size * dtypes.finfo(q.dtype.to_real()).eps
    return bool((q.mH @ q - eye(size, dtype=q.dtype)).abs().max() < eps)


def _make_orthogonal(a: Any) -> Any:
    """The orthogonal part of a tall matrix, made unique by a positive diagonal of the rest."""
    q, r = linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """From any matrix to one with orthonormal columns (or rows, if they are fewer).

    With a `base`, which is orthogonal, the map starts there: the learned matrix starts as -I.
    """

    def __init__(self, weight: Any, orthogonal_map: str, *, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """The orthogonal matrix."""
        wide = X.shape[-2] < X.shape[-1]
        q = self._of_tall(X.mT if wide else X)
        if "base" in self._buffers:
            q = self.base @ q
        return q.mT if wide else q

    def _of_tall(self, x: Tensor) -> Tensor:
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            below = x.tril(-1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            # The diagonal holds signs, which are not learned.
            signs = x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
            return linalg.householder_product(below, tau) * signs
        x = x.tril()
        if n != k:
            x = cat([x, zeros(*x.shape[:-1], n - k, dtype=x.dtype)], -1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = linalg.matrix_exp(skew)
        else:
            identity = eye(n, dtype=skew.dtype)
            q = linalg.solve(identity - 0.5 * skew, identity + 0.5 * skew)
        return q if n == k else q[..., :k]

    def right_inverse(self, Q: Any) -> Any:
        """The learned matrix from which an orthogonal one is computed."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        with no_grad():
            wide = Q.shape[-2] < Q.shape[-1]
            q = Q.mT if wide else Q
            if "base" not in self._buffers:
                made = self._without_base(q)
                return made.mT if wide else made
            n, k = q.shape[-2:]
            if n != k:
                q = _make_orthogonal(cat([q, randn(*q.shape[:-1], n - k, dtype=q.dtype)], -1))
            else:
                q = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
            self.base = q
            start = zeros_like(Q)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start

    def _without_base(self, q: Any) -> Any:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        reflectors, tau = geqrf(q)
        diagonal = reflectors.diagonal(dim1=-2, dim2=-1)
        # LAPACK leaves a reflection out where tau is 0, which turns the sign.
        signs = diagonal.sign()
        diagonal.copy_(where(tau == 0.0, -signs, signs))
        return reflectors


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keeps a matrix (or a batch of them) orthogonal while it is learned.

    Args:
        orthogonal_map: "matrix_exp", "cayley" or "householder"; by default the first for square
            and complex matrices, else the last.
        use_trivialization: learn the way from a matrix that is kept as `base`.
    """
    weight = getattr(module, name, None)
    if not hasattr(weight, "ndim") or is_lazy(weight):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight is None or weight.ndim < 2:
        raise ValueError("Expected a matrix or batch of matrices; got a tensor of fewer dims")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


# --------------------------------------------------------------------------------- weight norm


class _WeightNorm(Module):
    """From a length and a direction per row to a matrix."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """`weight_v` with the length `weight_g`."""
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """Length and direction of `weight`."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Module:
    """Learns length and direction of a weight apart; all dims but `dim` make up a vector."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    new = [f"parametrizations.{name}.original{i}" for i in (0, 1)]

    def from_old_names(module: Any, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state for key in old):
            for key, other in zip(old, new, strict=True):
                state[prefix + other] = state.pop(key)

    module.register_load_state_dict_pre_hook(from_old_names)
    return module  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------- spectral norm


class _SpectralNorm(Module):
    """From a matrix to the same divided by its largest singular value.

    That is found by power iteration, a step or more per call while training; `_u` and `_v` are the
    singular vectors so far.
    """

    _u: Any
    _v: Any

    def __init__(
        self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{ndim}, {ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._as_matrix(weight)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                start = F.normalize(randn(size, dtype=weight.dtype), dim=0, eps=eps)
                self.register_buffer(name, start)
            self._power_method(matrix, 15)

    def _as_matrix(self, weight: Any) -> Any:
        if self.dim:
            weight = weight.movedim(self.dim, 0)
        return weight.flatten(1)

    def _power_method(self, matrix: Any, iterations: int) -> None:
        with no_grad():
            matrix = matrix.detach()
            for _ in range(iterations):
                self._u.copy_(F.normalize(mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(mv(matrix.mT, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """`weight` with the largest singular value 1."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        return weight / vdot(self._u, mv(matrix, self._v))

    def right_inverse(self, value: Any) -> Any:
        """`value`, although it may have another norm."""
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Keeps the largest singular value of a weight at 1; rows are along `dim`."""
    weight = getattr(module, name, None)
    if not hasattr(weight, "ndim") or weight is None:
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if is_transposed(module) else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)


def is_transposed(module: Any) -> bool:
    """Whether the weight of a module has its inputs first."""
    return isinstance(module, _ConvTransposeNd)


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
