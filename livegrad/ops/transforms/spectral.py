"""Spectra of short frames of a signal: stft and its inverse, made of windows and transforms."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, div, mul
from livegrad.ops.elementwise.complex_parts import view_as_real
from livegrad.ops.elementwise.roots import square
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.picking.index_writing import index_add
from livegrad.ops.shaping.joining import pad, padded
from livegrad.ops.shaping.movement import EXPAND, reshape, reshape_to, transpose, transposed
from livegrad.ops.shaping.slicing import narrow
from livegrad.ops.shaping.strided import unfold
from livegrad.ops.support import samples as s
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.transforms.fourier import c2c, c2r, r2c

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


def _check(holds: bool, name: str, wanted: str, got: Any) -> None:
    if not holds:
        raise RuntimeError(f"{name}: expected {wanted}, but got {got}")


def _check_window(name: str, window: Tensor | None, n_fft: int, win_length: int) -> None:
    _check(0 < win_length <= n_fft, name, "0 < win_length <= n_fft", f"win_length={win_length}")
    if window is not None:
        shape = node_of(window).meta.shape
        fits = shape == (win_length,)
        _check(fits, name, f"a 1D window tensor of size {win_length}", f"one of size {list(shape)}")


def _centred_window(window: Tensor | None, like: Meta, n_fft: int, win_length: int) -> Tensor:
    """The window with zeros on both sides to make it as long as a frame."""
    if window is None:
        window = filled((win_length,), 1, like.dtype.to_real())
    return padded(window, 0, (n_fft - win_length) // 2, n_fft)


# -------------------------------------------------------------------------------------- forward


@in_float32
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Short-time Fourier transform: the spectra of overlapping frames, of shape (…, freq, frame).

    Args:
        n_fft: length of a frame; `hop_length` (n_fft // 4) lies between two.
        window: multiplied with each frame; of `win_length` (n_fft), padded to n_fft on both sides.
        center: pads the signal, by `pad_mode`, so that frame t is centred at t * hop_length.
        normalized: divides by √n_fft.
        onesided: half of the spectrum, the default for real signals.
        align_to_window: without `center`, frames start where windows do.
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    dtype = node_of(input).meta.dtype
    is_complex = dtype.is_complex or (window is not None and node_of(window).meta.dtype.is_complex)
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft: got return_complex=None with a real input; expected True or False. Give "
                "return_complex=True for a complex result"
            )
        return_complex = True
    half = not is_complex if onesided is None else onesided
    if half and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    frames = _frames(
        input, n_fft, hop_length, win_length, window, center, pad_mode, align_to_window
    )
    scale = "root" if normalized else "none"
    last = node_of(frames).meta.ndim - 1
    if half:
        spectra = r2c(frames, last, scale)
    else:
        spectra = c2c(frames.to(frames.dtype.to_complex()), (last,), scale, True)
    out = transposed(spectra, -1, -2)
    return out if return_complex else view_as_real(out)


def _frames(
    x: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    pad_mode: str,
    align_to_window: bool | None,
) -> Tensor:
    """The windowed frames of a signal: (…, frame, position in it)."""
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    meta = node_of(x).meta
    floating = meta.dtype.category >= dtypes.FLOAT
    _check(floating, "stft", "a tensor of floating point or complex values", meta.dtype.name)
    _check(meta.ndim in (1, 2), "stft", "a 1D or 2D tensor", f"a {meta.ndim}D tensor")
    if center:
        rows = reshape_to(x, (1, *meta.shape)[-2:])
        x = pad(rows, (n_fft // 2, n_fft // 2), pad_mode)
        x = reshape_to(x, node_of(x).meta.shape[-meta.ndim :])
    elif align_to_window:
        x = pad(x, ((n_fft - length) // 2, (n_fft - length + 1) // 2))
    size = node_of(x).meta.shape[-1]
    _check(0 < n_fft <= size, "stft", f"0 < n_fft <= {size}", f"n_fft={n_fft}")
    _check(hop > 0, "stft", "hop_length > 0", f"hop_length={hop}")
    _check_window("stft", window, n_fft, length)
    frames = unfold(x, -1, n_fft, hop)
    if window is None and length == n_fft:
        return frames
    return mul(frames, _centred_window(window, meta, n_fft, length))


# -------------------------------------------------------------------------------------- inverse


def _overlap_ref(n: Any, x: Array) -> Array:
    if x.size and np.abs(x).min() < 1e-11:
        raise RuntimeError("istft: window overlap add min: 1; the windows leave a gap between them")
    return x


OVERLAP: Op = Op(
    "overlap_checked",
    "host",
    # What overlapping windows add up to, which must not be 0 anywhere.
    infer=lambda metas, attrs, shape: metas[0],
    ref=_overlap_ref,
    grads=(lambda g, y, x: g,),
    saves="",
    samples=s.calls(lambda: s.Sample((s.uniform(5, low=0.5),), lambda x: record(OVERLAP, (x,)))),
)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The inverse of `stft`: overlapping frames added up, divided by what their windows add up to.

    Args:
        length: of the result; shorter signals are padded with zeros.
    """
    n_fft = as_index(n_fft)
    hop = n_fft // 4 if hop_length is None else as_index(hop_length)
    width = n_fft if win_length is None else as_index(win_length)
    half = _check_spectra(input, n_fft, hop, width, window, onesided)
    frames = _inverse(input, n_fft, window, normalized, half, return_complex)
    taper = _centred_window(window, node_of(input).meta, n_fft, width)
    shape = node_of(frames).meta.shape
    signal = _added_up(mul(frames, taper), hop)
    squares = record(EXPAND, (square(taper),), (), (), (shape[-2], n_fft))
    whole = n_fft + hop * (shape[-2] - 1)
    start = n_fft // 2 if center else 0
    end = whole - start if length is None else start + length
    count = max(min(end, whole) - start, 0)
    overlap = record(OVERLAP, (narrow(_added_up(squares, hop), -1, start, count),))
    out = div(narrow(signal, -1, start, count), overlap)
    if end > whole:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            stacklevel=2,
        )
        out = pad(out, (0, end - whole))
    return out


