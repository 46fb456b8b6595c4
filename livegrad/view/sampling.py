"""Which steps are watched in full: all, if that costs little; else one among some.

    full   bare bare bare   full   bare bare bare   full …

What watching costs is measured: the shortest of the latest steps that were watched in full against
the shortest of those that were not. A step of 30 µs is watched now and then, one of 10 ms always.
"""

from __future__ import annotations

from collections import deque

# The share of the time that watching in full may take.
SHARE = 0.01
# Steps at the start that are watched, whatever it costs: they are what people look at first.
FIRST = 12
MOST_BARE = 500
# After so many steps that were watched, one is not, to see what it costs now.
CHECK_EVERY = 40


class Sampler:
    """Told how long each step took, says whether the next is watched in full."""

    def __init__(self) -> None:
        self._full: deque[int] = deque(maxlen=9)
        self._bare: deque[int] = deque(maxlen=9)
        self._seen = 0
        self._left = 0  # bare steps until the next full one, at most
        self._owed = 0.0  # nanoseconds of them until what the last full one cost is a small share
        self._since_bare = 0
        self._asked = 0

    def ask(self, steps: int) -> None:
        """Has the next steps watched in full: somebody looks at each."""
        self._asked = steps

    def next_is_full(self, was_full: bool, took: int) -> bool:
        """Notes a step of `took` nanoseconds; whether the next is watched."""
        self._seen += 1
        (self._full if was_full else self._bare).append(took)
        if self._asked > 0:
            self._asked -= 1
            return True
        if self._seen < FIRST:
            return True
        if not was_full:
            self._since_bare = 0
            self._left -= 1
            self._owed -= took
            return self._left <= 0 or (self._owed <= 0 and len(self._bare) >= 3)
        self._since_bare += 1
        self._left, self._owed = self._bare_steps()
        return self._left <= 0

    def _bare_steps(self) -> tuple[int, float]:
        """How many steps, and for how long, are not watched after one that is."""
        if len(self._bare) < 3:
            return 3, 0.0
        full, bare = min(self._full), max(1, min(self._bare))
        extra = full - bare
        if extra <= SHARE * bare:
            return (1 if self._since_bare >= CHECK_EVERY else 0), 0.0
        return MOST_BARE, extra / SHARE - full
