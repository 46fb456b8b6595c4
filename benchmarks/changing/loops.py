"""Python loops that write to tensors, element by element or part by part."""

import math
import random
import string
from typing import Any

import numpy as np

from benchmarks.changing.base import Step
from benchmarks.frameworks import Namespace

MANY = 100  # writes in one step, so that a step is long enough to be timed


def unread_writes(t: Namespace, seed: int) -> Step:
    """`x[i] += 1` on a million elements, unread for a hundred writes."""
    chance, x = random.Random(seed), t.xp.zeros(1_000_000)

    def step() -> Any:
        for _ in range(MANY):
            i = chance.randrange(1_000_000)
            x[i] += 1
        return x[i]

    return step


def read_writes(t: Namespace, seed: int) -> Step:
    """`x[i] += 1` on a million elements, and an element read after every write."""
    chance, x = random.Random(seed), t.xp.zeros(1_000_000)

    def step() -> Any:
        for _ in range(MANY):
            i = chance.randrange(1_000_000)
            x[i] += 1
            x[i].item()
        return x[i]

    return step


def replay_buffer(t: Namespace, seed: int) -> Step:
    """A buffer of 100,000 × 64: a row is written, and after 16 rows a batch is sampled."""
    xp, rng = t.xp, np.random.default_rng(seed)
    buffer = xp.zeros(100_000, 64)
    observations = rng.standard_normal((1000, 64)).astype("f")
    written = 0

    def step() -> Any:
        nonlocal written
        for _ in range(16):
            buffer[written % 100_000] = xp.tensor(observations[written % 1000])
            written += 1
        return buffer[xp.tensor(rng.integers(0, written, 32))].mean()

    return step


def sieve(t: Namespace, seed: int) -> Step:
    """The sieve of Eratosthenes up to another number at every step, nothing read on the way."""
    xp, chance = t.xp, random.Random(seed)

    def step() -> Any:
        limit = chance.randrange(5_000, 10_000)
        prime = xp.ones(limit, dtype=xp.bool)
        prime[:2] = False
        for i in range(2, math.isqrt(limit) + 1):
            prime[2 * i :: i] = False
        return prime.sum()

    return step


def edit_distance(t: Namespace, seed: int) -> Step:
    """The table of the edit distance of two words, about 19 cells, cell by cell; five words."""
    xp, chance = t.xp, random.Random(seed)

    def distance(a: str, b: str) -> Any:
        table = xp.zeros(len(a) + 1, len(b) + 1)
        table[:, 0] = xp.arange(len(a) + 1)
        table[0, :] = xp.arange(len(b) + 1)
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                gap = xp.minimum(table[i - 1, j], table[i, j - 1]) + 1
                changed = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
                table[i, j] = xp.minimum(gap, changed)
        return table[-1, -1]

    def word() -> str:
        return "".join(chance.choices(string.ascii_lowercase[:4], k=chance.randrange(3, 7)))

    def step() -> Any:
        return sum(distance(word(), word()) for _ in range(5))

    return step


def element_condition(t: Namespace, seed: int) -> Step:
    """`if d[i] > 5: d[j] = 1.`, a hundred times."""
    xp, chance = t.xp, random.Random(seed)
    d = xp.tensor(np.random.default_rng(seed).uniform(0, 10, 1000).astype("f"))

    def step() -> Any:
        for _ in range(MANY):
            i, j = chance.randrange(1000), chance.randrange(1000)
            if d[i] > 5:
                d[j] = 1.0
            else:
                d[j] = 9.0
        return d.sum()

    return step
