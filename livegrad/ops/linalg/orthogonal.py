"""QR factors of matrices, and the Householder reflectors they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.op import Op, may_refuse
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, mul, sub, where
from livegrad.ops.elementwise.comparison import eq, gt
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    Metas,
    adjoint,
    as_row,
    by_columns,
    check_field,
    check_matrices,
    columns,
    conj,
    diag_embed,
    diagonal_of,
    factors,
    lapack,
    on_diagonal,
    pack,
    packed,
    packed_meta,
    parts,
    places,
)
from livegrad.ops.linalg.triangular import solve_triangular, triu
from livegrad.ops.making.generate import counting, filled, zeros_like
from livegrad.ops.products.matmul import matmul
from livegrad.ops.shaping.joining import cat
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.support.out import casting, exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def qr_shapes(shape: Shape, mode: str) -> list[Shape]:
    *batch, height, width = shape
    size = height if mode == "complete" else min(height, width)
    if mode == "r":
        return [(*batch, size, width)]
    return [(*batch, height, size), (*batch, size, width)]


def _qr_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("linalg.qr", metas[0])
    return packed_meta(qr_shapes(metas[0].shape, attrs[0]), metas[0].dtype)


def _qr_ref(n: Any, a: Array) -> Array:
    mode = n.attrs[0]
    if mode == "r":
        return pack(np.linalg.qr(a, mode))
    return pack(*np.linalg.qr(a, mode))


@may_refuse
def _qr_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    mode = y._node.attrs[0]
    height, width = a.shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(A, mode='reduced') if you are going to require gradients"
        )
    if mode == "complete" and height > width:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )
    shapes = qr_shapes(a.shape, mode)
    (q, r), (gq, gr) = parts(y, shapes), parts(g, shapes)
    if height >= width:
        return _tall_qr_grad(q, r, gq, gr)
    # The rest of a wide matrix is Q times the rest of R.
    rest, g_rest = columns(a, height, width), columns(gr, height, width)
    gq = add(gq, matmul(rest, adjoint(g_rest)))
    square = _tall_qr_grad(q, columns(r, 0, height), gq, columns(gr, 0, height))
    return cat((square, matmul(q, g_rest)), -1)


def _tall_qr_grad(q: Tensor, r: Tensor, gq: Tensor, gr: Tensor) -> Tensor:
    """(gQ + Q sym(gR Rᴴ - Qᴴ gQ)) R⁻ᴴ, where sym mirrors the upper triangle."""
    inner = triu(sub(matmul(gr, adjoint(r)), matmul(adjoint(q), gq)))
    both = add(inner, adjoint(inner))
    inner = sub(both, diag_embed(mul(diagonal_of(both), 0.5)))
    total = add(matmul(q, inner), gq)
    return solve_triangular(adjoint(r), total, upper=False, left=False)


QR = Op(
    "linalg_qr",
    "host",
    # [Q, R] of A = Q R with orthonormal columns of Q; attrs (mode,).
    infer=_qr_infer,
    ref=_qr_ref,
    grads=(_qr_grad,),
    autocast="float32",
    batch=packed(qr_shapes),
    samples=s.calls(
        lambda: s.Sample((s.uniform(4, 3),), lambda x: qr(x)[0]),
        lambda: s.Sample((s.uniform(2, 2, 3),), lambda x: qr(x)[1]),
        lambda: s.Sample((s.uniform(2, 3),), lambda x: qr(x, "complete")[0]),
        lambda: s.Sample((s.uniform(4, 3),), lambda x: qr(x, "r")[1], smooth=False),
        lambda: s.Sample((s.uniform(4, 2),), lambda x: qr(x, "complete")[0], smooth=False),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: qr(x)[1]),
    ),
)


@returned("linalg_qr")
class qr_result(NamedTuple):
    """Factors with A = Q R."""

    Q: Tensor
    R: Tensor


@exact
def qr(A: Tensor, mode: str = "reduced") -> qr_result:
    """Q with orthonormal columns and upper triangular R with A = Q R.

    Args:
        mode: "reduced" gives as many columns of Q as needed, "complete" all, "r" none.
    """
    meta = node_of(A).meta
    check_matrices("linalg.qr", meta)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            "'r', or 'complete'"
        )
    found = factors(record(QR, (A,), (mode,)), qr_shapes(meta.shape, mode))
    if mode == "r":
        return qr_result(filled((0,), 0, meta.dtype), found[0])
    return qr_result(*found)


@returned("geqrf")
class geqrf_result(NamedTuple):
    """R on and above the diagonal, the reflectors that make Q below it, and their factors."""

    a: Tensor
    tau: Tensor


def geqrf_shapes(shape: Shape) -> list[Shape]:
    return [shape, (*shape[:-2], min(shape[-2:]))]


def _geqrf_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("geqrf", metas[0])
    return packed_meta(geqrf_shapes(metas[0].shape), metas[0].dtype)


def _geqrf_ref(n: Any, a: Array) -> Array:
    shape, tau_shape = geqrf_shapes(a.shape)
    both, tau = np.empty(shape, a.dtype), np.empty(tau_shape, a.dtype)
    if a.size:
        geqrf = lapack("geqrf", a.dtype)
        for i in places(shape[:-2]):
            both[i], tau[i] = geqrf(a[i])[:2]
    return pack(both, tau)


GEQRF = Op(
    "geqrf",
    "host",
    # [R and reflectors, tau]. Not differentiable, as in PyTorch.
    infer=_geqrf_infer,
    ref=_geqrf_ref,
    saves="",
    autocast="float32",
    batch=packed(geqrf_shapes),
    samples=s.calls(
        lambda: s.Sample((s.uniform(4, 3),), lambda x: geqrf(x)[0], smooth=False),
        lambda: s.Sample((s.uniform(2, 2, 3),), lambda x: geqrf(x)[1], smooth=False),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: geqrf(x)[0], smooth=False),
    ),
)


@casting
def geqrf(input: Tensor) -> geqrf_result:
    """The QR factorisation as LAPACK keeps it, for `householder_product` and `ormqr`."""
    meta = node_of(input).meta
    check_matrices("geqrf", meta, "input")
    return geqrf_result(*factors(record(GEQRF, (input,)), geqrf_shapes(meta.shape)))


def _reflector(both: Tensor, i: int) -> Tensor:
    """The i-th vector: zeros, a one, and what is below the diagonal, as a column."""
    height = both.shape[-2]
    column = columns(both, i, i + 1)
    place = reshape_to(counting(height), (height, 1))
    one = cast(eq(place, i), both.dtype)
    return add(where(gt(place, i), column, 0), one)


def _reflected(
    both: Tensor, tau: Tensor, x: Tensor, left: bool, transposed: bool, forward: bool
) -> Tensor:
    """x multiplied by I - tau v vᴴ for each reflector, first to last if `forward`."""
    count = int(tau.shape[-1])
    for i in range(count) if forward else reversed(range(count)):
        v = _reflector(both, i)
        factor = reshape_to(columns(as_row(tau), i, i + 1), (*tau.shape[:-1], 1, 1))
        if transposed:
            factor = conj(factor)
        if left:
            x = sub(x, mul(factor, matmul(v, matmul(adjoint(v), x))))
        else:
            x = sub(x, mul(factor, matmul(matmul(x, v), adjoint(v))))
    return x


def _householder_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    return metas[0]


def _householder_expand(n: Any, both: Tensor, tau: Tensor) -> Tensor:
    start = cast(on_diagonal(*both.shape[-2:]), both.dtype)
    if not tau.shape[-1] or not n.meta.numel:
        return add(zeros_like(both), start)
    return _reflected(both, tau, start, True, False, False)


HOUSEHOLDER = Op(
    "linalg_householder_product",
    "composite",
    # The first columns of the product of reflectors: inputs (reflectors, tau).
    layout=by_columns,
    infer=_householder_infer,
    expand=_householder_expand,
    saves="x",
    autocast="float32",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 3), s.uniform(2, seed=1)), lambda a, t: householder_product(a, t)
        ),
        lambda: s.Sample(
            (s.uniform(2, 3, 3), s.uniform(2, 3, seed=1)), lambda a, t: householder_product(a, t)
        ),
    ),
)


@casting
@in_float32
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of reflectors, kept below the diagonal of A."""
    meta, factors = node_of(A).meta, node_of(tau).meta
    name = "linalg.householder_product"
    check_matrices(name, meta, "input")
    check_field(name, meta)
    if meta.shape[-2] < meta.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]; got "
            f"{list(meta.shape)}"
        )
    _check_reflectors(name, meta, factors)
    return record(HOUSEHOLDER, (A, tau))


