"""How long the program waits for data: batches of data loaders, while somebody watches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from livegrad.utils.data.iterators import LoaderIterator

_plain_next: Any = LoaderIterator.__next__


TELL: list[Callable[[float], None]] = []


def _watched_next(self: LoaderIterator) -> Any:
    started = time.perf_counter()
    batch = _plain_next(self)
    seconds = time.perf_counter() - started
    for tell in tuple(TELL):
        tell(seconds)
    return batch


def watch_loading(tell: Callable[[float], None], enabled: bool) -> None:
    """Has `tell(seconds)` called for each batch, or no longer."""
    if enabled:
        TELL.append(tell)
    else:
        TELL.remove(tell)
    chosen: Any = _watched_next if TELL else _plain_next
    type.__setattr__(LoaderIterator, "__next__", chosen)
