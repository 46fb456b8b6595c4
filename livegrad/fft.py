"""Discrete Fourier transforms, with PyTorch's names and rules.

    fft   complex to complex          rfft   real to the half of the spectrum that says it all
    hfft  such a half in time to a real spectrum; each has an inverse (ifft, irfft, ihfft), a form
          over two dims (fft2) and one over many (fftn)

`norm` is "backward" (the inverse divides by n; the default), "forward" (the other way round) or
"ortho" (both divide by √n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad import creation, dtypes
from livegrad.graph.blame import as_float, one_or_several
from livegrad.graph.elsewhere import placed
from livegrad.graph.handle import node_of
from livegrad.ops.bookkeeping.in_place import laid_out_as
from livegrad.ops.elementwise.arithmetic import cast, mul, sub, where
from livegrad.ops.elementwise.comparison import lt
from livegrad.ops.elementwise.complex_parts import conj
from livegrad.ops.making.generate import counting
from livegrad.ops.shaping.joining import padded, roll
from livegrad.ops.shaping.movement import normal_dim, whole
from livegrad.ops.shaping.slicing import narrow
from livegrad.ops.support.autocast import casted
from livegrad.ops.support.out import casting, creating, exact
from livegrad.ops.support.public import publish
from livegrad.ops.transforms.fourier import c2c, c2r, r2c, transform_strides
from livegrad.settings import check_layout

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Shape = Sequence[int] | int | None
Dims = Sequence[int] | int | None


# -------------------------------------------------------------------------------- arguments


def _scale(name: str, norm: str | None, forward: bool) -> str:
    """What the sums of a transform are divided by; see `ops/transforms/fourier.py`."""
    if norm is None or norm == "backward":
        return "none" if forward else "n"
    if norm == "forward":
        return "n" if forward else "none"
    if norm == "ortho":
        return "root"
    raise RuntimeError(f'{name}: Invalid normalization mode: "{norm}"')


def _promoted(name: str, x: Tensor, to_complex: bool) -> Tensor:
    (x,) = casted("float32", x)
    dtype = node_of(x).meta.dtype
    if dtype in (dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(f"{name}: Unsupported dtype {dtype.name}. Convert with .float() first")
    if dtype.category < dtypes.FLOAT:
        dtype = dtypes.get_default_dtype()
    return cast(x, dtype.to_complex() if to_complex else dtype)


def _real_input(name: str, x: Tensor) -> Tensor:
    if node_of(x).meta.dtype.is_complex:
        raise RuntimeError(f"{name} expects a real input tensor, but got {x.dtype.name}")
    return _promoted(name, x, False)


def _check_points(n: int) -> int:
    n = whole("fft", "n", n)
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def _sized(x: Tensor, dim: int, n: int) -> Tensor:
    """`x` cut or filled up with zeros to `n` elements along `dim`."""
    size = x.shape[dim]
    return narrow(x, dim, 0, n) if size > n else padded(x, dim, 0, n)


def _one_dim(name: str, x: Tensor, dim: int) -> int:
    if not x.ndim:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    return normal_dim(name, dim, x.ndim)


def _several_dims(name: str, x: Tensor, s: Shape, dim: Dims) -> tuple[list[int], list[int]]:
    """The dims to transform and their sizes."""
    sizes = None if s is None else list(one_or_several(s))
    if dim is not None:
        given = list(one_or_several(dim))
        if given and not x.ndim:
            raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
        dims = [normal_dim(name, d, x.ndim) for d in given]
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"{name}: FFT dims must be unique; got {given}")
        if sizes is not None and len(sizes) != len(dims):
            raise RuntimeError(
                f"{name}: When given, dim and shape arguments must have the same length; got "
                f"{given} and {sizes}"
            )
    elif sizes is not None:
        if len(sizes) > x.ndim:
            raise RuntimeError(
                f"{name}: Got shape with {len(sizes)} values but input tensor only has {x.ndim} "
                "dimensions."
            )
        dims = list(range(x.ndim - len(sizes), x.ndim))
    else:
        dims = list(range(x.ndim))
    wanted = sizes or [-1] * len(dims)
    wanted = [x.shape[d] if n == -1 else n for n, d in zip(wanted, dims, strict=True)]
    return dims, [_check_points(n) for n in wanted]


def _all_sized(x: Tensor, dims: list[int], sizes: list[int]) -> Tensor:
    for dim, n in zip(dims, sizes, strict=True):
        x = _sized(x, dim, n)
    return x


def _half_sizes(name: str, x: Tensor, s: Shape, dim: Dims) -> tuple[list[int], list[int], int]:
    """Dims and sizes of half a spectrum, and the size of the last dim once it is real."""
    dims, sizes = _several_dims(name, x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = s if isinstance(s, int) else s[-1] if s else -1
    real = _check_points(2 * (x.shape[dims[-1]] - 1) if last == -1 else last)
    return dims, [*sizes[:-1], real // 2 + 1], real


# ------------------------------------------------------------------------------ over one dim


def _c2c_one(
    name: str, x: Tensor, n: int | None, dim: int, norm: str | None, forward: bool
) -> Tensor:
    x = _promoted(name, x, True)
    d = _one_dim(name, x, dim)
    size = _check_points(x.shape[d] if n is None else n)
    return c2c(_sized(x, d, size), (d,), _scale(name, norm, forward), forward)


@casting
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along `dim`, of `n` elements (cut, or filled with zeros)."""
    return _c2c_one("fft", input, n, dim, norm, True)


@exact
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`."""
    return _c2c_one("ifft", input, n, dim, norm, False)


def _r2c_one(
    name: str, x: Tensor, n: int | None, dim: int, norm: str | None, forward: bool
) -> Tensor:
    x = _real_input(name, x)
    d = _one_dim(name, x, dim)
    size = _check_points(x.shape[d] if n is None else n)
    out = r2c(_sized(x, d, size), d, _scale(name, norm, forward))
    return out if forward else conj(out)


def _c2r_one(
    name: str, x: Tensor, n: int | None, dim: int, norm: str | None, forward: bool
) -> Tensor:
    x = _promoted(name, x, True)
    d = _one_dim(name, x, dim)
    size = _check_points(2 * (x.shape[d] - 1) if n is None else n)
    x = _sized(x, d, size // 2 + 1)
    return c2r(conj(x) if forward else x, d, _scale(name, norm, forward), size)


@casting
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 elements of the transform of real values; the rest mirrors them."""
    return _r2c_one("rfft", input, n, dim, norm, True)


@casting
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: `n` real values, 2 * (size - 1) by default."""
    return _c2r_one("irfft", input, n, dim, norm, False)


@casting
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of a Hermitian-symmetric signal, of which `input` is the first half."""
    return _c2r_one("hfft", input, n, dim, norm, True)


@exact
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`."""
    return _r2c_one("ihfft", input, n, dim, norm, False)


# ----------------------------------------------------------------------------- over many dims


def _c2c_many(name: str, x: Tensor, s: Shape, dim: Dims, norm: str | None, forward: bool) -> Tensor:
    x = _promoted(name, x, True)
    dims, sizes = _several_dims(name, x, s, dim)
    return c2c(_all_sized(x, dims, sizes), tuple(dims), _scale(name, norm, forward), forward)


@casting
def fftn(input: Tensor, s: Shape = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The transform over several dims: `dim`, or the last len(s), or all; of sizes `s`."""
    return _c2c_many("fftn", input, s, dim, norm, True)