def _check_reflectors(name: str, meta: Meta, tau: Meta) -> None:
    if not tau.ndim:
        raise IndexError(f"{name}: Dimension specified as -1 but tau has no dimensions")
    if tau.ndim != meta.ndim - 1 or tau.shape[:-1] != meta.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input and the same batch "
            f"dimensions; got input {list(meta.shape)} and tau {list(tau.shape)}"
        )
    if tau.shape[-1] > meta.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]; got "
            f"{meta.shape[-1]} and {tau.shape[-1]}"
        )
    if tau.dtype is not meta.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {tau.dtype.name} does not match input dtype {meta.dtype.name}"
        )


def _ormqr_expand(n: Any, both: Tensor, tau: Tensor, other: Tensor) -> Tensor:
    left, transposed = n.attrs
    if not tau.shape[-1] or not n.meta.numel:
        return add(other, 0)
    return _reflected(both, tau, other, left, transposed, left == transposed)


ORMQR = Op(
    "ormqr",
    "composite",
    # other multiplied by Q: inputs (reflectors, tau, other), attrs (from the left, transposed).
    layout=by_columns,
    infer=lambda metas, attrs, shape: metas[2],
    expand=_ormqr_expand,
    saves="x",
    autocast="float32",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 2), s.uniform(2, seed=1), s.uniform(3, 4, seed=2)),
            lambda a, t, x: ormqr(a, t, x),
        ),
        lambda: s.Sample(
            (s.uniform(3, 2), s.uniform(2, seed=1), s.uniform(4, 3, seed=2)),
            lambda a, t, x: ormqr(a, t, x, False, True),
        ),
    ),
)


