"""Systems with triangular matrices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, clone, mul, neg
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    Metas,
    adjoint,
    blas,
    broadcast,
    by_columns,
    check_field,
    check_matrices,
    check_same_dtype,
    check_square,
    column_major,
    identity,
    places,
    same_batch,
    transposed,
)
from livegrad.ops.products.matmul import matmul
from livegrad.ops.shaping.triangles import TRIL, TRIU
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.out import exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangles of matrices."""
    return record(TRIL, (x,), (), (diagonal,))


def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangles of matrices."""
    return record(TRIU, (x,), (), (diagonal,))


def _infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    a, b = metas
    batch = broadcast_shapes("linalg.solve_triangular", [a.shape[:-2], b.shape[:-2]])
    return meta_of((*batch, *b.shape[-2:]), a.dtype)


def _ref(n: Any, a: Array, b: Array) -> Array:
    upper, left, unit = n.attrs
    out = np.empty(n.meta.shape, b.dtype)
    if not out.size:
        return out
    batch = out.shape[:-2]
    a, b = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b))
    if prod(batch) > a.shape[-1]:
        if left:
            _substitute(out, a, b, upper, unit)
        else:  # X A = B is Aᵀ Xᵀ = Bᵀ
            _substitute(
                out.swapaxes(-1, -2), a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, unit
            )
        return out
    trsm = blas("trsm", b.dtype)
    # BLAS counts in columns: what it is given are the transposes of our rows.
    for i in places(batch):
        out[i] = trsm(1, a[i].T, b[i].T, side=left, lower=upper, diag=unit).T
    return out


def _substitute(out: Array, a: Array, b: Array, upper: bool, unit: bool) -> None:
    """A X = B for many small matrices: one row of all of them after the other, where BLAS would be
    called for each of them."""
    size = a.shape[-1]
    out[...] = b
    for i in reversed(range(size)) if upper else range(size):
        if not unit:
            out[..., i, :] /= a[..., i, i, None]
        rest = slice(i) if upper else slice(i + 1, size)
        out[..., rest, :] -= a[..., rest, i, None] * out[..., i, None, :]


def _grad_b(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    upper, left, unit = y._node.attrs
    return record(SOLVE_TRIANGULAR, (adjoint(a), g), (not upper, left, unit))


def _grad_a(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    upper, left, unit = y._node.attrs
    gb = _grad_b(g, y, a, b)
    product = matmul(gb, adjoint(y)) if left else matmul(adjoint(y), gb)
    # What is not read (the other triangle, a diagonal of ones) has no gradient.
    return triu(neg(product), int(unit)) if upper else tril(neg(product), -int(unit))


def _steep(x: Tensor, upper: bool) -> Tensor:
    """A well-conditioned triangular matrix for samples."""
    part = triu(x) if upper else tril(x)
    return add(part, mul(identity(x, x.shape[-1]), 2))


SOLVE_TRIANGULAR = Op(
    "linalg_solve_triangular",
    "host",
    # X with A X = B (or X A = B): inputs (A, B), attrs (upper, left, unit diagonal).
    layout=by_columns,
    infer=_infer,
    ref=_ref,
    grads=(_grad_a, _grad_b),
    autocast="float32",
    batch=batched.matrices,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 3), s.uniform(3, 2, seed=1)),
            lambda a, b: solve_triangular(_steep(a, True), b, upper=True),
        ),
        lambda: s.Sample(
            (s.uniform(2, 1, 2, 2), s.uniform(3, 1, 2, seed=1)),
            lambda a, b: solve_triangular(_steep(a, False), b, upper=False, left=False),
        ),
        lambda: s.Sample(
            (s.uniform(3, 3), s.uniform(3, 2, seed=1)),
            lambda a, b: solve_triangular(a, b, upper=False, unitriangular=True),
        ),
        lambda: s.Sample(
            (s.uniform(0, 0), s.uniform(0, 2)), lambda a, b: solve_triangular(a, b, upper=True)
        ),
    ),
)


@exact
def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """X with A X = B (X A = B if not `left`), reading one triangle of A only."""
    name = "linalg.solve_triangular"
    a, b = node_of(A).meta, node_of(B).meta
    check_square(name, a)
    check_matrices(name, b, "B")
    check_same_dtype(name, a, b)
    check_field(name, a)
    if a.shape[-1] != b.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({list(a.shape[-2:])} and {list(b.shape[-2:])})"
        )
    return record(SOLVE_TRIANGULAR, (A, B), (bool(upper), bool(left), bool(unitriangular)))


@returned("triangular_solve")
class triangular_solve_result(NamedTuple):
    """X with A X = b, and the A it was solved for."""

    solution: Tensor
    cloned_coefficient: Tensor


@exact
def triangular_solve(
    b: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> triangular_solve_result:
    """(X with A X = b, A); see `linalg.solve_triangular`."""
    check_square("triangular_solve", node_of(A).meta)
    check_matrices("triangular_solve", node_of(b).meta, "b")
    batch = same_batch("triangular_solve", A, b)
    source = transposed(A) if transpose else A
    solution = solve_triangular(source, b, upper=upper != transpose, unitriangular=unitriangular)
    return triangular_solve_result(
        solution, column_major(clone(broadcast(A, (*batch, *node_of(A).meta.shape[-2:]))))
    )
