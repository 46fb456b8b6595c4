"""Which events the lint hears at the moment: see `graph/events.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from livegrad.graph.events import Listener
from livegrad.graph.watch import Watch

# The lists that a function of the lint's is in, and the function.
_heard: list[tuple[list[Listener], Listener]] = []


def hear(listeners: list[Listener], listener: Listener) -> None:
    """Has a function of the lint's told of events of one kind, if none is yet."""
    if Watch.enabled and not hears(listeners):
        listeners.append(listener)
        _heard.append((listeners, listener))


def hears(listeners: list[Listener]) -> bool:
    """Whether the lint is told of events of one kind."""
    return any([other is listeners for other, _ in _heard])


def ignore(listeners: list[Listener]) -> None:
    """Ends that."""
    for other, listener in [pair for pair in _heard if pair[0] is listeners]:
        _heard.remove((other, listener))
        listeners.remove(listener)


def ignore_all() -> None:
    """Has the lint told of nothing."""
    for listeners, listener in _heard:
        listeners.remove(listener)
    _heard.clear()


@contextmanager
def paused() -> Iterator[None]:
    """Within it the lint hears nothing; afterwards what it heard before."""
    before = list(_heard), Watch.enabled, Watch.suspect
    ignore_all()
    Watch.enabled, Watch.suspect = False, None
    try:
        yield
    finally:
        heard, Watch.enabled, Watch.suspect = before
        for listeners, listener in heard:
            hear(listeners, listener)
