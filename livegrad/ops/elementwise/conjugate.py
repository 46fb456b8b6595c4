"""The bottom of complex arithmetic: conjugates, and complex memory seen as pairs of reals.

Gradients follow PyTorch's convention: the gradient of a real loss is its derivative by the
conjugate, so a rule multiplies with the conjugate of a derivative. `conj` is the identity on real
tensors, and rules that use it cost nothing there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.views import view
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Metas = tuple[Meta, ...]

CONJ: Op = Op(
    "conj",
    "host",
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, x: np.conj(x),
    grads=(lambda g, y, x: conj(g),),
    layout=lambda metas, attrs, meta: metas[0].strides,
    write=lambda part, value, attrs, args: record(CONJ, (value,)),
    saves="",
    batch=lambda n, size, xs, batched: record(n.op, xs),
    samples=s.calls(
        lambda: s.Sample((s.complexes(3, 4),), lambda x: conj_view(x)),
        lambda: s.Sample((s.complexes(),), lambda x: conj(x)),
        lambda: s.Sample((s.complexes(0, 2),), lambda x: conj(x)),
    ),
)


def conj(x: Tensor) -> Tensor:
    """The complex conjugate of a tensor; real tensors and numbers are their own."""
    if not isinstance(x, Handle) or node_of(x).meta.dtype.category != dtypes.COMPLEX:
        return x
    return record(CONJ, (x,))


def conj_view(input: Tensor) -> Tensor:
    """The complex conjugate as a view: what is written to it is written to `input`."""
    if node_of(input).meta.dtype.category != dtypes.COMPLEX:
        return input
    return view(CONJ, input)


def _real_infer(metas: Metas, attrs: tuple[Any, ...], shape: Any) -> Meta:
    (x,) = metas
    return meta_of((*x.shape, 2), x.dtype.to_real())


def _complex_infer(metas: Metas, attrs: tuple[Any, ...], shape: Any) -> Meta:
    (x,) = metas
    return meta_of(x.shape[:-1], x.dtype.to_complex())


def _imaginary(x: Tensor) -> Tensor:
    return view(VIEW_AS_REAL, x)[1]


VIEW_AS_REAL: Op = Op(
    "view_as_real",
    "movement",
    infer=_real_infer,
    ref=lambda n, x: np.stack([x.real, x.imag], -1),
    view=lambda n, index: None,  # another name for the same memory
    lower=lowered_by("movement.AsPairs"),
    write=lambda part, value, attrs, args: record(VIEW_AS_COMPLEX, (value,)),
    grads=(lambda g, y, x: record(VIEW_AS_COMPLEX, (g,)),),
    layout=lambda metas, attrs, meta: (*[2 * step for step in metas[0].stride()], 1),
    offset=lambda before, meta, attrs, args: 2 * before,
    saves="",
    batch=lambda n, size, xs, batched: record(n.op, xs),
    samples=s.calls(
        lambda: s.Sample((s.complexes(3, 4),), lambda x: view(VIEW_AS_REAL, x)),
        lambda: s.Sample((s.complexes(),), _imaginary),
        lambda: s.Sample((s.complexes(0),), lambda x: view(VIEW_AS_REAL, x)),
    ),
)
VIEW_AS_COMPLEX: Op = Op(
    "view_as_complex",
    "movement",
    # The last dim, of size 2, holds the parts.
    infer=_complex_infer,
    ref=lambda n, x: _joined(x),
    view=lambda n, index: None,
    lower=lowered_by("movement.AsComplex"),
    write=lambda part, value, attrs, args: record(VIEW_AS_REAL, (value,)),
    grads=(lambda g, y, x: record(VIEW_AS_REAL, (g,)),),
    layout=lambda metas, attrs, meta: tuple([step // 2 for step in metas[0].stride()[:-1]]),
    offset=lambda before, meta, attrs, args: before // 2,
    saves="",
    batch=lambda n, size, xs, batched: record(n.op, xs),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4, 2),), lambda x: view(VIEW_AS_COMPLEX, _wide(x))),
        lambda: s.Sample((s.uniform(2),), lambda x: view(VIEW_AS_COMPLEX, _wide(x))),
        lambda: s.Sample((s.uniform(2, 3),), lambda x: view(VIEW_AS_COMPLEX, _wide(x).T)),
    ),
)


def _joined(x: Array) -> Array:
    out = np.empty(x.shape[:-1], np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x[..., 0], x[..., 1]
    return out


def _wide(x: Tensor) -> Tensor:
    """Half precisions as float32: they are no parts of a complex type."""
    return x if x.dtype in (dtypes.float32, dtypes.float64) else x.float()
