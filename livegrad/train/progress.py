"""progress(): how far a loop is, with the loss, the speed and the time it will still take.

Progress ── counts, measures, keeps the values to show
   └─ a screen draws all bars that are open:
        Terminal   rich bars, redrawn in place
        Notebook   one output cell, replaced
        Lines      plain lines, a few per loop, for logs and pipes
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from livegrad.train.screens import Screen, screen_for
from livegrad.utils.reading import settled

T = TypeVar("T")

REDRAW = 0.1  # seconds between two drawings
WINDOW = 30  # drawings over which the speed is measured


class Progress(Generic[T]):
    """One bar; see `progress`."""

    def __init__(
        self,
        iterable: Iterable[T] | None,
        description: str,
        total: int | None,
        initial: int,
        unit: str,
        file: Any,
    ) -> None:
        self.description = description
        self.total = total
        self.count = initial
        self.unit = unit
        self.nested = False
        self._initial = initial
        self._iterable = iterable
        self._file = file
        self._screen: Screen | None = None
        self._values: dict[str, Any] = {}
        self._open = False
        self._started = self._drawn = 0.0
        self._marks: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    # ---- the loop --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        if self._iterable is None:
            raise TypeError("progress: there is nothing to iterate over; call update() instead")
        with self:
            for item in self._iterable:
                yield item
                self.update()

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("progress: the length is not known")
        return self.total

    def __enter__(self) -> Progress[T]:
        if not self._open:
            self._open = True
            self._started = self._drawn = time.perf_counter()
            self._marks.append((self._started, self.count))
            if self._file is not None:
                self._screen = screen_for(self._file)
                self._screen.open(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def update(self, n: int = 1) -> None:
        """Says that `n` more are done."""
        self.count += n
        now = time.perf_counter()
        if now - self._drawn >= REDRAW:
            self._draw(now)

    def set(self, **values: Any) -> None:
        """Says what to show beside the bar: `bar.set(loss=loss)`.

        Tensors are read when the bar is next drawn, ten times a second at most.
        """
        self._values.update(values)

    def write(self, text: str) -> None:
        """Prints a line above the bars."""
        if self._screen is not None and self._open:
            self._screen.write(text)
        else:
            print(text)

    def _draw(self, now: float) -> None:
        self._drawn = now
        self._marks.append((now, self.count))
        if self._screen is not None:
            self._screen.draw(self)

    def close(self) -> None:
        """Draws for the last time."""
        if self._open:
            self._open = False
            self._marks.append((time.perf_counter(), self.count))
            if self._screen is not None:
                self._screen.close(self)

    # ---- what is shown ---------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds since the loop began."""
        return self._marks[-1][0] - self._started

    @property
    def speed(self) -> float | None:
        """Items per second, lately; of the whole loop once it is over."""
        if not self._open:
            passed, done = self.elapsed, self.count - self._initial
        else:
            (before, first), (now, last) = self._marks[0], self._marks[-1]
            passed, done = now - before, last - first
        return done / passed if passed > 0 and done > 0 else None

    @property
    def remaining(self) -> float | None:
        """Seconds that it will still take."""
        speed = self.speed
        if self.total is None or speed is None:
            return None
        return max(self.total - self.count, 0) / speed

    @property
    def share(self) -> float | None:
        """What has been done, of 1."""
        return min(self.count / self.total, 1.0) if self.total else None

    def counted(self) -> str:
        """`120/469`."""
        return f"{self.count}" if self.total is None else f"{self.count}/{self.total}"

    def figures(self) -> str:
        """`loss 0.4312  acc 0.87`."""
        shown = {name: settled(value) for name, value in self._values.items()}
        self._values.update(shown)
        return "  ".join(f"{name} {_figure(value)}" for name, value in shown.items())

    def rate(self) -> str:
        """`431 it/s`, or `2.3 s/it`."""
        speed = self.speed
        if speed is None:
            return f"- {self.unit}/s"
        if speed < 1:
            return f"{1 / speed:.3g} s/{self.unit}"
        return f"{speed:,.0f} {self.unit}/s" if speed >= 100 else f"{speed:.3g} {self.unit}/s"

    def times(self) -> str:
        """`0:00:12 ETA 0:01:05` while it runs, the time it took once it is over."""
        remaining = self.remaining
        if not self._open or remaining is None:
            return clock(self.elapsed)
        return f"{clock(self.elapsed)} ETA {clock(remaining)}"


def _figure(value: Any) -> str:
    if isinstance(value, str | bool | int):
        return str(value)
    number = getattr(value, "item", None)
    if number is not None and getattr(value, "size", 1) == 1:
        value = number()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def progress(
    iterable: Iterable[T] | None = None,
    description: str = "",
    *,
    total: int | None = None,
    initial: int | None = None,
    unit: str = "it",
    disable: bool = False,
    file: Any = None,
) -> Progress[T]:
    """Shows how far a loop is, how fast it goes, and how long it will still take.

        for x, y in (bar := progress(loader, "epoch 1")):
            ...
            bar.set(loss=loss)

        with progress(total=100) as bar:          # without an iterable
            bar.update(5)

    A bar on a terminal, an updated cell in a notebook, and elsewhere plain lines: about one for
    each tenth, at most one per second. Bars may be nested; an inner one goes when it is done.
    A loader that resumes within an epoch starts at its position, unless `initial` says otherwise.
    """
    if total is None and iterable is not None:
        total = _length(iterable)
    if initial is None:
        initial = _position(iterable)
    if disable:
        file = None
    elif file is None:
        file = sys.stderr
    return Progress(iterable, description, total, initial, unit, file)


def _length(iterable: Any) -> int | None:
    try:
        return len(iterable)
    except (TypeError, NotImplementedError):
        return None


def _position(iterable: Any) -> int:
    """How many batches a loader has delivered in the epoch that it will resume."""
    resume = getattr(iterable, "_resume", None)
    return int(resume["delivered"]) if isinstance(resume, dict) else 0
