"""LU factors of matrices, and systems solved with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.views import row_major
from livegrad.ops.elementwise.arithmetic import add, cast, sub
from livegrad.ops.elementwise.comparison import eq
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    LinAlgError,
    Metas,
    adjoint as adjoint_of,
    as_row,
    check_field,
    check_matrices,
    check_same_dtype,
    check_square,
    codes,
    column_major,
    columns,
    factors,
    first_fault,
    lapack,
    on_diagonal,
    pack,
    packed,
    packed_meta,
    parts,
    places,
    rows,
    transposed,
)
from livegrad.ops.linalg.triangular import solve_triangular, tril, triu
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.products.matmul import matmul
from livegrad.ops.shaping.joining import cat
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.support.out import exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def lu_shapes(shape: Shape) -> list[Shape]:
    return [shape, (*shape[:-2], min(shape[-2:])), shape[:-2]]


def _lu_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("linalg.lu_factor", metas[0])
    return packed_meta(lu_shapes(metas[0].shape), metas[0].dtype)


def lu_arrays(a: Array) -> tuple[Array, Array, Array]:
    """LAPACK's LU, pivots counted from 1, and codes."""
    _, pivots_shape, batch = lu_shapes(a.shape)
    both, pivots = np.empty_like(a), np.empty(pivots_shape, np.int32)
    info = np.zeros(batch, np.int32)
    if a.size:
        getrf = lapack("getrf", a.dtype)
        for i in places(batch):
            both[i], pivots[i], info[i] = getrf(a[i])
    return both, pivots + 1, info


def _lu_ref(n: Any, a: Array) -> Array:
    both, pivots, info = lu_arrays(a)
    fault = first_fault(info)
    if n.attrs[0] and fault:
        raise LinAlgError(
            f"linalg.lu_factor: {fault[0]}U[{fault[1]},{fault[1]}] is zero: lu_solve would divide "
            "by zero. For the factors alone, call linalg.lu or linalg.lu_factor_ex"
        )
    return pack(both, pivots, info)


def _lu_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    shapes = lu_shapes(a.shape)
    both, pivots, _ = parts(y, shapes)
    height, width = a.shape[-2:]
    size = min(height, width)
    g_both = parts(g, shapes)[0]
    lower = _unit_lower(both)
    upper = triu(rows(both, 0, size))
    g_lower, g_upper = tril(columns(g_both, 0, size), -1), triu(rows(g_both, 0, size))
    order = permutation_matrix(codes(pivots), height, both)
    return matmul(order, _lu_backward(lower, upper, g_lower, g_upper))


def _lu_backward(lower: Tensor, upper: Tensor, g_lower: Tensor, g_upper: Tensor) -> Tensor:
    """Gradient of LU for what is factorised; of a wide or tall one the square part comes first.

    With X = L⁻¹ dA U⁻¹ of the square part: dL = L lower(X), dU = upper(X) U.
    """
    height, size = lower.shape[-2:]
    width = upper.shape[-1]
    square_l, square_u = rows(lower, 0, size), columns(upper, 0, size)
    inner = add(
        tril(matmul(adjoint_of(square_l), rows(g_lower, 0, size)), -1),
        triu(matmul(columns(g_upper, 0, size), adjoint_of(square_u))),
    )
    right = below = None
    if width > size:
        rest, g_rest = columns(upper, size, width), columns(g_upper, size, width)
        inner = sub(inner, tril(matmul(g_rest, adjoint_of(rest)), -1))
        right = solve_triangular(adjoint_of(square_l), g_rest, upper=True, unitriangular=True)
    if height > size:
        rest, g_rest = rows(lower, size, height), rows(g_lower, size, height)
        inner = sub(inner, triu(matmul(adjoint_of(rest), g_rest)))
        below = solve_triangular(adjoint_of(square_u), g_rest, upper=False, left=False)
    square = solve_triangular(adjoint_of(square_l), inner, upper=True, unitriangular=True)
    square = solve_triangular(adjoint_of(square_u), square, upper=False, left=False)
    if right is not None:
        return cat((square, right), -1)
    return square if below is None else cat((square, below), -2)


