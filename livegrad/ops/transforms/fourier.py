"""Discrete Fourier transforms: three host ops on SciPy's pocketfft; `livegrad.fft` is made of them.

    fft_c2c   complex to complex over any dims, forward or backward
    fft_r2c   real to the half of the spectrum that is not redundant, forward, over one dim
    fft_c2r   such a half to real, backward, over one dim

`scale` says what sums are divided by: "none", "root" (√n) or "n". With the same scale and the
other direction a transform is its own adjoint, so gradients of all orders are made of these ops.
SciPy transforms several rows side by side in vector registers, NumPy one after the other: of short
rows it is ten times as fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.layout import Strides, strides_in_order
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import mul, where
from livegrad.ops.elementwise.comparison import eq, logical_or
from livegrad.ops.elementwise.complex_parts import real
from livegrad.ops.making.generate import counting
from livegrad.ops.shaping.joining import padded
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import batched, samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Metas = tuple[Meta, ...]
Attrs = tuple[Any, ...]
Dims = tuple[int, ...]

# SciPy's name of a scale, which depends on the direction.
FORWARD: dict[str, Any] = {"none": "backward", "root": "ortho", "n": "forward"}
BACKWARD: dict[str, Any] = {"none": "forward", "root": "ortho", "n": "backward"}


def _transformed(name: str, x: Array, *args: Any, **options: Any) -> Array:
    """SciPy's function `name` of an array."""
    import scipy.fft  # when needed: it takes longer than `import livegrad`

    transformed: Array = getattr(scipy.fft, name)(x, *args, **options)
    return transformed


def _resized(meta: Meta, dim: int, size: int, dtype: Any) -> Meta:
    return meta_of(meta.shape[:dim] + (size,) + meta.shape[dim + 1 :], dtype)


def transform_strides(x: Meta, dims: Dims, shape: Shape, last: Dims = ()) -> Strides:
    """Where PyTorch leaves the result of transforming `x` over `dims`, then the `last` one.

    Rows lie in the order that those of `x` have; what is transformed lies within them.
    """
    strides = x.stride()
    outer = [d for d in range(x.ndim) if d not in (*dims, *last)]
    order = [sorted(part, key=lambda d: -strides[d]) for part in (outer, dims, last)]
    return strides_in_order(shape, [d for part in reversed(order) for d in reversed(part)])


def _over_dims(metas: Metas, attrs: Attrs, meta: Meta) -> Strides:
    return transform_strides(metas[0], attrs[0], meta.shape)


def _over_one_dim(metas: Metas, attrs: Attrs, meta: Meta) -> Strides:
    return transform_strides(metas[0], (attrs[0],), meta.shape)


# -------------------------------------------------------------------------- complex to complex


def _c2c_ref(n: Any, x: Array) -> Array:
    dims, scale, forward = n.attrs
    if not x.size:
        return x
    if forward:
        return _transformed("fftn", x, axes=dims, norm=FORWARD[scale])
    return _transformed("ifftn", x, axes=dims, norm=BACKWARD[scale])


def _c2c_grad(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    dims, scale, forward = y._node.attrs
    return c2c(g, dims, scale, not forward)


FFT_C2C = Op(
    "fft_c2c",
    "host",
    # attrs (dims, scale, whether forward)
    infer=lambda metas, attrs, shape: metas[0],
    layout=_over_dims,
    ref=_c2c_ref,
    grads=(_c2c_grad,),
    saves="",
    batch=batched.folding,
    grad_fn="FftC2CBackward0",
    samples=s.calls(
        lambda: s.Sample((s.complexes(5),), lambda x: c2c(x, (0,), "none", True)),
        lambda: s.Sample((s.complexes(2, 3),), lambda x: c2c(x, (0, 1), "n", False)),
        lambda: s.Sample((s.complexes(2, 3),), lambda x: c2c(x, (0,), "root", True)),
        lambda: s.Sample((s.complexes(0, 3),), lambda x: c2c(x, (1,), "none", True)),
    ),
)


def c2c(x: Tensor, dims: Dims, scale: str, forward: bool) -> Tensor:
    """The transform of complex `x` over `dims`."""
    return record(FFT_C2C, (x,), (dims, scale, forward)) if dims else x


# ------------------------------------------------------------------ real to half a spectrum


def _r2c_ref(n: Any, x: Array) -> Array:
    dim, scale = n.attrs
    if not x.size:
        return np.zeros(n.meta.shape, n.meta.dtype.storage)
    return _transformed("rfft", x, axis=dim, norm=FORWARD[scale])


def _r2c_grad(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    dim, scale = y._node.attrs
    return real(c2c(padded(g, dim, 0, x.shape[dim]), (dim,), scale, False))


FFT_R2C = Op(
    "fft_r2c",
    "host",
    # attrs (dim, scale)
    infer=lambda metas, attrs, shape: _resized(
        metas[0], attrs[0], metas[0].shape[attrs[0]] // 2 + 1, metas[0].dtype.to_complex()
    ),
    layout=_over_one_dim,
    ref=_r2c_ref,
    grads=(_r2c_grad,),
    saves="",
    autocast="float32",
    batch=batched.along,
    grad_fn="FftR2CBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(5),), lambda x: r2c(x, 0, "none")),
        lambda: s.Sample((s.uniform(2, 4),), lambda x: r2c(x, 1, "n")),
        lambda: s.Sample((s.uniform(4, 2),), lambda x: r2c(x, 0, "root")),
    ),
)


def r2c(x: Tensor, dim: int, scale: str) -> Tensor:
    """The first half of the forward transform of real `x` along `dim`."""
    return record(FFT_R2C, (x,), (dim, scale))


# ------------------------------------------------------------------ half a spectrum to real


def _c2r_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    dim, _, size = attrs
    return _resized(metas[0], dim, size, metas[0].dtype.to_real())


def _c2r_ref(n: Any, x: Array) -> Array:
    dim, scale, size = n.attrs
    if not x.size:
        return np.zeros(n.meta.shape, n.meta.dtype.storage)
    return _transformed("irfft", x, size, axis=dim, norm=BACKWARD[scale])


def _c2r_grad(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    dim, scale, size = y._node.attrs
    half = r2c(g, dim, scale)
    # All but the first frequency, and the last of an even size, stand for two.
    count = size // 2 + 1
    number = counting(count)
    once = logical_or(eq(number, 0), eq(mul(number, 2), size))
    after = (1,) * (len(x.shape) - 1 - dim)
    return mul(half, reshape_to(where(once, 1.0, 2.0), (count, *after)))


FFT_C2R = Op(
    "fft_c2r",
    "host",
    # attrs (dim, scale, size of the result)
    infer=_c2r_infer,
    layout=_over_one_dim,
    ref=_c2r_ref,
    grads=(_c2r_grad,),
    saves="",
    batch=batched.along,
    grad_fn="FftC2RBackward0",
    samples=s.calls(
        lambda: s.Sample((s.complexes(3),), lambda x: c2r(x, 0, "n", 5)),
        lambda: s.Sample((s.complexes(2, 3),), lambda x: c2r(x, 1, "none", 4)),
        lambda: s.Sample((s.complexes(3, 2),), lambda x: c2r(x, 0, "root", 4)),
        lambda: s.Sample((s.complexes(1),), lambda x: c2r(x, 0, "n", 1)),
    ),
)


def c2r(x: Tensor, dim: int, scale: str, size: int) -> Tensor:
    """Real values of which complex `x`, of size // 2 + 1, is the first half of the transform."""
    return record(FFT_C2R, (x,), (dim, scale, size))
