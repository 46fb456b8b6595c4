"""Decoding token by token: with a cache of keys and values, and a GPT that has none."""

import random
from typing import Any

import numpy as np

from benchmarks.changing.base import Step, filled
from benchmarks.frameworks import Namespace

WIDTH, HEADS, TOKENS = 64, 4, 50
MOST = 192  # the longest sequence


def decode_preallocated(t: Namespace, seed: int) -> Step:
    """Keys and values are written into a cache that has room for the longest sequence."""
    return _decode(t, seed, Preallocated, reads=False)


def decode_preallocated_read(t: Namespace, seed: int) -> Step:
    """The same, with every token read to see whether it is the last one."""
    return _decode(t, seed, Preallocated, reads=True)


def decode_cat(t: Namespace, seed: int) -> Step:
    """Keys and values grow by `cat`."""
    return _decode(t, seed, Concatenated, reads=False)


def decode_cat_read(t: Namespace, seed: int) -> Step:
    """The same, with every token read to see whether it is the last one."""
    return _decode(t, seed, Concatenated, reads=True)


class Preallocated:
    """Keys or values (heads, n, depth), of which a growing part is in use."""

    def __init__(self, t: Namespace) -> None:
        self.values = t.xp.zeros(HEADS, MOST, WIDTH // HEADS)
        self.used = 0

    def append(self, row: Any) -> Any:
        self.values[:, self.used] = row
        self.used += 1
        return self.values[:, : self.used]


class Concatenated:
    """Keys or values (heads, n, depth), made anew for every token."""

    def __init__(self, t: Namespace) -> None:
        self.xp = t.xp
        self.values = t.xp.zeros(HEADS, 0, WIDTH // HEADS)

    def append(self, row: Any) -> Any:
        self.values = self.xp.cat([self.values, row.unsqueeze(1)], 1)
        return self.values


def _decode(t: Namespace, seed: int, cache: Any, reads: bool) -> Step:
    """One layer of attention; sequences of another length at every step."""
    xp, chance = t.xp, random.Random(seed)
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Any:
        return xp.tensor(rng.standard_normal((rows, columns)).astype("f") * rows**-0.5)

    table, inner = matrix(TOKENS, WIDTH) * TOKENS**0.5, matrix(WIDTH, 3 * WIDTH)
    outer, head = matrix(WIDTH, WIDTH), matrix(WIDTH, TOKENS)
    noise = matrix(MOST, TOKENS) * MOST**0.5  # or soon one token would follow itself

    def attend(x: Any, keys: Any, values: Any) -> Any:
        q, k, v = (x @ inner).view(3, HEADS, WIDTH // HEADS)
        seen, held = keys.append(k), values.append(v)  # (heads, n, depth)
        scores = seen @ q.unsqueeze(2) * 0.25  # (heads, n, 1)
        mixed = (xp.softmax(scores, 1) * held).sum(1).reshape(WIDTH)
        return x + mixed @ outer

    def sequence(length: int) -> Any:
        keys, values = cache(t), cache(t)
        token, end = xp.tensor(chance.randrange(TOKENS)), chance.randrange(TOKENS)
        for place in range(length):
            logits = attend(table[token], keys, values) @ head
            token = (logits + noise[place]).argmax()
            if reads and token.item() == end and place > MOST // 4:
                break
        return logits.max()

    def step() -> Any:
        with xp.no_grad():
            return sequence(chance.randrange(MOST // 4, MOST))

    return step


def generate(t: Namespace, seed: int) -> Step:
    """A GPT of 4 layers, 128 wide, samples 64 tokens after a prompt; none is read on the way."""
    return _generate(t, seed, reads=False)


def generate_read(t: Namespace, seed: int) -> Step:
    """The same, with every token read, as programs do that print what they sample."""
    return _generate(t, seed, reads=True)


BLOCK, VOCABULARY = 128, 65


def _gpt(t: Namespace) -> Any:
    xp, nn, F = t.xp, t.nn, t.F

    class Attention(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.inner = nn.Linear(width, 3 * width)
            self.outer = nn.Linear(width, width)
            mask = xp.tril(xp.ones(BLOCK, BLOCK)).view(1, 1, BLOCK, BLOCK)
            self.register_buffer("mask", mask, persistent=False)

        def forward(self, x: Any) -> Any:
            B, T, C = x.size()
            parts = self.inner(x).split(C, dim=2)
            q, k, v = (
                part.view(B, T, self.heads, C // self.heads).transpose(1, 2) for part in parts
            )  # (B, heads, T, depth)
            scores = q @ k.transpose(-2, -1) * (C // self.heads) ** -0.5
            scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
            return self.outer(y.transpose(1, 2).contiguous().view(B, T, C))

    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention(width, heads)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.before(x))
            return x + self.mlp(self.between(x))

    class GPT(nn.Module):
        def __init__(self, layers: int, width: int, heads: int) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, width)
            self.places = nn.Embedding(BLOCK, width)
            self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, VOCABULARY, bias=False)

        def forward(self, indices: Any) -> Any:
            places = xp.arange(indices.size(1)).unsqueeze(0)
            x = self.tokens(indices) + self.places(places)
            return self.head(self.norm(self.blocks(x)))

    return GPT(4, 128, 4)


def _generate(t: Namespace, seed: int, reads: bool) -> Step:
    xp, chance = t.xp, random.Random(seed)
    rng = np.random.default_rng(seed)
    model = filled(t, rng, _gpt(t)).eval()
    # Sampling by the largest of logits with Gumbel's noise, which both frameworks take from here:
    # their own random numbers differ.
    noise = xp.tensor(rng.gumbel(size=(997, 1, VOCABULARY)).astype("f"))
    drawn = 0

    def step() -> Any:
        nonlocal drawn
        text = []
        prompt = [[chance.randrange(VOCABULARY) for _ in range(chance.randrange(1, 65))]]
        with xp.no_grad():
            indices = xp.tensor(prompt)
            for _ in range(64):
                logits = model(indices[:, -BLOCK:])[:, -1, :] / 0.8
                chosen = (logits + noise[drawn % 997]).argmax(-1, keepdim=True)
                indices = xp.cat([indices, chosen], dim=1)
                drawn += 1
                if reads:
                    text.append(chosen.item())
            return logits.max()

    return step
