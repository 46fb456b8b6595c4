"""Singular values: svd, the pseudo-inverse, least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import check_number
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import abs, add, cast, div, mul, neg, sub, where
from livegrad.ops.elementwise.comparison import gt, maximum
from livegrad.ops.elementwise.roots import square
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    Metas,
    adjoint,
    as_column,
    as_row,
    check_field,
    check_matrices,
    check_same_dtype,
    check_square,
    column_major,
    columns,
    conj,
    diag_embed,
    diagonal_of,
    factors,
    imag_of,
    on_diagonal,
    pack,
    packed,
    packed_meta,
    parts,
    places,
    real_of,
    rows,
    zero_diagonal,
)
from livegrad.ops.linalg.spectral import converged, divided, eigh, gaps
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.products.matmul import matmul
from livegrad.ops.reductions.reduce import amax, sum as sum_of
from livegrad.ops.shaping.joining import padded, record_slice
from livegrad.ops.shaping.movement import reshape_to, squeeze
from livegrad.ops.shaping.slicing import narrow
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.out import casting, exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def svd_shapes(shape: Shape, full: bool) -> list[Shape]:
    *batch, height, width = shape
    size = min(height, width)
    tall, wide = (height, width) if full else (size, size)
    return [(*batch, height, tall), (*batch, size), (*batch, wide, width)]


def _svd_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("linalg.svd", metas[0])
    return packed_meta(svd_shapes(metas[0].shape, attrs[0]), metas[0].dtype)


def _svd_ref(n: Any, a: Array) -> Array:
    full = n.attrs[0]
    return pack(*converged(np.linalg.svd, "linalg.svd", a, full))


def _svd_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """U (skew(Uᴴ gU) / E S + S skew(Vᴴ gV) / E + diag(gS)) Vᴴ, with E the gaps of S²;
    and, of a matrix that is not square, what gU or gV has outside the span of U or V."""
    height, width = a.shape[-2:]
    size = min(height, width)
    shapes = svd_shapes(a.shape, y._node.attrs[0])
    (u, values, vh), (gu, gs, gvh) = parts(y, shapes), parts(g, shapes)
    u, gu = columns(u, 0, size), columns(gu, 0, size)
    vh, gvh = rows(vh, 0, size), rows(gvh, 0, size)
    values = real_of(values)
    left = matmul(adjoint(u), gu)
    right = matmul(vh, adjoint(gvh))
    gap = gaps(square(values))
    inner = mul(divided(_skew(left), gap), as_row(values))
    inner = add(inner, mul(as_column(values), divided(_skew(right), gap)))
    inner = add(inner, diag_embed(cast(real_of(gs), node_of(a).meta.dtype)))
    if node_of(a).meta.dtype.is_complex:
        # U and V may be transposed by one phase each; only their product is determined.
        turn = div(imag_of(diagonal_of(left)), values)
        inner = add(inner, diag_embed(mul(turn, 1j)))
    if height > size:
        outside = divided(gu, as_row(values))
        outside = sub(outside, matmul(u, matmul(adjoint(u), outside)))
        return matmul(add(matmul(u, inner), outside), vh)
    if width > size:
        outside = divided(gvh, as_column(values))
        outside = sub(outside, matmul(matmul(outside, adjoint(vh)), vh))
        return matmul(u, add(matmul(inner, vh), outside))
    return matmul(u, matmul(inner, vh))


def _skew(x: Tensor) -> Tensor:
    return zero_diagonal(sub(x, adjoint(x)))


def _apart(x: Tensor) -> Tensor:
    """A matrix with singular values far apart, for samples."""
    height, width = x.shape[-2:]
    ramp = mul(add(counting(width), 1), cast(on_diagonal(height, width), dtypes.int64))
    return add(x, mul(ramp, 2))


SVD = Op(
    "linalg_svd",
    "host",
    # [U, S, Vᴴ] with A = U S Vᴴ; attrs (full matrices,).
    infer=_svd_infer,
    ref=_svd_ref,
    grads=(_svd_grad,),
    saves="y",
    autocast="float32",
    batch=packed(svd_shapes),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: svd(_apart(x))[0]),
        lambda: s.Sample((s.uniform(2, 2, 3),), lambda x: svd(_apart(x), False)[2]),
        lambda: s.Sample((s.uniform(3, 2),), lambda x: svd(_apart(x), False)[0]),
        lambda: s.Sample((s.uniform(2, 3),), lambda x: svd(_apart(x))[2], smooth=False),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: svd(x)[2], smooth=False),
    ),
)


@returned("linalg_svd")
class svd_result(NamedTuple):
    """Factors with A = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@exact
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> svd_result:
    """Orthonormal U and Vh and the singular values S, descending, with A = U diag(S) Vh."""
    meta = node_of(A).meta
    check_matrices("linalg.svd", meta)
    _check_driver("linalg.svd", driver)
    found = factors(
        record(SVD, (A,), (bool(full_matrices),)), svd_shapes(meta.shape, full_matrices)
    )
    return svd_result(found[0], real_of(found[1]), found[2])


