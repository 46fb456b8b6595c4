"""A hundred operations of many kinds, in another order at every step."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.changing.base import Step
from benchmarks.frameworks import Namespace


def mixed(t: Namespace, seed: int) -> Step:
    """A hundred mixed operations, one after the other, forward only."""
    xp, chance = t.xp, random.Random(seed)
    rng = np.random.default_rng(seed)
    x, y = (xp.tensor(rng.standard_normal((32, 32)).astype("f")) for _ in range(2))
    order = xp.tensor(rng.permutation(32))
    operations = _operations(t, y, order) * 4

    def step() -> Any:
        chance.shuffle(operations)
        value = x
        for operation in operations:
            value = operation(value)
        return value.abs().mean()

    return step


def _operations(t: Namespace, y: Any, order: Any) -> list[Callable[[Any], Any]]:
    """25 operations from (32, 32) to (32, 32). None lets values grow without bounds."""
    xp, F = t.xp, t.F
    return [
        xp.sin,
        xp.tanh,
        xp.sigmoid,
        xp.abs,
        F.gelu,
        F.softplus,
        lambda v: xp.exp(-v.abs()),
        lambda v: xp.sqrt(v.abs() + 1),
        lambda v: v + y,
        lambda v: v * y.sigmoid(),
        lambda v: y - v,
        lambda v: v / 2,
        lambda v: xp.maximum(v, y),
        lambda v: xp.where(v > 0, v, y),
        lambda v: v.clamp(-2, 2),
        lambda v: xp.tanh(v @ y),
        lambda v: v.t(),
        lambda v: v.flip(0),
        lambda v: v.reshape(16, 64).reshape(32, 32),
        lambda v: xp.cat([v[16:], v[:16]], 0),
        lambda v: v[order],
        lambda v: xp.softmax(v, 1),
        lambda v: F.layer_norm(v, (32,)),
        lambda v: v - v.mean(1, keepdim=True),
        lambda v: v.cumsum(0) / 32,
    ]