@exact
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """`other` multiplied by the whole Q (or its adjoint) that reflectors make."""
    meta, factors, third = (node_of(x).meta for x in (input, tau, other))
    for what, m in (("input", meta), ("other", third)):
        check_matrices("ormqr", m, what)
    check_field("ormqr", meta)
    if not factors.ndim:
        raise IndexError("ormqr: tau has no dimensions; expected the tau of geqrf")
    side = -2 if left else -1
    if third.shape[side] < factors.shape[-1] or third.shape[side] != meta.shape[-2]:
        raise RuntimeError(
            f"ormqr: other.shape[{side}] must be equal to input.shape[-2] and at least "
            f"tau.shape[-1]; got other {list(third.shape)}, input {list(meta.shape)} and tau "
            f"{list(factors.shape)}"
        )
    _check_reflectors("ormqr", meta, factors)
    if third.ndim != meta.ndim or third.shape[:-2] != meta.shape[:-2]:
        raise RuntimeError(
            "ormqr: expected other to have the same number of dimensions and batch "
            f"dimensions as input; got {list(third.shape)} and {list(meta.shape)}"
        )
    if third.dtype is not meta.dtype:
        raise RuntimeError(
            f"ormqr: expected input and other to have the same dtype, but input has dtype "
            f"{meta.dtype.name} and other has dtype {third.dtype.name}"
        )
    return record(ORMQR, (input, tau, other), (left, transpose))
