"""Covariance: how rows of observations vary together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import promote_types
from livegrad.graph.blame import check_number
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast, div, mul, sub, where
from livegrad.ops.elementwise.comparison import clamp, le
from livegrad.ops.elementwise.complex_parts import complex as joined
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.elementwise.roots import sqrt
from livegrad.ops.products.matmul import matmul
from livegrad.ops.reductions.reduce import sum
from livegrad.ops.reductions.statistics import real_part
from livegrad.ops.shaping.diagonals import diagonal
from livegrad.ops.shaping.movement import reshape_to, transpose
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


def _weights_ref(n: Any, w: Array) -> Array:
    if (w < 0).any():
        raise RuntimeError(f"cov(): {n.attrs[0]} cannot be negative")
    if w.size and not w.any():
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    return w


# The weights themselves, known not to be negative: attrs (name,).
COV_WEIGHTS: Op = Op(
    "cov_weights",
    "host",
    infer=lambda metas, attrs, shape: metas[0],
    ref=_weights_ref,
    grads=(lambda g, y, w: g,),
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, low=0.0),), lambda w: record(COV_WEIGHTS, (w,), ("aweights",))
        )
    ),
)


def _check_weights(name: str, w: Meta, count: int, whole: bool) -> None:
    if w.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions; got {list(w.shape)}"
        )
    right = w.dtype.category == (dtypes.INT if whole else dtypes.FLOAT)
    if not right:
        kind = "integral" if whole else "floating point"
        raise RuntimeError(f"cov(): expected {name} to have {kind} dtype; got {w.dtype.name}")
    if w.numel != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the "
            f"input; got {w.numel} and {count}"
        )


def _joint_weights(
    rows: Meta, fweights: Tensor | None, aweights: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """The weights of the observations, and those of them that are not repetitions."""
    count = rows.shape[1]
    checked: list[Tensor | None] = []
    for name, w, whole in (("fweights", fweights, True), ("aweights", aweights, False)):
        if w is None:
            checked.append(None)
            continue
        _check_weights(name, node_of(w).meta, count, whole)
        # Sums of weights are subtracted from each other: no less precise than the values.
        exact = promote_types(rows.dtype.to_real(), node_of(w).meta.dtype)
        w = cast(record(COV_WEIGHTS, (w,), (name,)), exact)
        checked.append(reshape_to(w, (count,)))
    repeats, importance = checked
    if repeats is None or importance is None:
        return (repeats if importance is None else importance), importance
    return mul(repeats, importance), importance


def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of the rows of `input`, each a variable and its observations.

    Args:
        correction: what is taken off the number of observations before dividing by it.
        fweights: how often each observation counts, integers.
        aweights: how important each observation is, floats.
    """
    meta = node_of(input).meta
    if meta.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions; got {list(meta.shape)}"
        )
    if meta.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input. Convert with .float()")
    rows = reshape_to(input, (1, meta.numel)) if meta.ndim < 2 else input
    check_number(correction)
    w, importance = _joint_weights(node_of(rows).meta, fweights, aweights)
    count: Any = float(node_of(rows).meta.shape[1]) if w is None else sum(w)
    centre = div(sum(rows if w is None else mul(rows, w), 1, True), count)
    left: Any
    if w is not None and importance is not None and correction:
        left = sub(count, div(mul(sum(mul(w, importance)), correction), count))
    else:
        left = count - correction if w is None else sub(count, correction)
    away = sub(rows, centre)
    product = matmul(away, conj(transpose(away if w is None else mul(away, w), 0, 1)))
    return _squeezed(div(product, _not_negative(left, node_of(product).meta)))


def _not_negative(left: Any, meta: Meta) -> Any:
    if isinstance(left, float):
        return max(left, 0.0)
    left = cast(left, meta.dtype.to_real())
    return where(le(left, 0), 0, left)


def _squeezed(x: Tensor) -> Tensor:
    return reshape_to(x, ()) if node_of(x).meta.shape == (1, 1) else x


def corrcoef(input: Tensor) -> Tensor:
    """The matrix of correlation coefficients of the rows of `input`."""
    meta = node_of(input).meta
    if meta.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions; got {list(meta.shape)}"
        )
    c = cov(input)
    if not node_of(c).meta.ndim:
        return div(c, c)
    deviation = sqrt(real_part(diagonal(c)))
    size = node_of(c).meta.shape[0]
    scaled = div(div(c, reshape_to(deviation, (size, 1))), deviation)
    return _clipped(scaled)


def _clipped(x: Tensor) -> Tensor:
    """Rounding may lead a little beyond -1 and 1."""
    if not node_of(x).meta.dtype.is_complex:
        return clamp(x, -1, 1)
    return joined(clamp(x.real, -1, 1), clamp(x.imag, -1, 1))