def _check_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            f"{name}: got driver={driver!r}; expected None: on the CPU there is one way only"
        )


def _values_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    (a,) = metas
    check_field("linalg.svdvals", a)
    check_matrices("linalg.svdvals", a)
    return meta_of((*a.shape[:-2], min(a.shape[-2:])), a.dtype.to_real())


def _values_ref(n: Any, a: Array) -> Array:
    return np.asarray(converged(np.linalg.svd, "linalg.svdvals", a, False, False))


def _values_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    u, _, vh = svd(a, False)
    return matmul(mul(u, as_row(g)), vh)


SVDVALS = Op(
    "linalg_svdvals",
    "host",
    infer=_values_infer,
    ref=_values_ref,
    grads=(_values_grad,),
    saves="x",
    autocast="float32",
    batch=batched.matrices,
    grad_fn="LinalgSvdBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 2),), lambda x: svdvals(_apart(x))),
        lambda: s.Sample((s.uniform(2, 2, 3),), lambda x: svdvals(_apart(x))),
        lambda: s.Sample((s.uniform(2, 0),), lambda x: svdvals(x)),
        lambda: s.Sample((s.uniform(0, 2, 2),), lambda x: svdvals(x)),
    ),
)


@exact
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of matrices, descending."""
    check_matrices("linalg.svdvals", node_of(A).meta)
    _check_driver("linalg.svdvals", driver)
    return record(SVDVALS, (A,))


# ------------------------------------------------------------------------------ pseudo-inverse


def tolerance(name: str, a: Meta, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Absolute and relative tolerance; without any, what rounding makes of a zero."""
    for what in (atol, rtol):
        if isinstance(what, Handle) and node_of(what).meta.dtype.is_complex:
            raise RuntimeError(f"{name}: atol and rtol tensors of complex type are not supported.")
    check_number(*[x for x in (atol, rtol) if x is not None and not isinstance(x, Handle)])
    if rtol is None:
        eps = dtypes.finfo(a.dtype.to_real()).eps * max(*a.shape[-2:], 1)
        given = atol is not None and (isinstance(atol, Handle) or atol > 0)
        if isinstance(atol, Handle):
            rtol = where(gt(atol, 0), 0.0, eps)
        else:
            rtol = 0.0 if given else eps
    return 0.0 if atol is None else atol, rtol


def threshold(largest: Tensor, atol: Any, rtol: Any) -> Tensor:
    """What counts as 0 for singular values of which these are the largest (in a last dim of 1)."""
    absolute, relative = (as_column(x) if isinstance(x, Handle) else x for x in (atol, rtol))
    scaled = mul(largest, relative)
    if isinstance(absolute, Handle):
        return maximum(scaled, absolute)
    return maximum(scaled, filled((), absolute, node_of(largest).meta.dtype))