def _check_spectra(
    x: Tensor, n_fft: int, hop: int, width: int, window: Tensor | None, onesided: bool | None
) -> bool:
    """Checks what istft is given; whether the spectra are halves."""
    meta = node_of(x).meta
    if not meta.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    _check(meta.numel > 0, "istft", "an input tensor that is not empty", list(meta.shape))
    _check(meta.ndim in (2, 3), "istft", "a tensor with 2 or 3 dimensions", f"{meta.ndim}")
    found = meta.shape[-2]
    half = found != n_fft if onesided is None else onesided
    wanted = n_fft // 2 + 1 if half else n_fft
    _check(found == wanted, "istft", f"the frequency dimension to be {wanted}", found)
    _check(0 < hop <= width, "istft", "0 < hop_length <= win_length", f"hop_length={hop}")
    _check_window("istft", window, n_fft, width)
    return half


def _inverse(
    x: Tensor, n_fft: int, window: Tensor | None, normalized: bool, half: bool, to_complex: bool
) -> Tensor:
    """The frames of which `x` holds the spectra: (…, frame, position in it)."""
    scale = "root" if normalized else "n"
    spectra = transpose(x, -1, -2)
    last = node_of(x).meta.ndim - 1
    if to_complex:
        if half:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        return c2c(spectra, (last,), scale, False)
    if window is not None and window.dtype.is_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    return c2r(narrow(spectra, -1, 0, n_fft // 2 + 1), last, scale, n_fft)


def _added_up(frames: Tensor, hop: int) -> Tensor:
    """Frames laid `hop` apart over each other: (…, frame, position) to (…, time)."""
    meta = node_of(frames).meta
    count, size = meta.shape[-2:]
    starts = mul(reshape_to(counting(count), (count, 1)), hop)
    places = reshape(add(starts, counting(size)), -1)
    rows = reshape(frames, *meta.shape[:-2], count * size)
    total = filled((*meta.shape[:-2], size + hop * (count - 1)), 0, meta.dtype)
    return index_add(total, meta.ndim - 2, places, rows)
