"""The extension `fft` of the standard."""

from __future__ import annotations

from typing import Any

import livegrad as lg
from livegrad.dtypes import COMPLEX, FLOAT, DType

Array = Any


def _check(name: str, x: Array, kinds: tuple[int, ...]) -> None:
    if x.dtype.category not in kinds:
        raise TypeError(f"{name}: an array of {x.dtype} is not allowed; convert it with astype")


def _one(name: str, kinds: tuple[int, ...], doc: str) -> Any:
    def call(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
        _check(name, x, kinds)
        return getattr(lg.fft, name)(x, n, axis, norm)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def _many(name: str, kinds: tuple[int, ...], doc: str) -> Any:
    def call(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
        _check(name, x, kinds)
        return getattr(lg.fft, name)(x, s, axes, norm)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


fft = _one("fft", (COMPLEX,), "The discrete Fourier transform.")
ifft = _one("ifft", (COMPLEX,), "The inverse transform.")
rfft = _one("rfft", (FLOAT,), "The transform of real values: its first half.")
irfft = _one("irfft", (COMPLEX,), "The inverse of `rfft`.")
hfft = _one("hfft", (COMPLEX,), "The transform of a Hermitian signal: real values.")
ihfft = _one("ihfft", (FLOAT,), "The inverse of `hfft`.")
fftn = _many("fftn", (COMPLEX,), "The transform over several axes.")
ifftn = _many("ifftn", (COMPLEX,), "The inverse transform over several axes.")
rfftn = _many("rfftn", (FLOAT,), "The transform of real values over several axes.")
irfftn = _many("irfftn", (COMPLEX,), "The inverse of `rfftn`.")


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Array:
    """The frequencies of a transform of `n` samples at distances `d`."""
    return lg.fft.fftfreq(n, d, dtype=dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Array:
    """The frequencies of `rfft`."""
    return lg.fft.rfftfreq(n, d, dtype=dtype)


def fftshift(x: Array, /, *, axes: Any = None) -> Array:
    """With frequency zero in the middle."""
    return lg.fft.fftshift(x, axes)


def ifftshift(x: Array, /, *, axes: Any = None) -> Array:
    """The inverse of `fftshift`."""
    return lg.fft.ifftshift(x, axes)


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip
