"""`torch.distributed.tensor.experimental`: plain tensors beside those that are spread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A block where plain tensors count as the same everywhere: with one process they are."""
    yield
