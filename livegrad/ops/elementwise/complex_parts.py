"""Complex numbers taken apart and put together: parts, magnitude and angle, conjugates.

Parts are views of complex memory, read natively; what computes with complex values runs in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of, path_of, shows_conjugates
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op, as_iterated
from livegrad.graph.record import record
from livegrad.graph.views import view
from livegrad.ops.bookkeeping.in_place import placed_like
from livegrad.ops.elementwise import arithmetic as ew, comparison, pointwise_math, roots
from livegrad.ops.elementwise.conjugate import (
    VIEW_AS_COMPLEX,
    VIEW_AS_REAL,
    conj as conj,
    conj_view,
)
from livegrad.ops.making.generate import filled
from livegrad.ops.shaping import joining, movement, slicing
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.support.out import casting, exact, refusing_expanded

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Metas = tuple[Meta, ...]


def _dtype(x: Tensor) -> DType:
    return node_of(x).meta.dtype


# ------------------------------------------------------------------------------------------ views


def view_as_real(input: Tensor) -> Tensor:
    """Complex values as pairs of reals: a view with a last dim of size 2."""
    if not _dtype(input).is_complex:
        raise RuntimeError(
            f"view_as_real is only supported for complex tensors; got {_dtype(input).name}"
        )
    if shows_conjugates(path_of(input)):
        raise RuntimeError(
            "view_as_real: what shows conjugates has no real parts in memory that it could be a "
            "view of; resolve_conj() makes a copy that has"
        )
    return view(VIEW_AS_REAL, input)


@in_float32
def view_as_complex(input: Tensor) -> Tensor:
    """Pairs of reals, along a last dim of size 2, as complex values: a view."""
    meta = node_of(input).meta
    if meta.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(
            "view_as_complex is only supported for floating point tensors; got "
            f"{meta.dtype.name}; expected float32 or float64"
        )
    if not meta.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if meta.shape[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2; got {list(meta.shape)}")
    return view(VIEW_AS_COMPLEX, input)


def real(input: Tensor) -> Tensor:
    """The real part, as a view; a real tensor is returned as it is."""
    return slicing.select(view(VIEW_AS_REAL, input), -1, 0) if _dtype(input).is_complex else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part of a complex tensor, as a view."""
    if not _dtype(input).is_complex:
        raise RuntimeError(
            f"imag is not implemented for tensors with non-complex dtypes; got {_dtype(input).name}"
        )
    return slicing.select(view(VIEW_AS_REAL, input), -1, 1)


def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of matrices, the last two dims: a view."""
    ndim = node_of(input).meta.ndim
    if ndim == 1:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. "
            f"Got {ndim}-D tensor."
        )
    return conj_view(movement.transpose(input, -2, -1) if ndim else input)


@refusing_expanded
@exact
def conj_physical(input: Tensor) -> Tensor:
    """The conjugate as a value of its own; a real tensor is returned as it is."""
    return placed_like(conj(input), input) if _dtype(input).is_complex else input


def resolve_conj(input: Tensor) -> Tensor:
    """A copy of a view that shows conjugates of what lies in memory; others are returned."""
    return ew.clone(input) if is_conj(input) else input


def resolve_neg(input: Tensor) -> Tensor:
    """`input` itself: negatives are values like any other."""
    return input


# -------------------------------------------------------------------------------------- questions


def is_complex(input: Tensor) -> bool:
    """Whether the dtype of `input` is a complex type."""
    return _dtype(input).is_complex


def is_conj(input: Tensor) -> bool:
    """Whether `input` is a view that shows conjugates of what lies in memory."""
    return _dtype(input).is_complex and shows_conjugates(path_of(input))


def is_neg(input: Tensor) -> bool:
    """Always False: a negative is a value like any other."""
    return False


def isreal(input: Tensor) -> Tensor:
    """Whether each element has no imaginary part."""
    if not _dtype(input).is_complex:
        return placed_like(ew.where(comparison.eq(input, input), True, True), input)
    return comparison.eq(imag(input), 0)


# ------------------------------------------------------------------------------ from parts to whole


def _complex_infer(metas: Metas, attrs: tuple[Any, ...], shape: Any) -> Meta:
    a, b = metas
    if a.dtype.category != dtypes.FLOAT or a.dtype is dtypes.bfloat16:
        raise RuntimeError(
            "complex: expected both inputs to be Half, Float or Double tensors but got "
            f"{a.dtype.name} and {b.dtype.name}"
        )
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"complex: expected object of scalar type {a.dtype.name} but got scalar type "
            f"{b.dtype.name} for second argument. Convert one with .to(dtype)"
        )
    return meta_of(broadcast_shapes("complex", [a.shape, b.shape]), a.dtype.to_complex())


def _complex_expand(n: Any, a: Tensor, b: Tensor) -> Tensor:
    part = n.meta.dtype.to_real()
    parts = [movement.expand(ew.cast(x, part), n.meta.shape) for x in (a, b)]
    return record(VIEW_AS_COMPLEX, (joining.stack(parts, -1),))


def _polar_expand(n: Any, size: Tensor, turn: Tensor) -> Tensor:
    return complex(ew.mul(size, pointwise_math.cos(turn)), ew.mul(size, pointwise_math.sin(turn)))


COMPLEX = Op(
    "complex",
    "composite",
    infer=_complex_infer,
    ref=lambda n, a, b: np.stack(np.broadcast_arrays(a, b), -1).view(n.meta.dtype.storage)[..., 0],
    expand=_complex_expand,
    layout=as_iterated,
    grads=(lambda g, y, a, b: real(g), lambda g, y, a, b: imag(g)),
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4), s.uniform(4, seed=1)), lambda a, b: _pair(complex, a, b)
        ),
        lambda: s.Sample((s.uniform(), s.uniform(seed=1)), lambda a, b: _pair(complex, a, b)),
        lambda: s.Sample((s.uniform(0), s.uniform(1)), lambda a, b: _pair(complex, a, b)),
    ),
)
POLAR = Op(
    "polar",
    "composite",
    infer=_complex_infer,
    expand=_polar_expand,
    layout=as_iterated,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4), s.uniform(4, seed=1)), lambda a, b: _pair(polar, a, b)),
        lambda: s.Sample((s.uniform(), s.uniform(seed=1)), lambda a, b: _pair(polar, a, b)),
    ),
)


def _pair(function: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
    # There is no complex type of bfloat16.
    return function(*[x.float() if x.dtype is dtypes.bfloat16 else x for x in (a, b)])


@refusing_expanded
@exact
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Complex values with the given parts, two tensors of one floating dtype."""
    return record(COMPLEX, (real, imag))