def _unit_lower(both: Tensor) -> Tensor:
    """The lower triangle of a packed LU, with ones on the diagonal."""
    height, width = both.shape[-2:]
    size = min(height, width)
    low = tril(columns(both, 0, size), -1)
    return add(low, cast(on_diagonal(height, size), both.dtype))


LU = Op(
    "linalg_lu_factor",
    "host",
    # [LU, pivots, code] of A = P L U; attrs (whether a code raises,).
    infer=_lu_infer,
    ref=_lu_ref,
    grads=(_lu_grad,),
    saves="y",
    autocast="float32",
    batch=packed(lambda a, checked: lu_shapes(a)),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: lu_factor(x)[0]),
        lambda: s.Sample((s.uniform(2, 2, 4),), lambda x: lu_factor(x)[0]),
        lambda: s.Sample((s.uniform(4, 2),), lambda x: lu(x)[1]),
        lambda: s.Sample((s.uniform(0, 2, 2),), lambda x: lu_factor(x)[0]),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: lu_factor(x)[0]),
    ),
)


@returned("linalg_lu_factor")
class lu_factor_result(NamedTuple):
    """L below and U on and above the diagonal of one matrix, and the rows exchanged."""

    LU: Tensor
    pivots: Tensor


@returned("linalg_lu_factor_ex")
class lu_factor_ex_result(NamedTuple):
    """L and U in one matrix, the rows exchanged, and LAPACK's code."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


@returned("linalg_lu")
class lu_result(NamedTuple):
    """Factors with A = P L U."""

    P: Tensor
    L: Tensor
    U: Tensor


def _check_pivot(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


def lu_parts(a: Tensor, checked: bool) -> tuple[Tensor, Tensor, Tensor]:
    """LU, pivots and code as tensors."""
    meta = node_of(a).meta
    check_matrices("linalg.lu_factor", meta)
    both, pivots, info = factors(record(LU, (a,), (checked,)), lu_shapes(meta.shape))
    return both, codes(pivots), codes(info)


@exact
def lu_factor(A: Tensor, *, pivot: bool = True) -> lu_factor_result:
    """L and U of A = P L U in one matrix, and the rows exchanged, for `lu_solve`."""
    _check_pivot("linalg.lu_factor", pivot)
    return lu_factor_result(*lu_parts(A, True)[:2])


@exact
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> lu_factor_ex_result:
    """`lu_factor` that tells by a code, instead of raising, that a matrix is singular."""
    _check_pivot("linalg.lu_factor_ex", pivot)
    return lu_factor_ex_result(*lu_parts(A, check_errors))


@exact
def lu(A: Tensor, *, pivot: bool = True) -> lu_result:
    """P, L and U with A = P L U."""
    _check_pivot("linalg.lu", pivot)
    both, pivots, _ = lu_parts(A, False)
    return lu_result(*unpacked(both, pivots))


def unpacked(both: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U of a packed LU."""
    height, width = both.shape[-2:]
    order = permutation_matrix(pivots, height, both)
    upper = triu(rows(both, 0, min(height, width)))
    return order, row_major(_unit_lower(both)), row_major(upper)


def _permutation_ref(n: Any, pivots: Array) -> Array:
    height = n.meta.shape[-1]
    order = np.broadcast_to(np.arange(height), n.meta.shape).copy()
    for k in range(pivots.shape[-1]):
        at = pivots[..., k : k + 1].astype(np.int64) - 1
        if at.size and (at.min() < 0 or at.max() >= height):
            raise RuntimeError(
                "lu_unpack: pivots passed to lu_unpack must be between 1 and LU.size(-2) "
                "inclusive. Did you properly pass the result of lu_factor?"
            )
        one, other = order[..., k : k + 1].copy(), np.take_along_axis(order, at, -1)
        order[..., k : k + 1] = other
        np.put_along_axis(order, at, one, -1)
    return order