def _pinv_backward(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """The gradient of the pseudo-inverse y of a, of a rank that does not change."""
    gh, yh = adjoint(g), adjoint(y)
    if a.shape[-2] <= a.shape[-1]:
        k = matmul(gh, y)
        kyh = matmul(k, yh)
        out = add(neg(adjoint(matmul(y, k))), kyh)
        out = sub(out, matmul(matmul(a, y), kyh))
        return add(out, matmul(matmul(yh, y), sub(gh, matmul(k, a))))
    k = matmul(y, gh)
    yhk = matmul(yh, k)
    out = add(neg(adjoint(matmul(k, y))), matmul(matmul(sub(gh, matmul(a, k)), y), yh))
    return sub(add(out, yhk), matmul(matmul(yhk, y), a))


def _pinv_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    a = metas[0]
    batch = broadcast_shapes("linalg.pinv", [a.shape[:-2], *[m.shape for m in metas[1:]]])
    return meta_of((*batch, a.shape[-1], a.shape[-2]), a.dtype)


def _pinv_expand(n: Any, a: Tensor, *tensors: Tensor) -> Tensor:
    hermitian, has_atol, has_rtol = n.attrs
    given, numbers = iter(tensors), iter(n.args)
    atol = next(given) if has_atol else next(numbers)
    rtol = next(given) if has_rtol else next(numbers)
    if not n.meta.numel:
        return filled(n.meta.shape, 0, n.meta.dtype)
    if hermitian:
        signed, u = eigh(a)
        values = abs(signed)
        vh = adjoint(u)
    else:
        u, values, vh = svd(a, False)
        signed = values
    low = threshold(amax(values, -1, True), atol, rtol)
    inverse = where(gt(values, low), div(1.0, where(gt(values, low), signed, 1.0)), 0.0)
    return matmul(mul(adjoint(vh), as_row(cast(inverse, values.dtype))), adjoint(u))


def _pinv_rule(g: Tensor, y: Tensor, a: Tensor, *tensors: Tensor) -> Tensor:
    return _pinv_backward(g, y, a)


PINV = Op(
    "linalg_pinv",
    "composite",
    # Inputs (A[, atol][, rtol]), attrs (hermitian, atol is a tensor, rtol is), args the numbers.
    infer=_pinv_infer,
    expand=_pinv_expand,
    grads=(_pinv_rule, None, None),
    autocast="float32",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 2),), lambda x: pinv(_apart(x))),
        lambda: s.Sample((s.uniform(2, 2, 3),), lambda x: pinv(_apart(x), rtol=0.01)),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: pinv(x)),
    ),
)


@casting
def pinv(
    A: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """The pseudo-inverse; singular values up to max(atol, rtol · largest) count as 0."""
    meta = node_of(A).meta
    check_field("linalg.pinv", meta)
    (check_square if hermitian else check_matrices)("linalg.pinv", meta)
    atol, rtol = tolerance("linalg.pinv", meta, atol, rtol if rcond is None else rcond)
    tensors = [x for x in (atol, rtol) if isinstance(x, Handle)]
    numbers = tuple([float(x) for x in (atol, rtol) if not isinstance(x, Handle)])
    attrs = (bool(hermitian), isinstance(atol, Handle), isinstance(rtol, Handle))
    return record(PINV, (A, *tensors), attrs, numbers)


def pinverse(input: Tensor, rcond: Any = 1e-15) -> Tensor:
    """See `linalg.pinv`."""
    return pinv(input, rcond)


# ------------------------------------------------------------------------------- least squares


def lstsq_shapes(a: Shape, b: Shape) -> list[Shape]:
    """Solution, rank and singular values."""
    batch = broadcast_shapes("linalg.lstsq", [a[:-2], b[:-2]])
    return [(*batch, a[-1], b[-1]), batch, (*batch, min(a[-2:]))]


def _lstsq_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    return packed_meta(lstsq_shapes(metas[0].shape, metas[1].shape), metas[0].dtype)


def _lstsq_ref(n: Any, a: Array, b: Array) -> Array:
    solution_shape, batch, values_shape = lstsq_shapes(a.shape, b.shape)
    solution, rank = np.zeros(solution_shape, a.dtype), np.zeros(batch, np.int64)
    values = np.zeros(values_shape, np.abs(a[..., :0]).dtype)
    a, b = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b))
    for i in places(batch):
        if a[i].size:
            solution[i], _, rank[i], values[i] = converged(
                np.linalg.lstsq, "linalg.lstsq", a[i], b[i], n.args[0]
            )
    return pack(solution, rank, values)


def _lstsq_grad_b(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    gx = parts(g, lstsq_shapes(a.shape, b.shape))[0]
    return matmul(adjoint(pinv(a)), gx)


def _lstsq_grad_a(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    gx = parts(g, lstsq_shapes(a.shape, b.shape))[0]
    return _pinv_backward(matmul(gx, adjoint(b)), pinv(a), a)


LSTSQ = Op(
    "linalg_lstsq",
    "host",
    # [X that makes |A X - B| least, rank of A, its singular values]: inputs (A, B), args (rcond,).
    infer=_lstsq_infer,
    ref=_lstsq_ref,
    grads=(_lstsq_grad_a, _lstsq_grad_b),
    saves="x",
    autocast="float32",
    batch=packed(lstsq_shapes),
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 2), s.uniform(4, 3, seed=1)), lambda a, b: lstsq(_apart(a), b)[0]
        ),
        lambda: s.Sample(
            (s.uniform(2, 2, 3), s.uniform(2, 2, 1, seed=1)), lambda a, b: lstsq(_apart(a), b)[0]
        ),
    ),
)