@casting
def ifftn(input: Tensor, s: Shape = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`."""
    return _c2c_many("ifftn", input, s, dim, norm, False)


@casting
def rfftn(input: Tensor, s: Shape = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The transform of real values over several dims: half of the last one says it all."""
    x = _real_input("rfftn", input)
    dims, sizes = _several_dims("rfftn", x, s, dim)
    if not dims:
        raise RuntimeError("rfftn must transform at least one axis")
    scale = _scale("rfftn", norm, True)
    x = _all_sized(x, dims, sizes)
    out = c2c(r2c(x, dims[-1], scale), tuple(dims[:-1]), scale, True)
    lie = transform_strides(node_of(x).meta, tuple(dims[:-1]), out.shape, tuple(dims[-1:]))
    return laid_out_as(out, lie)


@casting
def irfftn(input: Tensor, s: Shape = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`; the last size is 2 * (size - 1) by default."""
    x = _promoted("irfftn", input, True)
    dims, sizes, real = _half_sizes("irfftn", x, s, dim)
    scale = _scale("irfftn", norm, False)
    x = c2c(_all_sized(x, dims, sizes), tuple(dims[:-1]), scale, False)
    return c2r(x, dims[-1], scale, real)


@casting
def hfftn(input: Tensor, s: Shape = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The real transform over several dims of a signal that is Hermitian-symmetric in the last."""
    x = _promoted("hfftn", input, True)
    dims, sizes, real = _half_sizes("hfftn", x, s, dim)
    scale = _scale("hfftn", norm, True)
    x = c2c(_all_sized(x, dims, sizes), tuple(dims[:-1]), scale, True)
    return c2r(conj(x), dims[-1], scale, real)


@casting
def ihfftn(input: Tensor, s: Shape = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`."""
    x = _real_input("ihfftn", input)
    dims, sizes = _several_dims("ihfftn", x, s, dim)
    if not dims:
        raise RuntimeError("ihfftn must transform at least one axis")
    scale = _scale("ihfftn", norm, False)
    half = conj(r2c(_all_sized(x, dims, sizes), dims[-1], scale))
    return c2c(half, tuple(dims[:-1]), scale, False)


@casting
def fft2(input: Tensor, s: Shape = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`fftn` over two dims."""
    return fftn(input, s, dim, norm)


@casting
def ifft2(input: Tensor, s: Shape = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`ifftn` over two dims."""
    return ifftn(input, s, dim, norm)


@casting
def rfft2(input: Tensor, s: Shape = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`rfftn` over two dims."""
    return rfftn(input, s, dim, norm)


@casting
def irfft2(input: Tensor, s: Shape = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`irfftn` over two dims."""
    return irfftn(input, s, dim, norm)


@casting
def hfft2(input: Tensor, s: Shape = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`hfftn` over two dims."""
    return hfftn(input, s, dim, norm)


@casting
def ihfft2(input: Tensor, s: Shape = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`ihfftn` over two dims."""
    return ihfftn(input, s, dim, norm)


# -------------------------------------------------------------------------------- frequencies


def _frequencies(x: Tensor, step: float, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return creation.as_leaf(placed(mul(cast(x, target), step), device), requires_grad)


def _frequency_step(name: str, n: Any, d: Any) -> tuple[int, float]:
    """The number of samples, checked, and `1 / (n * d)`."""
    n = whole(name, "n", n)
    if n < 0:
        raise RuntimeError(f"{name}: trying to create tensor with negative dimension {n}")
    length = n * as_float(d)
    return n, 1.0 / length if length else math.inf


@creating
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """The frequencies of `fft` of `n` samples `d` apart: 0, 1, …, -2, -1, each over n * d."""
    check_layout("fftfreq", layout)
    n, step = _frequency_step("fftfreq", n, d)
    k = counting(n)
    wrapped = where(lt(k, (n + 1) // 2), k, sub(k, n))
    return _frequencies(wrapped, step, dtype, device, requires_grad)


@creating
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """The frequencies of `rfft` of `n` samples `d` apart: 0 … n // 2, each over n * d."""
    check_layout("rfftfreq", layout)
    n, step = _frequency_step("rfftfreq", n, d)
    return _frequencies(counting(n // 2 + 1), step, dtype, device, requires_grad)


def _shifted(x: Tensor, dim: Dims, up: int) -> Tensor:
    shape = node_of(x).meta.shape
    given = range(len(shape)) if dim is None else one_or_several(dim)
    dims = [normal_dim("fftshift", d, len(shape)) for d in given]
    if not dims or not shape:
        return x
    return roll(x, [(shape[d] + up) // 2 for d in dims], dims)


def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """`input` with frequency 0 moved to the middle."""
    return _shifted(input, dim, 0)


def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted(input, dim, 1)


__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

publish(globals(), __all__)
