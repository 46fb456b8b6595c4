"""FLOPs of `summary` against those that PyTorch counts."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import livegrad as lg  # noqa: E402
import livegrad.nn.functional as F  # noqa: E402
from livegrad import nn, train  # noqa: E402

CASES = {
    "linear": (lambda nn: nn.Linear(7, 5), (3, 4, 7)),
    "conv": (lambda nn: nn.Conv2d(6, 8, 3, stride=2, padding=1, groups=2), (2, 6, 9, 9)),
    "depthwise": (lambda nn: nn.Conv1d(6, 6, 3, dilation=2, groups=6), (2, 6, 20)),
    "conv3d": (lambda nn: nn.Conv3d(2, 4, 2), (1, 2, 5, 5, 5)),
    "transposed": (lambda nn: nn.ConvTranspose2d(4, 3, 3, stride=2), (2, 4, 5, 5)),
    "mlp": (
        lambda nn: nn.Sequential(
            nn.Linear(6, 9), nn.LayerNorm(9), nn.GELU(), nn.Dropout(0.1), nn.Linear(9, 2)
        ),
        (5, 6),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_flops(name):
    make, shape = CASES[name]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        make(torch.nn).eval()(torch.zeros(shape))
    assert train.summary(make(nn), shape).flops == counter.get_total_flops()


class Attention(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_flops_of_attention():
    shapes = (2, 3, 10, 8), (2, 3, 12, 8), (2, 3, 12, 6)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        q, k, v = [torch.zeros(shape) for shape in shapes]
        torch.softmax(q @ k.transpose(-1, -2), -1) @ v
    found = train.summary(Attention(), *[lg.zeros(shape) for shape in shapes])
    assert found.flops == counter.get_total_flops()
