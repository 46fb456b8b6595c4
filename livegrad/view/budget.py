"""What watching may take of the program's time for things it could do without."""

from __future__ import annotations

import time

_now = time.perf_counter_ns


class Budget:
    """A share of the time, and some seconds in advance, so that the first steps are there."""

    def __init__(self, share: float, advance: float) -> None:
        self._share, self._advance = share, advance * 1e9
        self._began = _now()
        self._spent = 0

    def start(self) -> None:
        """Time counts from here."""
        self._began = _now()

    def allows(self) -> bool:
        """Whether there is time left."""
        return self._spent < self._advance + self._share * (_now() - self._began)

    def spend(self, since: int) -> None:
        """Counts the time since then."""
        self._spent += _now() - since
