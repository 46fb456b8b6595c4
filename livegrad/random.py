"""Generators: a seed, and how many numbers have been drawn.

Random numbers are counter-based: element i of a draw is a function of the seed and of the number
offset + i alone. So the same numbers come out fused, unfused, recomputed in backward, or resumed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index as as_index
from typing import TYPE_CHECKING, Any

from livegrad.device import CPU, META, home

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


_MASK = (1 << 64) - 1
_MOST_DRAWN = (1 << 63) - 1  # then the stream begins anew


def _signed(number: int) -> int:
    """The 64-bit pattern of `number` as a signed integer."""
    number &= _MASK
    return number - (1 << 64) if number >> 63 else number


# What a new Generator starts from, as PyTorch's.
_DEFAULT_SEED = 67280421310721


class Generator:
    """A stream of random numbers, like `torch.Generator`.

    Example:
        >>> g = lg.Generator().manual_seed(0)
        >>> first = lg.rand(3, generator=g)
        >>> lg.equal(first, lg.rand(3, generator=g.manual_seed(0)))
        True
    """

    __slots__ = ("_initial", "_offset", "_seed")

    def __init__(self, device: Any = "cpu") -> None:
        if isinstance(device, int) and not isinstance(device, bool):
            self.manual_seed(device)  # an int is taken as the seed
            return
        if device is not None and home(device) is META:
            raise RuntimeError("Generator: device meta has no numbers; expected cpu")
        self.manual_seed(_DEFAULT_SEED)

    def manual_seed(self, seed: int) -> Generator:
        """Starts the stream of `seed` from the beginning."""
        if seed is None:
            raise RuntimeError("manual_seed expected a long, but got NoneType")
        if not -(1 << 63) <= int(seed) <= _MASK:
            raise ValueError(f"manual_seed: got {seed}; expected a number of at most 64 bits")
        self._initial = int(seed) & _MASK  # negative seeds count from the top
        self._seed = _signed(self._initial)
        self._offset = 0
        return self

    def initial_seed(self) -> int:
        """The seed the stream was started with."""
        return self._initial

    def seed(self) -> int:
        """Starts a stream nobody can foresee; returns its seed."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._initial

    def draw(self, count: int) -> tuple[int, int]:
        """(seed, offset) of the next `count` numbers, which are thereby used up."""
        offset = self._offset
        self._offset = (offset + as_index(count)) & _MOST_DRAWN
        return self._seed, offset

    def get_state(self) -> Tensor:
        """Seed and offset as a tensor, for `set_state`."""
        from livegrad.creation import tensor

        return tensor([self._seed, self._offset, _signed(self._initial)], device="cpu")

    def set_state(self, new_state: Any) -> Generator:
        """Goes back to where `get_state` was called."""
        if not hasattr(new_state, "tolist"):
            raise TypeError(f"expected a tensor of bytes, but got {type(new_state).__name__}")
        values = new_state.tolist()
        if len(values) != 3:
            raise RuntimeError(
                f"set_state: got {len(values)} numbers; expected what get_state gave"
            )
        self._seed, self._offset = values[0], values[1]
        self._initial = values[2] & _MASK
        return self

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        other = Generator()
        other._initial, other._seed, other._offset = self._initial, self._seed, self._offset
        return other

    def get_offset(self) -> int:
        """How many numbers have been drawn."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Goes on as if this many numbers had been drawn."""
        self._offset = int(offset)

    @property
    def device(self) -> Any:
        """Where the numbers are made."""
        return CPU

    def __repr__(self) -> str:
        return f"<Generator seed={self._initial} offset={self._offset}>"


default_generator = Generator()
# A program that seeds nothing draws other numbers each time it runs.
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Starts the default stream of `seed` from the beginning.

    Args:
        seed: any integer of 64 bits.

    Example:
        >>> _ = lg.manual_seed(0)
        >>> first = lg.rand(3)
        >>> _ = lg.manual_seed(0)
        >>> lg.equal(first, lg.rand(3))
        True
    """
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """The seed of the default stream."""
    return default_generator.initial_seed()


def seed() -> int:
    """Starts the default stream from a seed nobody can foresee; returns it."""
    return default_generator.seed()


def get_rng_state() -> Tensor:
    """State of the default stream, for `set_rng_state`."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Puts the default stream back to a state."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **options: Any) -> Iterator[None]:
    """Draws within the block leave the default stream as it was; for PyTorch's other arguments."""
    before = default_generator.clone_state()
    try:
        yield
    finally:
        if enabled:
            generator = default_generator
            generator._initial, generator._seed = before._initial, before._seed
            generator._offset = before._offset
