"""LDL factors of symmetric matrices, which need not be definite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    LinAlgError,
    Metas,
    by_columns,
    check_field,
    check_matrices,
    check_same_dtype,
    check_square,
    codes,
    factors,
    first_fault,
    lapack,
    pack,
    packed,
    packed_meta,
    places,
    same_batch,
)
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def ldl_shapes(shape: Shape) -> list[Shape]:
    return [shape, shape[:-1], shape[:-2]]


def _ldl_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("linalg.ldl_factor", metas[0])
    check_square("linalg.ldl_factor", metas[0])
    return packed_meta(ldl_shapes(metas[0].shape), metas[0].dtype)


def _ldl_ref(n: Any, a: Array) -> Array:
    hermitian, checked = n.attrs
    _, pivots_shape, batch = ldl_shapes(a.shape)
    both, pivots = np.zeros_like(a), np.zeros(pivots_shape, np.int32)
    info = np.zeros(batch, np.int32)
    if a.size:
        kind = "hetrf" if hermitian and a.dtype.kind == "c" else "sytrf"
        routine = lapack(kind, a.dtype)
        for i in places(batch):
            found, pivots[i], info[i] = routine(a[i], lower=1)
            both[i] = np.tril(found)
    fault = first_fault(info)
    if checked and fault:
        raise LinAlgError(
            f"linalg.ldl_factor: {fault[0]}D[{fault[1]},{fault[1]}] is zero: solving with it would "
            "divide by zero"
        )
    return pack(both, pivots, info)


LDL = Op(
    "linalg_ldl_factor",
    "host",
    # [LD, pivots, code] of a symmetric A, of which the lower triangle is read; attrs (hermitian,
    # whether a code raises). Not differentiable, as in PyTorch.
    infer=_ldl_infer,
    ref=_ldl_ref,
    saves="",
    batch=packed(lambda a, hermitian, checked: ldl_shapes(a)),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: ldl_factor(x)[0], smooth=False),
        lambda: s.Sample((s.uniform(2, 2, 2),), lambda x: ldl_factor(x)[1], smooth=False),
        lambda: s.Sample((s.uniform(0, 0),), lambda x: ldl_factor(x)[0], smooth=False),
    ),
)


@returned("linalg_ldl_factor")
class ldl_factor_result(NamedTuple):
    """L and D in one matrix, and how rows were exchanged."""

    LD: Tensor
    pivots: Tensor


@returned("linalg_ldl_factor_ex")
class ldl_factor_ex_result(NamedTuple):
    """L and D in one matrix, how rows were exchanged, and LAPACK's code."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


@exact
def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> ldl_factor_ex_result:
    """`ldl_factor` that tells by a code, instead of raising, that D has a zero."""
    meta = node_of(A).meta
    check_square("linalg.ldl_factor_ex", meta)
    packed = record(LDL, (A,), (hermitian, check_errors))
    both, pivots, info = factors(packed, ldl_shapes(meta.shape))
    return ldl_factor_ex_result(both, codes(pivots), codes(info))


@exact
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> ldl_factor_result:
    """L and block-diagonal D of a symmetric (or hermitian) A = L D Lᵀ, for `ldl_solve`."""
    return ldl_factor_result(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


def _ldl_solve_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    return meta_of(shape, metas[0].dtype)


def _check_pivots(pivots: Array) -> None:
    """LAPACK believes the pivots: others than `ldl_factor` makes would have it write anywhere."""
    size, rest = len(pivots), pivots.tolist()
    if any([not 1 <= abs(p) <= size for p in rest]):
        raise RuntimeError(
            "linalg.ldl_solve: Pivots given to ldl_solve must all satisfy 1 <= |pivot| <= "
            f"LD.size(-2); got {rest}; expected numbers from 1 to {size}, or their negatives. Did "
            "you properly pass the result of ldl_factor?"
        )
    while rest:
        # A block of two rows is told by the same negative number twice.
        if rest.pop() < 0 and (not rest or rest.pop() >= 0):
            raise RuntimeError(
                "linalg.ldl_solve: negative pivots must come in pairs, one pair for each block of "
                f"two rows; got {pivots.tolist()}; expected the pivots of ldl_factor. Did you "
                "properly pass the result of ldl_factor?"
            )


def _ldl_solve_ref(n: Any, both: Array, pivots: Array, b: Array) -> Array:
    out = np.empty(n.meta.shape, b.dtype)
    if not out.size:
        return out
    kind = "hetrs" if n.attrs[0] and both.dtype.kind == "c" else "sytrs"
    routine = lapack(kind, both.dtype)
    batch = out.shape[:-2]
    both = np.broadcast_to(both, batch + both.shape[-2:])
    pivots = np.broadcast_to(pivots, batch + pivots.shape[-1:])
    b = np.broadcast_to(b, batch + b.shape[-2:])
    for i in places(batch):
        _check_pivots(pivots[i])
        out[i] = routine(both[i], pivots[i], b[i], lower=1)[0]
    return out


LDL_SOLVE = Op(
    "linalg_ldl_solve",
    "host",
    # X with A X = B from the factors of A: inputs (LD, pivots, B), attrs (hermitian,).
    layout=by_columns,
    infer=_ldl_solve_infer,
    ref=_ldl_solve_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 3), s.uniform(3, 2, seed=1)),
            lambda a, b: ldl_solve(ldl_factor(a).LD, ldl_factor(a).pivots, b),
            smooth=False,
        ),
    ),
)


@exact
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A X = B, from `ldl_factor(A)`."""
    meta, right = node_of(LD).meta, node_of(B).meta
    check_field("linalg.ldl_solve", meta)
    check_square("linalg.ldl_solve", meta, "LD")
    check_matrices("linalg.ldl_solve", right, "B")
    check_same_dtype("linalg.ldl_solve", meta, right)
    if node_of(pivots).meta.dtype.category != dtypes.INT:
        raise RuntimeError(
            "linalg.ldl_solve: Expected pivots to be integers; got "
            f"{node_of(pivots).meta.dtype.name}"
        )
    if node_of(pivots).meta.shape != meta.shape[:-1]:
        raise RuntimeError(
            "linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same; got LD "
            f"{list(meta.shape)} and pivots {list(node_of(pivots).meta.shape)}"
        )
    if right.shape[-2] != meta.shape[-1]:
        raise RuntimeError(
            f"linalg.ldl_solve: Incompatible matrix sizes; got LD {meta.shape} and B {right.shape}"
        )
    shape = (*same_batch("linalg.ldl_solve", LD, B), *right.shape[-2:])
    return record(LDL_SOLVE, (LD, pivots, B), (hermitian,), (), shape)
