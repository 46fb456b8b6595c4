"""How long the program waits for data: batches of data loaders, while somebody watches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from livegrad.utils.data.iterators import LoaderIterator

_plain_next: Any = LoaderIterator.__next__


def watch_loading(tell: Callable[[float], None] | None) -> None:
    """Has `tell(seconds)` called for each batch, or no longer."""

    def watched_next(self: LoaderIterator) -> Any:
        started = time.perf_counter()
        batch = _plain_next(self)
        assert tell is not None
        tell(time.perf_counter() - started)
        return batch

    chosen: Any = _plain_next if tell is None else watched_next
    type.__setattr__(LoaderIterator, "__next__", chosen)
