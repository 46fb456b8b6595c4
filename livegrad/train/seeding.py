"""Random numbers: seeding all generators of a program, and saving where they are."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np

from livegrad.creation import tensor
from livegrad.random import Generator, default_generator

RngState = dict[str, Any]


def seed_everything(seed: int | None = None) -> int:
    """Seeds livegrad's, NumPy's and Python's generators; returns the seed.

    Without a seed, one is drawn: print it, to be able to repeat the run. Workers of a DataLoader
    are seeded from livegrad's generator, so they follow.
    """
    if seed is None:
        seed = int.from_bytes(os.urandom(4), "little")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed_everything: got {type(seed).__name__}; expected an integer")
    seed = int(seed)
    default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))  # noqa: NPY002 - the generator that is every program's
    return seed


def rng_state() -> RngState:
    """Where the generators of livegrad, NumPy and Python are, for `set_rng_state`."""
    version, words, gauss = random.getstate()
    return {
        "livegrad": generator_state(default_generator),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002
        "python": [version, np.array(words, np.uint32), gauss],
    }


def set_rng_state(state: RngState) -> None:
    """Puts the generators back to where `rng_state` found them."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(np.asarray(words).tolist()), gauss))
    np.random.set_state(state["numpy"])  # noqa: NPY002
    set_generator_state(default_generator, state["livegrad"])


def generator_state(generator: Any) -> Any:
    """Where a generator is: livegrad's, NumPy's or Python's."""
    if isinstance(generator, Generator):
        return generator.get_state().tolist()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    version, words, gauss = generator.getstate()
    return [version, np.array(words, np.uint32), gauss]


def set_generator_state(generator: Any, state: Any) -> None:
    """Puts a generator back to where `generator_state` found it."""
    if isinstance(generator, Generator):
        generator.set_state(tensor(state, device="cpu"))
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        version, words, gauss = state
        generator.setstate((version, tuple(np.asarray(words).tolist()), gauss))


def is_generator(x: Any) -> bool:
    """Whether `x` is a generator whose place can be saved."""
    return isinstance(x, Generator | np.random.Generator | random.Random)
