"""`torch.mps` where there is none: programs ask first, and run on the CPU."""

from __future__ import annotations


def is_available() -> bool:
    """False: livegrad runs on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator on a GPU. `livegrad.manual_seed` seeds the one there is."""


def empty_cache() -> None:
    """Nothing: nothing is cached on a GPU."""
