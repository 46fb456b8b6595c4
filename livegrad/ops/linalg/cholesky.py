"""Cholesky factors of positive definite matrices, and systems solved with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, mul, neg
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    LinAlgError,
    Metas,
    adjoint,
    by_columns,
    check_field,
    check_matrices,
    check_same_dtype,
    check_square,
    codes,
    column_major,
    first_fault,
    identity,
    lapack,
    on_diagonal,
    pack,
    packed,
    packed_meta,
    parts,
    places,
    square_infer,
)
from livegrad.ops.linalg.triangular import solve_triangular, tril
from livegrad.ops.products.matmul import matmul
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.out import casting, exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def cholesky_shapes(shape: Shape) -> list[Shape]:
    return [shape, shape[:-2]]


def _cholesky_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("linalg.cholesky", metas[0])
    check_square("linalg.cholesky", metas[0])
    return packed_meta(cholesky_shapes(metas[0].shape), metas[0].dtype)


def _cholesky_ref(n: Any, a: Array) -> Array:
    info = np.zeros(a.shape[:-2], np.int32)
    try:
        return pack(np.linalg.cholesky(a), info)
    except np.linalg.LinAlgError:
        potrf = lapack("potrf", a.dtype)
    factor = np.empty_like(a)
    for i in places(info.shape):
        factor[i], info[i] = potrf(a[i], lower=1, clean=1)
    fault = first_fault(info)
    if n.attrs[0] and fault:
        raise LinAlgError(
            f"linalg.cholesky: {fault[0]}The factorization could not be completed because the "
            f"input is not positive-definite (the leading minor of order {fault[1]} is not "
            "positive-definite)."
        )
    return pack(factor, info)


def _cholesky_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """L⁻ᴴ Φ(Lᴴ gL) L⁻¹ made symmetric, where Φ takes the lower triangle and half the diagonal."""
    shapes = cholesky_shapes(a.shape)
    factor, _ = parts(y, shapes)
    gl, _ = parts(g, shapes)
    inner = matmul(adjoint(factor), gl)
    inner = mul(add(tril(inner), adjoint(tril(inner, -1))), 0.5)
    left = solve_triangular(adjoint(factor), inner, upper=True)
    return solve_triangular(factor, left, upper=False, left=False)


def _definite(x: Tensor) -> Tensor:
    """A positive definite matrix made of any, for samples."""
    size = x.shape[-1]
    return add(matmul(x, adjoint(x)), cast(on_diagonal(size, size), x.dtype))


CHOLESKY = Op(
    "linalg_cholesky",
    "host",
    # [L, code] of A = L Lᴴ, of which the lower triangle is read; attrs (whether a code raises,).
    infer=_cholesky_infer,
    ref=_cholesky_ref,
    grads=(_cholesky_grad,),
    saves="y",
    autocast="float32",
    batch=packed(lambda a, checked: cholesky_shapes(a)),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: cholesky(_definite(x))),
        lambda: s.Sample((s.uniform(2, 2, 2),), lambda x: cholesky(_definite(x), upper=True)),
        lambda: s.Sample((s.uniform(0, 0),), lambda x: cholesky(x)),
        lambda: s.Sample((s.uniform(0, 2, 2),), lambda x: cholesky(x)),
    ),
)


@returned("linalg_cholesky_ex")
class cholesky_ex_result(NamedTuple):
    """The factor, and LAPACK's code: 0, or the order of the minor that is not positive."""

    L: Tensor
    info: Tensor


def _cholesky(a: Tensor, upper: bool, checked: bool) -> tuple[Tensor, Tensor]:
    check_matrices("linalg.cholesky", node_of(a).meta)
    source = adjoint(a) if upper else a
    packed = record(CHOLESKY, (source,), (checked,))
    factor, info = parts(packed, cholesky_shapes(node_of(a).meta.shape))
    return column_major(adjoint(factor) if upper else factor), codes(info)


