"""Calls of operations from inside their own gradient's function: `library.Library`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Below(threading.local):
    on = False


_below = _Below()


def is_below_autograd() -> bool:
    """Whether operations pass by the functions of the key Autograd now."""
    return _below.on


@contextmanager
def below_autograd() -> Iterator[None]:
    """Operations that are called here pass by the functions of the key Autograd."""
    before, _below.on = _below.on, True
    try:
        yield
    finally:
        _below.on = before
