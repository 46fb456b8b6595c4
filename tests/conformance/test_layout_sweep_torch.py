"""Strides of what functions give, of inputs that lie in memory in many ways, are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

LIES: dict[str, Callable[..., Any]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(-1, -2).clone().contiguous().transpose(-1, -2),
    "reversed": lambda x: (
        x.permute(*range(x.ndim)[::-1]).contiguous().permute(*range(x.ndim)[::-1])
    ),
    "channels last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    "rows last": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
    "in steps": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "a part": lambda x: x.repeat_interleave(2, 0)[x.shape[0] :],
}
# Of `x`, with functionals `F`.
CALLS = """
    T.fft.fft(x) | T.fft.fft(x, dim=0) | T.fft.ifft(x, dim=1) | T.fft.rfft(x) | T.fft.rfft(x, dim=0)
    T.fft.fft2(x) | T.fft.fftn(x) | T.fft.rfftn(x) | T.fft.rfft2(x, dim=(0, 1)) | T.fft.hfft(x)
    T.fft.irfft(x, dim=0) | T.fft.irfftn(T.fft.rfftn(x)) | T.fft.ihfft(x, dim=0)
    T.fft.fftn(x, dim=(0,)) | T.fft.fft2(x, dim=(0, 1)) | T.fft.fft(x, n=3, dim=0)
    T.unique(x, dim=0) | T.unique(x, dim=1) | T.unique_consecutive(x, dim=-1)
    T.addr(x, x[:, 0], x[0]) | T.addmm(x, x, T.ones(x.shape[1], x.shape[1])) | T.trace(x)
    F.adaptive_max_pool1d(x, 2) | F.adaptive_avg_pool1d(x, 2) | F.adaptive_avg_pool1d(x, 3)
    F.adaptive_max_pool1d(x, 3, True) | F.adaptive_max_pool2d(x, 2, True)
    F.adaptive_max_pool3d(x, 2) | F.adaptive_max_pool3d(x, 1, True) | F.adaptive_avg_pool3d(x, 2)
    F.interpolate(x, scale_factor=2, mode='area')
"""


def layouts(found: Any) -> Any:
    if isinstance(found, tuple | list):
        return [layouts(x) for x in found]
    return tuple(found.shape), found.stride(), found.tolist() if not found.is_complex() else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lies", LIES)
@pytest.mark.parametrize(
    "call", [c.strip() for c in CALLS.replace("\n", "|").split("|") if c.strip()]
)
def test_strides(call: str, lies: str) -> None:
    for shape in ((3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 2, 3)):
        found: list[Any] = []
        for T in (torch, lg):
            x = LIES[lies](T.arange(float(torch.Size(shape).numel())).reshape(shape) % 16)
            try:
                found.append(layouts(eval(call, {"T": T, "F": T.nn.functional, "x": x})))
            except (RuntimeError, ValueError, IndexError):
                found.append("refused")
        if isinstance(found[0], tuple) and found[0][1:] and isinstance(found[0][2], list):
            torch.testing.assert_close(found[1][2], found[0][2], rtol=1e-4, atol=1e-4)
            found = [each[:2] for each in found]
        assert found[1] == found[0], shape
