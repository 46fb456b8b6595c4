"""Systems of linear equations, inverses, least squares."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad.graph.blame import as_index, one_or_several
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, mul, neg
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    LinAlgError,
    Metas,
    adjoint,
    as_column,
    by_columns,
    check_field,
    check_same_dtype,
    check_square,
    column_major,
    first_fault,
    identity,
    places,
    square_infer,
    transposed,
)
from livegrad.ops.linalg.lu import lu_arrays, lu_parts
from livegrad.ops.products.matmul import matmul
from livegrad.ops.shaping.movement import movedim, reshape_to
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.support.out import casting, exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _regular(x: Tensor) -> Tensor:
    """A matrix far from singular, for samples."""
    return add(x, mul(identity(x, x.shape[-1]), 3))


# --------------------------------------------------------------------------------------- solve


def _solve_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    a, b = metas
    batch = broadcast_shapes("linalg.solve", [a.shape[:-2], b.shape[:-2]])
    return meta_of((*batch, *b.shape[-2:]), a.dtype)


def _solve_ref(n: Any, a: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        fault = first_fault(lu_arrays(a)[2])
    if n.attrs[0]:
        raise LinAlgError(f"linalg.solve: {fault[0] if fault else ''}the matrix is singular")
    return _each(np.linalg.solve, n.meta.shape, a, b)


def _each(function: Any, shape: Shape, *arrays: Array) -> Array:
    """`function` matrix by matrix; NaN where a matrix is singular."""
    out = np.full(shape, np.nan, arrays[0].dtype)
    batch = shape[:-2]
    spread = [np.broadcast_to(x, batch + x.shape[-2:]) for x in arrays]
    for i in places(batch):
        try:
            out[i] = function(*[x[i] for x in spread])
        except np.linalg.LinAlgError:
            continue
    return out


def _solve_grad_b(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return record(SOLVE, (adjoint(a), g), y._node.attrs)


def _solve_grad_a(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return neg(matmul(_solve_grad_b(g, y, a, b), adjoint(y)))


SOLVE = Op(
    "linalg_solve",
    "host",
    # X with A X = B: inputs (A, B), attrs (whether a singular matrix raises,).
    layout=by_columns,
    infer=_solve_infer,
    ref=_solve_ref,
    grads=(_solve_grad_a, _solve_grad_b),
    autocast="float32",
    batch=batched.matrices,
    grad_fn="LinalgSolveExBackward0",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 3), s.uniform(3, 2, seed=1)), lambda a, b: solve(_regular(a), b)
        ),
        lambda: s.Sample(
            (s.uniform(2, 2, 2), s.uniform(3, 2, seed=1)),
            lambda a, b: solve(_regular(a), b, left=False),
        ),
        lambda: s.Sample((s.uniform(3, 3), s.uniform(3)), lambda a, b: solve(_regular(a), b)),
        lambda: s.Sample((s.uniform(0, 0), s.uniform(0, 2)), lambda a, b: solve(a, b)),
    ),
)


@returned("linalg_solve_ex")
class solve_ex_result(NamedTuple):
    """The solution, and LAPACK's code."""

    result: Tensor
    info: Tensor


def _is_vector(a: Meta, b: Meta) -> bool:
    """Whether B is (a batch of) vectors, by PyTorch's rule."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])


def _solve(a: Tensor, b: Tensor, left: bool, checked: bool) -> Tensor:
    name = "linalg.solve"
    left_meta, right_meta = node_of(a).meta, node_of(b).meta
    check_field(name, left_meta)
    check_square(name, left_meta)
    check_same_dtype(name, left_meta, right_meta)
    vector = _is_vector(left_meta, right_meta)
    if vector and not left:
        raise RuntimeError(
            f"{name}: Vector broadcasting of the left hand side is not supported for left=False. "
            "In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    if not right_meta.ndim:
        raise RuntimeError(f"{name}: B must have at least 1 dimension; got a 0-d tensor")
    right = as_column(b) if vector else b
    shape = node_of(right).meta.shape
    if shape[-2 if left else -1] != left_meta.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({list(left_meta.shape[-2:])} and "
            f"{list(shape[-2:])})"
        )
    if not left:
        return transposed(record(SOLVE, (transposed(a), transposed(right)), (checked,)))
    out = record(SOLVE, (a, right), (checked,))
    if not vector:
        return out
    out = reshape_to(out, node_of(out).meta.shape[:-1])
    # PyTorch lays vectors out as if they were the rows of a matrix.
    return column_major(out) if node_of(out).meta.ndim > 1 else out


@exact
@in_float32
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B (X A = B if not `left`); batches are broadcast."""
    return _solve(A, B, left, True)


