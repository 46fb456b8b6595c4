"""Random numbers for decisions: of the default generator, and known at once.

They are computed here, not by a kernel, so drawing one leaves everything else pending.
"""

from __future__ import annotations

import random

from livegrad.random import default_generator


def source() -> random.Random:
    """Numbers that follow from the generator's seed and from what was drawn before."""
    seed, offset = default_generator.draw(1)
    return random.Random((seed << 64) ^ offset)


def uniform(low: float = 0.0, high: float = 1.0) -> float:
    """A number of the interval."""
    return source().uniform(low, high)


def integer(low: int, high: int) -> int:
    """One of low, …, high - 1."""
    return source().randrange(low, high)


def chance(p: float) -> bool:
    """True with probability `p`."""
    return source().random() < p