@refusing_expanded
@exact
@in_float32
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Complex values with the given magnitudes and angles, `abs * exp(1j * angle)`."""
    return record(POLAR, (abs, angle))


# ------------------------------------------------------------------------------------ angle, sign


def _real_meta(metas: Metas, attrs: tuple[Any, ...], shape: Any) -> Meta:
    return meta_of(metas[0].shape, metas[0].dtype.to_real())


def _angle_backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    turned = ew.mul(ew.div(x, roots.square(ew.abs(x))), 1j)
    return ew.where(comparison.eq(x, 0), 0, ew.mul(g, turned))


ANGLE = Op(
    "angle",
    "composite",
    # Of complex values; the angle of reals is made of comparisons.
    infer=_real_meta,
    ref=lambda n, x: np.angle(x),
    expand=lambda n, x: pointwise_math.atan2(imag(x), real(x)),
    grads=(_angle_backward,),
    saves="x",
    samples=s.calls(
        lambda: s.Sample((s.complexes(3, 4),), lambda x: angle(x)),
        lambda: s.Sample((s.complexes(),), lambda x: angle(x)),
        lambda: s.Sample((s.uniform(5),), lambda x: angle(x)),
    ),
)


def _sgn_ref(n: Any, x: Array) -> Array:
    size = np.abs(x)
    signs = np.where(size == 0, 0, x)
    divisor = np.where(size == 0, 1, size)
    # Part by part: a quotient of complex numbers is NaN in both where one is of infinities.
    signs.real, signs.imag = signs.real / divisor, signs.imag / divisor
    return signs


def _sgn_backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    size = ew.abs(x)
    turn = real(ew.mul(g, conj(y)))
    return ew.where(comparison.eq(size, 0), 0, ew.div(ew.sub(g, ew.mul(y, turn)), size))


SGN = Op(
    "sgn",
    "host",
    # Of complex values; that of reals is SIGN.
    infer=lambda metas, attrs, shape: metas[0],
    ref=_sgn_ref,
    grads=(_sgn_backward,),
    layout=as_iterated,
    batch=batched.as_it_is,
    samples=s.calls(
        lambda: s.Sample((s.complexes(3, 4),), lambda x: ew.sgn(x)),
        lambda: s.Sample((s.complexes(),), lambda x: ew.sgn(x)),
        lambda: s.Sample((np.array([0, 2j]),), lambda x: ew.sgn(x), smooth=False),
    ),
)


@casting
def angle(input: Tensor) -> Tensor:
    """The angle of each element in (-π, π]: 0 or π for real numbers."""
    if _dtype(input).is_complex:
        return record(ANGLE, (input,))
    dtype = _floating(_dtype(input))
    x = ew.cast(input, dtype)
    half_turn, none = filled((), math.pi, dtype), filled((), 0, dtype)
    turned = ew.where(comparison.lt(x, 0), half_turn, none)
    return ew.where(comparison.isnan(x), x, turned)


def _floating(dtype: DType) -> DType:
    return dtype if dtype.is_floating_point else dtypes.get_default_dtype()
