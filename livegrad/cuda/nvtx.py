"""`torch.cuda.nvtx`: marks for a profiler of NVIDIA's, which is not there. They do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def range_push(msg: str) -> int:
    """0."""
    return 0


def range_pop() -> int:
    """0."""
    return 0


def range_start(msg: str) -> int:
    """0."""
    return 0


def range_end(range_id: int) -> None:
    """Nothing."""


def mark(msg: str) -> None:
    """Nothing."""


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Nothing, around a block."""
    yield