@returned("linalg_lstsq")
class lstsq_result(NamedTuple):
    """Solution, sums of squared residuals, rank and singular values; what is not had is empty."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@casting
def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> lstsq_result:
    """X that makes the length of A X - B least; the shortest of them if there are several."""
    name = "linalg.lstsq"
    a, b = node_of(A).meta, node_of(B).meta
    check_field(name, a)
    check_matrices(name, a)
    if not b.ndim:
        raise RuntimeError(f"{name}: got B without dims; expected one dim or more")
    check_same_dtype(name, a, b)
    if not 0 <= a.ndim - b.ndim <= 1:
        raise RuntimeError(
            f"{name}: got {a.ndim} dims of A and {b.ndim} of B; expected as many, or one less of B"
        )
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])
    right = as_column(B) if vector else B
    shape = node_of(right).meta.shape
    if shape[-2] != a.shape[-2]:
        raise RuntimeError(
            f"{name}: got A of shape {list(a.shape)} and B of shape {list(b.shape)}; expected as "
            "many rows in both"
        )
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(f"{name}: got driver={driver!r}; expected one of {', '.join(_DRIVERS)}")
    eps = dtypes.finfo(a.dtype.to_real()).eps * max(*a.shape[-2:], 1)
    packed = record(LSTSQ, (A, right), (), (float(eps if rcond is None else rcond),))
    solution, rank, values = factors(packed, lstsq_shapes(a.shape, shape))
    return _lstsq_result(A, right, vector, driver or "gelsy", (solution, rank, values))


def _lstsq_result(
    a: Tensor, b: Tensor, vector: bool, driver: str, found: tuple[Tensor, Tensor, Tensor]
) -> lstsq_result:
    solution, rank, values = found
    meta = node_of(a).meta
    height, width = meta.shape[-2:]
    real = meta.dtype.to_real()
    rank = cast(real_of(rank), dtypes.int64)
    # Residuals are had of matrices of full rank, which most drivers find out, and one takes for
    # granted; one has none.
    full = driver == "gels" or (
        driver != "gelsy" and bool((rank._values("linalg.lstsq()") == width).all())
    )
    if height > width and full:
        left = sub(matmul(a, solution), b)
        residuals = sum_of(real_of(mul(left, conj(left))), -2)
    else:
        flat = reshape_to(real_of(solution), (node_of(solution).meta.numel,))
        residuals = record_slice(flat, 0, 0, 0)
    solution = _where_b_was(solution, height)
    if vector:
        solution = squeeze(solution, -1)
    return lstsq_result(
        solution,
        residuals,
        rank if driver != "gels" else filled((0,), 0, dtypes.int64),
        real_of(values) if driver in ("gelsd", "gelss") else filled((0,), 0, real),
    )


def _where_b_was(solution: Tensor, height: int) -> Tensor:
    """The solution as LAPACK leaves it: the upper rows of what held the right sides."""
    shape = node_of(solution).meta.shape
    if height <= shape[-2]:
        return solution
    whole = column_major(padded(solution, len(shape) - 2, 0, height))
    return narrow(whole, -2, 0, shape[-2])


# ---------------------------------------------------------------------------------------- rank


@casting
def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """How many singular values are greater than max(atol, rtol · largest)."""
    meta = node_of(A).meta
    check_matrices("linalg.matrix_rank", meta)
    check_field("linalg.matrix_rank", meta)
    if tol is not None:
        atol, rtol = tol, 0.0
    else:
        atol, rtol = tolerance("linalg.matrix_rank", meta, atol, rtol)
    values = abs(eigh(A)[0]) if hermitian else svdvals(A)
    if not meta.shape[-1] or not meta.shape[-2]:
        return filled(meta.shape[:-2], 0, dtypes.int64)
    low = threshold(amax(values, -1, True), atol, rtol)
    return sum_of(gt(values, low), -1)
