"""What watching may take of the program's time for things it could do without."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Budget:
    """A share of the time, and some seconds in advance, so that the first steps are there.

    What is spent is the thread's own time: that others kept the processor meanwhile costs nothing.
    """

    def __init__(self, share: float, advance: float) -> None:
        self._share, self._advance = share, advance * 1e9
        self._began = time.perf_counter_ns()
        self._spent = 0

    def start(self) -> None:
        """Time counts from here."""
        self._began = time.perf_counter_ns()

    def allows(self) -> bool:
        """Whether there is time left."""
        passed = time.perf_counter_ns() - self._began
        return self._spent < self._advance + self._share * passed

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Counts what is done meanwhile."""
        started = time.thread_time_ns()
        try:
            yield
        finally:
            self._spent += time.thread_time_ns() - started