@exact
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L Lᴴ (or its adjoint) of positive definite matrices."""
    return _cholesky(A, upper, True)[0]


@exact
def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False
) -> cholesky_ex_result:
    """`cholesky` that tells by a code, instead of raising, what is not positive definite."""
    return cholesky_ex_result(*_cholesky(A, upper, check_errors))


# --------------------------------------------------------------------------- systems, inverses


# As in PyTorch, the gradient is that of a function of L Lᴴ: it does not stay in one triangle.


def _solve_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    b, factor = metas
    batch = broadcast_shapes("cholesky_solve", [b.shape[:-2], factor.shape[:-2]])
    return meta_of((*batch, *b.shape[-2:]), b.dtype)


def _solve_expand(n: Any, b: Tensor, factor: Tensor) -> Tensor:
    low = adjoint(factor) if n.attrs[0] else factor
    inner = solve_triangular(low, b, upper=False)
    return solve_triangular(adjoint(low), inner, upper=True)


def _solve_grad_b(g: Tensor, y: Tensor, b: Tensor, factor: Tensor) -> Tensor:
    return record(CHOLESKY_SOLVE, (g, factor), y._node.attrs)


def _solve_grad_factor(g: Tensor, y: Tensor, b: Tensor, factor: Tensor) -> Tensor:
    product = matmul(_solve_grad_b(g, y, b, factor), adjoint(y))
    return _of_product(add(product, adjoint(product)), factor, y)


def _of_product(common: Tensor, factor: Tensor, y: Tensor) -> Tensor:
    upper = y._node.attrs[0]
    return neg(matmul(factor, common) if upper else matmul(common, factor))


CHOLESKY_SOLVE: Op = Op(
    "cholesky_solve",
    "composite",
    # X with L Lᴴ X = B: inputs (B, L), attrs (whether L is upper: then Lᴴ L X = B,).
    layout=by_columns,
    infer=_solve_infer,
    expand=_solve_expand,
    grads=(_solve_grad_b, _solve_grad_factor),
    autocast="float32",
    batch=batched.matrices,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 2), s.uniform(3, 3, seed=1)),
            lambda b, x: cholesky_solve(b, cholesky(_definite(x))),
        ),
        lambda: s.Sample(
            (s.uniform(2, 2), s.uniform(3, 2, 2, seed=1)),
            lambda b, x: cholesky_solve(b, cholesky(_definite(x), upper=True), upper=True),
        ),
    ),
)


def _inverse_expand(n: Any, factor: Tensor) -> Tensor:
    unit = identity(factor, factor.shape[-1])
    return record(CHOLESKY_SOLVE, (unit, factor), n.attrs)


def _inverse_grad(g: Tensor, y: Tensor, factor: Tensor) -> Tensor:
    return _of_product(matmul(y, matmul(add(g, adjoint(g)), y)), factor, y)


CHOLESKY_INVERSE = Op(
    "cholesky_inverse",
    "composite",
    # The inverse of L Lᴴ: attrs (whether L is upper: then of Lᴴ L,).
    layout=by_columns,
    infer=square_infer("cholesky_inverse"),
    expand=_inverse_expand,
    grads=(_inverse_grad,),
    autocast="float32",
    batch=batched.matrices,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: cholesky_inverse(cholesky(_definite(x)))),
        lambda: s.Sample((s.uniform(0, 0),), lambda x: cholesky_inverse(x)),
    ),
)


@casting
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A X = B, from the Cholesky factor L of A."""
    factor, right = node_of(L).meta, node_of(B).meta
    check_field("cholesky_solve", factor)
    check_square("cholesky_solve", factor, "L")
    check_matrices("cholesky_solve", right, "B")
    check_same_dtype("cholesky_solve", factor, right)
    if factor.shape[-1] != right.shape[-2]:
        raise RuntimeError(
            "cholesky_solve: Incompatible matrix sizes; got L of shape "
            f"{list(factor.shape)} and B of shape {list(right.shape)}"
        )
    return record(CHOLESKY_SOLVE, (B, L), (bool(upper),))


@casting
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, from its Cholesky factor L."""
    return record(CHOLESKY_INVERSE, (L,), (bool(upper),))
