"""`torch.accelerator` where there is none: programs ask first, and run on the CPU."""

from __future__ import annotations


def is_available() -> bool:
    """False: livegrad runs on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None: there is no accelerator."""
