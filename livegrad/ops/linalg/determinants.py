"""Determinants and their logarithms. Gradients hold for singular matrices too.

The gradient of det is the matrix of cofactors, a polynomial of the elements. It and its gradient
are computed from singular values: with A = U S Vᴴ a cofactor leaves one singular value out of
their product, its gradient leaves out two.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, mul, sub, where
from livegrad.ops.elementwise.comparison import eq
from livegrad.ops.elementwise.pointwise_math import log
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    Metas,
    adjoint,
    as_column,
    check_field,
    check_square,
    conj,
    diagonal_of,
    imag_of,
    pack,
    packed,
    packed_meta,
    parts,
    real_of,
    square_infer,
)
from livegrad.ops.linalg.solving import INV, inv
from livegrad.ops.products.matmul import matmul
from livegrad.ops.reductions.reduce import sum as sum_of
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.out import exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _scalar_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("linalg.det", metas[0])
    check_square("linalg.det", metas[0])
    return meta_of(metas[0].shape[:-2], metas[0].dtype)


def _trace(x: Tensor) -> Tensor:
    """Traces, with two dims of size 1 to broadcast over matrices."""
    return as_column(as_column(sum_of(diagonal_of(x), -1)))


def _without_one(values: Array) -> Array:
    """The product of all singular values but one, for each."""
    zero = values == 0
    safe = np.where(zero, 1, values)
    product = np.prod(safe, -1, keepdims=True) / safe
    return np.where(zero.sum(-1, keepdims=True) - zero > 0, 0, product)


def _without_two(values: Array) -> Array:
    """The product of all singular values but two, for each pair of different ones."""
    zero = values == 0
    safe = np.where(zero, 1, values)
    pairs = safe[..., :, None] * safe[..., None, :]
    left = zero.sum(-1)[..., None, None] - zero[..., :, None] - zero[..., None, :]
    product = np.where(left > 0, 0, np.prod(safe, -1)[..., None, None] / pairs)
    product[..., range(values.shape[-1]), range(values.shape[-1])] = 0
    return product


def _decomposed(a: Array) -> tuple[Array, Array, Array, Array]:
    """U, singular values, Vᴴ, and the conjugate of det(U) det(Vᴴ)."""
    finite = np.asarray(np.isfinite(a).all(axis=(-2, -1), keepdims=True))
    u, values, vh = np.linalg.svd(np.where(finite, a, 0))  # LAPACK might search for ever
    values = np.where(finite[..., 0], values, np.nan)
    return u, values, vh, np.conj(np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def _cofactor_ref(n: Any, a: Array) -> Array:
    u, values, vh, phase = _decomposed(a)
    return np.asarray(phase * ((u * _without_one(values)[..., None, :]) @ vh))


def _cofactor_grad_ref(n: Any, g: Array, a: Array) -> Array:
    u, values, vh, phase = _decomposed(a)
    hat = vh @ np.conj(np.swapaxes(g, -1, -2)) @ u
    others = _without_two(values)
    diagonal = np.einsum("...ik,...kk->...i", others, hat)
    inner = -others * hat
    places = range(values.shape[-1])
    inner[..., places, places] = diagonal
    return np.asarray(phase * (u @ inner @ vh))


def _third_order(g: Tensor, y: Tensor, weight: Tensor, a: Tensor) -> Tensor:
    """Gradient of c C - C Wᴴ X with X = A⁻ᴴ and c = tr(Wᴴ X), which is COFACTOR_GRAD's value."""
    x = inv(adjoint(a))
    c = record(COFACTOR, (a,))
    trace = _trace(matmul(adjoint(weight), x))
    gc = sub(mul(conj(trace), g), matmul(g, matmul(adjoint(x), weight)))
    inner = matmul(adjoint(c), g)
    gx = sub(mul(_trace(inner), weight), matmul(weight, inner))
    return sub(record(COFACTOR_GRAD, (gc, a)), matmul(x, matmul(adjoint(gx), x)))