PERMUTATION: Op = Op(
    "pivots_to_permutation",
    "host",
    # The order of rows after exchanging row i with row pivots[i] - 1, for each i in turn.
    infer=lambda metas, attrs, shape: meta_of(shape, dtypes.int64),
    ref=_permutation_ref,
    saves="",
    batch=lambda n, size, xs, batched: record(n.op, xs, n.attrs, n.args, (size, *n.meta.shape)),
    samples=s.calls(
        lambda: s.Sample(
            (np.array([[3, 2, 3], [1, 3, 3]], np.int32),),
            lambda p: record(PERMUTATION, (p,), (), (), (2, 4)),
            smooth=False,
        ),
    ),
)


def permutation_matrix(pivots: Tensor, height: int, like: Tensor) -> Tensor:
    """P with A = P L U, in the dtype of `like`."""
    shape = (*node_of(pivots).meta.shape[:-1], height)
    order = record(PERMUTATION, (pivots,), (), (), shape)
    column = reshape_to(counting(height), (height, 1))
    return cast(eq(as_row(order), column), node_of(like).meta.dtype)


@exact
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> lu_result:
    """P, L and U of the result of `lu_factor`; those not wanted are empty."""
    meta, pivots = node_of(LU_data).meta, node_of(LU_pivots).meta
    check_matrices("lu_unpack", meta, "LU_data")
    check_field("lu_unpack", meta)
    if unpack_pivots and pivots.dtype is not dtypes.int32:
        raise RuntimeError(
            "lu_unpack: LU_pivots is expected to be a contiguous tensor of dtype int32; got "
            f"{pivots.dtype.name}. Note: this function is intended to be used with the output "
            "produced by lu_factor"
        )
    wanted = (*meta.shape[:-2], min(meta.shape[-2:]))
    if unpack_pivots and pivots.shape != wanted:
        raise RuntimeError(
            f"lu_unpack: expected LU_pivots of shape {list(wanted)} for LU_data "
            f"{list(meta.shape)}; got {list(pivots.shape)}"
        )
    order, lower, upper = unpacked(LU_data, LU_pivots)
    empty = filled((0,), 0, meta.dtype)
    return lu_result(
        order if unpack_pivots else empty,
        lower if unpack_data else empty,
        upper if unpack_data else empty,
    )


# ----------------------------------------------------------------------------------- systems


@exact
@in_float32
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A X = B (X A = B if not `left`; Aᴴ for A if `adjoint`), from `lu_factor(A)`."""
    name = "linalg.lu_solve"
    meta, right, order = (node_of(x).meta for x in (LU, B, pivots))
    check_field(name, meta)
    check_square(name, meta, "LU")
    check_matrices(name, right, "B")
    check_same_dtype(name, meta, right)
    if order.dtype is not dtypes.int32:
        raise RuntimeError(
            f"{name}: pivots should be a Tensor of dtype int32; got {order.dtype.name}"
        )
    if order.shape != meta.shape[:-1]:
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix; "
            f"got LU {list(meta.shape)} and pivots {list(order.shape)}"
        )
    if meta.shape[-1] != right.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({list(meta.shape[-2:])} and "
            f"{list(right.shape[-2:])})"
        )
    if not left:  # X A = B is Aᴴ Xᴴ = Bᴴ
        return adjoint_of(_lu_solve(LU, pivots, adjoint_of(B), not adjoint))
    return _lu_solve(LU, pivots, B, adjoint)


def _lu_solve(both: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    order = permutation_matrix(pivots, node_of(both).meta.shape[-1], both)
    if adjoint:
        inner = solve_triangular(adjoint_of(both), b, upper=False)
        inner = solve_triangular(adjoint_of(both), inner, upper=True, unitriangular=True)
        return column_major(matmul(order, inner))
    inner = matmul(transposed(order), b)
    inner = solve_triangular(both, inner, upper=False, unitriangular=True)
    return solve_triangular(both, inner, upper=True)
