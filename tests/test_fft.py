"""livegrad.fft against numpy.fft, and gradients of all its functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((3, 4, 5))
COMPLEX = REAL + 1j * RNG.standard_normal((3, 4, 5))
NORMS = ("backward", "ortho", "forward")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_dim(name: str, norm: str) -> None:
    x = REAL if name in ("rfft", "ihfft") else COMPLEX
    f, wanted = getattr(lg.fft, name), getattr(np.fft, name)
    for n, dim in ((None, -1), (3, 1), (7, 0), (1, -1)):
        got = f(lg.tensor(x), n, dim, norm)
        np.testing.assert_allclose(got.numpy(), wanted(x, n, dim, norm), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "irfft2"])
def test_many_dims(name: str, norm: str) -> None:
    x = REAL if name == "rfftn" else COMPLEX
    f, wanted = getattr(lg.fft, name), getattr(np.fft, name)
    for s, dim in ((None, (-2, -1)), ((3, 6), (0, 2)), ((2, 2), (2, 1))):
        got = f(lg.tensor(x), s, dim, norm)
        np.testing.assert_allclose(got.numpy(), wanted(x, s, dim, norm), rtol=1e-12, atol=1e-12)


def test_hermitian_forms_are_inverse_to_each_other() -> None:
    x = lg.tensor(REAL)
    for norm in NORMS:
        back = lg.fft.hfftn(lg.fft.ihfftn(x, norm=norm), s=REAL.shape, norm=norm)
        np.testing.assert_allclose(back.numpy(), REAL, atol=1e-12)
        flat = lg.fft.hfft2(lg.fft.ihfft2(x, norm=norm), s=(4, 5), norm=norm)
        np.testing.assert_allclose(flat.numpy(), REAL, atol=1e-12)


def test_precision_and_promotion() -> None:
    assert lg.fft.fft(lg.zeros(4)).dtype is lg.complex64
    assert lg.fft.rfft(lg.arange(4)).dtype is lg.complex64
    assert lg.fft.irfft(lg.zeros(3, dtype=lg.complex64)).dtype is lg.float32
    assert lg.fft.ihfft(lg.zeros(3, dtype=lg.float64)).dtype is lg.complex128
    with pytest.raises(RuntimeError, match="real input"):
        lg.fft.rfft(lg.zeros(3, dtype=lg.complex64))
    with pytest.raises(RuntimeError, match="Unsupported dtype"):
        lg.fft.fft(lg.zeros(3, dtype=lg.float16))


@pytest.mark.parametrize(
    "call",
    [
        lambda: lg.fft.fft(lg.zeros(3), n=0),
        lambda: lg.fft.fft(lg.zeros(3), norm="other"),
        lambda: lg.fft.fftn(lg.zeros(3, 3), dim=(0, 0)),
        lambda: lg.fft.fftn(lg.zeros(3, 3), s=(2,), dim=(0, 1)),
        lambda: lg.fft.fftn(lg.zeros(3), s=(2, 2)),
        lambda: lg.fft.rfftn(lg.zeros(3), dim=()),
        lambda: lg.fft.irfft(lg.zeros(1)),
    ],
)
def test_errors(call: Any) -> None:
    with pytest.raises(RuntimeError):
        call()


def test_dim_out_of_range() -> None:
    with pytest.raises(IndexError):
        lg.fft.fft(lg.zeros(3), dim=2)
    with pytest.raises(IndexError):
        lg.fft.fft2(lg.zeros(3))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_gradients(name: str) -> None:
    start = REAL[0, :2, :3] if name in ("rfft", "ihfft") else COMPLEX[0, :2, :3]
    x = lg.tensor(start, requires_grad=True)
    for n, norm in ((None, "ortho"), (5, None), (2, "forward")):
        f = getattr(lg.fft, name)
        assert lg.autograd.gradcheck(lambda t, f=f, n=n, norm=norm: f(t, n, 1, norm), (x,))
        assert lg.autograd.gradgradcheck(lambda t, f=f, n=n, norm=norm: f(t, n, 1, norm), (x,))


def test_frequencies_and_shifts() -> None:
    for n in (1, 4, 5):
        np.testing.assert_allclose(lg.fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5))
        np.testing.assert_allclose(lg.fft.rfftfreq(n, 0.5).numpy(), np.fft.rfftfreq(n, 0.5))
    x = lg.tensor(REAL)
    np.testing.assert_array_equal(lg.fft.fftshift(x).numpy(), np.fft.fftshift(REAL))
    np.testing.assert_array_equal(lg.fft.ifftshift(x, 2).numpy(), np.fft.ifftshift(REAL, 2))
    back = lg.fft.ifftshift(lg.fft.fftshift(x, (0, 1)), (0, 1))
    np.testing.assert_array_equal(back.numpy(), REAL)


# ------------------------------------------------------------------------------- short frames


def test_stft_is_the_spectrum_of_each_frame() -> None:
    signal = RNG.standard_normal((2, 20))
    window = np.hanning(6)
    got = lg.stft(
        lg.tensor(signal), 8, 3, 6, lg.tensor(window), center=False, return_complex=True
    ).numpy()
    taper = np.pad(window, 1)
    frames = [signal[:, i : i + 8] * taper for i in range(0, 13, 3)]
    np.testing.assert_allclose(got, np.stack([np.fft.rfft(f) for f in frames], -1), atol=1e-12)


@pytest.mark.parametrize("onesided", [True, False])
def test_istft_undoes_stft(onesided: bool) -> None:
    signal = RNG.standard_normal((2, 40))
    window = lg.tensor(np.hanning(10)[1:-1])
    options = {"hop_length": 2, "window": window, "normalized": True, "onesided": onesided}
    spectra = lg.stft(lg.tensor(signal), 8, return_complex=True, **options)
    back = lg.istft(spectra, 8, length=40, **options)
    np.testing.assert_allclose(back.numpy(), signal, atol=1e-12)


def test_gradients_of_stft_and_istft() -> None:
    x = lg.tensor(RNG.standard_normal(12), requires_grad=True)
    w = lg.tensor(np.hanning(6)[1:-1], requires_grad=True)
    assert lg.autograd.gradcheck(lambda x, w: lg.stft(x, 4, 2, 4, w, return_complex=True), (x, w))
    z = lg.tensor(COMPLEX[0, :3, :4], requires_grad=True)
    assert lg.autograd.gradcheck(lambda z, w: lg.istft(z, 4, 1, 4, w), (z, w))


def test_istft_finds_gaps_between_windows() -> None:
    z = lg.tensor(COMPLEX[0, :3, :4])
    window = lg.tensor([0.0, 0.0, 0.0, 1.0], dtype=lg.float64)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        lg.istft(z, 4, 4, 4, window).numpy()