@exact
@in_float32
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> solve_ex_result:
    """`solve` that tells by a code, instead of raising, that a matrix is singular."""
    out = _solve(A, B, left, check_errors)
    return solve_ex_result(out, lu_parts(A, False)[2])


# ------------------------------------------------------------------------------------- inverse


def _inv_ref(n: Any, a: Array) -> Array:
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        fault = first_fault(lu_arrays(a)[2])
    if n.attrs[0]:
        batch, place = fault or ("", a.shape[-1])
        raise LinAlgError(
            f"linalg.inv: {batch}The diagonal element {place} is zero, the inversion could not be "
            "completed because the input matrix is singular."
        )
    return _each(np.linalg.inv, a.shape, a)


def _inv_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    turned_y = adjoint(y)
    return neg(matmul(turned_y, matmul(g, turned_y)))


INV = Op(
    "linalg_inv",
    "host",
    # attrs (whether a singular matrix raises,).
    layout=by_columns,
    infer=square_infer("linalg.inv"),
    ref=_inv_ref,
    grads=(_inv_grad,),
    saves="y",
    autocast="float32",
    batch=batched.matrices,
    grad_fn="LinalgInvExBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: inv(_regular(x))),
        lambda: s.Sample((s.uniform(2, 2, 2),), lambda x: inv(_regular(x))),
        lambda: s.Sample((s.uniform(0, 0),), lambda x: inv(x)),
        lambda: s.Sample((s.uniform(0, 2, 2),), lambda x: inv(x)),
    ),
)


@returned("linalg_inv_ex")
class inv_ex_result(NamedTuple):
    """The inverse, and LAPACK's code."""

    inverse: Tensor
    info: Tensor


@exact
def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices."""
    return record(INV, (A,), (True,))


@exact
def inv_ex(A: Tensor, *, check_errors: bool = False) -> inv_ex_result:
    """`inv` that tells by a code, instead of raising, that a matrix is singular."""
    return inv_ex_result(record(INV, (A,), (check_errors,)), lu_parts(A, False)[2])


# ------------------------------------------------------------------ tensors taken for matrices


@casting
@in_float32
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of `A` as a map from its last dims to its first `ind` dims."""
    shape = node_of(A).meta.shape
    ind = as_index(ind)
    if ind <= 0:
        raise RuntimeError(
            f"linalg.tensorinv: Expected a strictly positive integer for 'ind'; got {ind}"
        )
    if ind > len(shape):
        raise RuntimeError(f"linalg.tensorinv: got ind {ind} for a tensor of {len(shape)} dims")
    first, last = shape[:ind], shape[ind:]
    if prod(first) != prod(last):
        raise RuntimeError(
            f"linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {prod(last)} != {prod(first)}"
        )
    return reshape_to(inv(reshape_to(A, (prod(first), prod(last)))), last + first)


@casting
@in_float32
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""
    if dims is not None:
        ndim = node_of(A).meta.ndim
        given = one_or_several(dims)
        A = movedim(A, given, tuple(range(ndim - len(given), ndim)))
    shape, right = node_of(A).meta.shape, node_of(B).meta
    if right.ndim > len(shape):
        raise RuntimeError(
            f"linalg.tensorsolve: got B of {right.ndim} dims for A of {len(shape)} dims"
        )
    last = shape[right.ndim :]
    if prod(last) != prod(shape[: right.ndim]) or prod(last) != right.numel:
        raise RuntimeError(
            "linalg.tensorsolve: Expected self to satisfy the requirement "
            f"prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got "
            f"{prod(last)} != {prod(shape[: right.ndim])}"
        )
    matrix = reshape_to(A, (right.numel, prod(last)))
    return reshape_to(solve(matrix, reshape_to(B, (right.numel,))), last)
