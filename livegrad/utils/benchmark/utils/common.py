"""Measurement: how long something took, several times; and how times are written."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from livegrad.runtime import get_num_threads, set_num_threads

# A spread above the first is told; above the second, it is told as a problem.
_SPREAD_NOTED = 0.1
_SPREAD_WARNED = 0.25
# No clock tells less than this, in seconds.
_CLOCK_ERROR = 25e-9

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


@dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What was measured."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """What the task is called."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        label = f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}"
        return f"{label}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """What is done before, if anything."""
        if not self.setup or self.setup == "pass":
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """The title, and what else is known."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join([part for part in parts if part])


@dataclass(init=True, repr=False)
class Measurement:
    """Times of a task: `raw_times` has those of runs of `number_per_run` repetitions each."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        # What the task is called is asked of the measurement.
        if name.startswith("__") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of one repetition, in each run."""
        return [t / self.number_per_run for t in self.raw_times]

    @cached_property
    def _sorted(self) -> tuple[float, ...]:
        if not self.raw_times:
            raise AssertionError("a measurement without times")
        return tuple(sorted(self.times))

    @property
    def median(self) -> float:
        """Seconds: half of the runs took longer."""
        return float(np.median(self._sorted))

    @property
    def mean(self) -> float:
        """Seconds: the average."""
        return float(np.mean(self._sorted))

    @property
    def iqr(self) -> float:
        """Seconds between the first and the third quartile."""
        low, high = self._quartiles
        return high - low

    @cached_property
    def _quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self._sorted, [0.25, 0.75])
        return float(low), float(high)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median can be trusted, from the spread of the middle runs.

        Between 1 and 4; the error of the middle half is that of a normal distribution, at 90 %.
        """
        count = len(self._sorted)
        middle = self._sorted[count // 4 : math.ceil(3 * count / 4)]
        error = 1.645 * float(np.std(middle)) / math.sqrt(len(middle))
        figures = math.floor(math.log10(self.median / max(error, _CLOCK_ERROR)))
        return min(max(figures, 1), 4)

    @property
    def has_warnings(self) -> bool:
        """Whether something about the times is doubtful."""
        return bool(self._warning)

    @property
    def _warning(self) -> str:
        spread = self.iqr / self.median if self.median else 0.0
        if spread < _SPREAD_NOTED:
            return ""
        head = f"  WARNING: Interquartile range is {spread * 100:.1f}% of the median measurement.\n"
        if spread < _SPREAD_WARNED:
            return f"{head}           This could indicate system fluctuation."
        return f"{head}           This suggests significant environmental influence."

    def meets_confidence(self, threshold: float = _SPREAD_NOTED) -> bool:
        """Whether the spread is less than a part of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """What was measured."""
        return self.task_spec.title

    @property
    def env(self) -> str | None:
        """Where it was measured."""
        return self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """What its row in a table is called."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        count = len(self.raw_times)
        lines = [super().__repr__(), self.title]
        lines += [text for text in (self.task_spec.description, self.task_spec.setup_str()) if text]
        if count == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        else:
            lines.append(f"  Median: {self.median / scale:.2f} {unit}")
            if count >= 4:
                low, high = [x / scale for x in self._quartiles]
                lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        runs = f"{self.number_per_run} runs {'per measurement' if count > 1 else ''}"
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines.append(f"  {count} measurement{'s' if count > 1 else ''}, {runs}, {threads}")
        return "\n".join([*lines, *([self._warning] if self._warning else [])])

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same task, each as one with all times."""
        grouped: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            grouped.setdefault(m.task_spec, []).append(m)
        return [
            Measurement(
                number_per_run=1,
                raw_times=[t for m in group for t in m.times],
                task_spec=spec,
                metadata=None,
            )
            for spec, group in grouped.items()
        ]


def select_unit(t: float) -> tuple[str, float]:
    """The unit for a time in seconds, and how many seconds it is."""
    unit = "s"
    for name, seconds in _UNITS.items():
        if t < seconds * 1000:
            unit = name
            break
    return unit, _UNITS[unit]


def unit_to_english(u: str) -> str:
    """The unit in words."""
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number with so many significant figures."""
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    if x == 0:
        return 0.0
    scale = 10.0 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return float(np.round(x / scale)) * scale


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each once, in order."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Within it, so many threads compute."""
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)


__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]
