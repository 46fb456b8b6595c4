"""How many kernels a training step of a network takes, and how much memory: a lost fusion fails."""

from __future__ import annotations

import numpy as np

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.runtime.report import last_steps, latest


def test_lenet() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    rng = np.random.default_rng(0)
    x = lg.tensor(rng.standard_normal((16, 3, 32, 32)).astype("f4"))
    y = lg.tensor(rng.integers(0, 10, 16))
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    kinds = [step.kind for step in last_steps()]
    assert len(kinds) <= 24, kinds


def transformer(layers: int, width: int, words: int) -> nn.Module:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: lg.Tensor) -> lg.Tensor:
            batch, time, _ = x.shape
            parts = self.qkv(self.ln1(x)).split(width, 2)
            q, k, v = [y.view(batch, time, 4, width // 4).transpose(1, 2) for y in parts]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, time, width))
            return x + self.down(F.gelu(self.up(self.ln2(x))))

    blocks = [Block() for _ in range(layers)]
    return nn.Sequential(nn.Embedding(words, width), *blocks, nn.Linear(width, words, bias=False))


def test_memory_of_a_transformer() -> None:
    """A step has room for what its gradients read alone: per token and layer 16 times the width,
    as residuals, norms, queries, keys, values, what attention gives, four times the width before
    and after gelu; and for logits, twice. What is computed in between finds its place there."""
    layers, width, words, tokens = 4, 64, 100, 8 * 64
    model = transformer(layers, width, words)
    optimizer = optim.AdamW(model.parameters())
    x, y = lg.randint(0, words, (8, 64)), lg.randint(0, words, (tokens,))
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x).view(-1, words), y).backward()
        optimizer.step()
    ran = latest()
    assert ran is not None
    assert ran.executable.plan.arena <= 4 * tokens * (16 * width * layers + 2 * words)
    assert len(ran.steps) <= 119