COFACTOR_GRAD: Op = Op(
    "cofactor_backward",
    "host",
    # The gradient of COFACTOR: inputs (its weight, A). It is symmetric in weight and gradient.
    infer=lambda metas, attrs, shape: metas[1],
    ref=_cofactor_grad_ref,
    grads=(lambda g, y, weight, a: record(COFACTOR_GRAD, (g, a)), _third_order),
    saves="x",
    batch=batched.all_batched,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 3), s.uniform(3, 3, seed=1)), lambda g, a: record(COFACTOR_GRAD, (g, a))
        ),
        lambda: s.Sample(
            (s.uniform(2, 2, 2), s.uniform(2, 2, 2, seed=1)),
            lambda g, a: record(COFACTOR_GRAD, (g, a)),
        ),
    ),
)
COFACTOR: Op = Op(
    "cofactor",
    "host",
    # conj(det A) A⁻ᴴ, which exists for singular matrices too: the gradient of det.
    infer=square_infer("linalg.det"),
    ref=_cofactor_ref,
    grads=(lambda g, y, a: record(COFACTOR_GRAD, (g, a)),),
    saves="x",
    batch=batched.all_batched,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda a: record(COFACTOR, (a,))),
        lambda: s.Sample((np.ones((3, 3)),), lambda a: record(COFACTOR, (a,)), smooth=False),
        lambda: s.Sample((s.uniform(2, 1, 1),), lambda a: record(COFACTOR, (a,))),
    ),
)
DET = Op(
    "linalg_det",
    "host",
    infer=_scalar_infer,
    ref=lambda n, a: np.linalg.det(a),
    grads=(lambda g, y, a: mul(as_column(as_column(g)), record(COFACTOR, (a,))),),
    saves="x",
    autocast="float32",
    batch=batched.matrices,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: det(x)),
        lambda: s.Sample((s.uniform(2, 2, 2),), lambda x: det(x)),
        lambda: s.Sample((np.outer(np.arange(3.0), np.ones(3)),), lambda x: det(x)),
        lambda: s.Sample((s.uniform(0, 0),), lambda x: det(x)),
        lambda: s.Sample((s.uniform(0, 2, 2),), lambda x: det(x)),
    ),
)


@exact
def det(A: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return record(DET, (A,))


# -------------------------------------------------------------------------------- logarithms


def slogdet_shapes(shape: Shape) -> list[Shape]:
    return [shape[:-2], shape[:-2]]


def _slogdet_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("linalg.slogdet", metas[0])
    check_square("linalg.slogdet", metas[0])
    return packed_meta(slogdet_shapes(metas[0].shape), metas[0].dtype)


def _slogdet_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    shapes = slogdet_shapes(a.shape)
    g_sign, weight = parts(g, shapes)
    if node_of(a).meta.dtype.is_complex:
        sign = parts(y, shapes)[0]
        turn = imag_of(mul(conj(g_sign), sign))
        weight = sub(real_of(weight), mul(turn, 1j))
    # Of a singular matrix it is NaN or inf, and no error.
    return mul(as_column(as_column(weight)), record(INV, (adjoint(a),), (False,)))


SLOGDET = Op(
    "linalg_slogdet",
    "host",
    # [sign, logarithm of the magnitude] of determinants.
    infer=_slogdet_infer,
    ref=lambda n, a: pack(*np.linalg.slogdet(a)),
    grads=(_slogdet_grad,),
    autocast="float32",
    batch=packed(slogdet_shapes),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: slogdet(x)[1]),
        lambda: s.Sample((s.uniform(2, 2, 2),), lambda x: slogdet(x)[1]),
        lambda: s.Sample((s.uniform(3, 3),), lambda x: slogdet(x)[0]),
        lambda: s.Sample((s.uniform(0, 0),), lambda x: slogdet(x)[1]),
    ),
)


@returned("linalg_slogdet")
class slogdet_result(NamedTuple):
    """The sign of determinants, and the logarithm of their magnitude."""

    sign: Tensor
    logabsdet: Tensor


@exact
def slogdet(A: Tensor) -> slogdet_result:
    """The sign of determinants, and the logarithm of their magnitude, which cannot overflow."""
    meta = node_of(A).meta
    check_square("linalg.slogdet", meta)
    sign, logarithm = parts(record(SLOGDET, (A,)), slogdet_shapes(meta.shape))
    return slogdet_result(sign, real_of(logarithm))


def logdet(input: Tensor) -> Tensor:
    """The logarithms of determinants; NaN where they are negative."""
    sign, logarithm = slogdet(input)
    if node_of(input).meta.dtype.is_complex:
        return add(log(sign), logarithm)
    return where(eq(sign, -1), math.nan, logarithm)
