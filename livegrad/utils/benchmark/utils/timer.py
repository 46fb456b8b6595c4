"""Timer: `timeit` for tensors."""

from __future__ import annotations

import enum
import itertools
import linecache
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

from livegrad.graph.state import flush_all
from livegrad.utils.benchmark.utils.common import Measurement, TaskSpec, set_torch_threads

_numbers = itertools.count()


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


def timer() -> float:
    """Seconds of a clock that only goes forward; what is pending is computed first."""
    flush_all("benchmark")
    return time.perf_counter()


class Timer:
    """Measures a statement; each of its runs ends when all that it has recorded is computed.

    `setup` runs once before, `globals` are the names it may use. Label, sub-label and description
    say where a measurement goes in `Compare`.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Timer: got language={language!r}; only Python can be measured")
        if global_setup:
            raise ValueError("global_setup is C++ only; got text, and the language is Python")
        self._globals = {**_known_names(), **(globals or {})}
        self._clock = timer
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._task_spec = TaskSpec(
            stmt=stmt,
            setup=setup,
            global_setup="",
            label=label,
            sub_label=sub_label,
            description=description,
            env=env,
            num_threads=num_threads,
        )
        self._run = _compiled(stmt, setup, self._globals)

    def _timeit(self, number: int) -> float:
        # A clock that is always ahead by nothing would make numbers that nobody can divide by.
        return max(float(self._run(range(number), self._clock, flush_all)), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Runs the statement so many times, after a warm-up of a hundredth as many."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(number=max(int(number // 100), 2))
            return Measurement(
                number_per_run=number,
                raw_times=[self._timeit(number=number)],
                task_spec=self._task_spec,
            )

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """NotImplementedError: PyTorch has it only under the other names."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """NotImplementedError: PyTorch has it only under the other names."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs blocks of the statement, long enough to be measured, for `min_run_time` seconds."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._estimate_block_size(min_run_time)
            times = self._measure(number, lambda taken, times: taken >= min_run_time, callback)
        return Measurement(number_per_run=number, raw_times=times, task_spec=self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """As `blocked_autorange`, until the spread is below `threshold` of the median."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._estimate_block_size(min_run_time=0.05)

            def enough(taken: float, times: list[float]) -> bool:
                if taken >= max_run_time:
                    return True
                if taken < min_run_time or len(times) <= 3:
                    return False
                return Measurement(number, times, self._task_spec).meets_confidence(threshold)

            times = self._measure(number, enough, callback)
        return Measurement(number_per_run=number, raw_times=times, task_spec=self._task_spec)

    def _measure(
        self,
        number: int,
        enough: Callable[[float, list[float]], bool],
        callback: Callable[[int, float], Any] | None,
    ) -> list[float]:
        times: list[float] = []
        taken = 0.0
        while not times or not enough(taken, times):
            spent = self._timeit(number)
            times.append(spent)
            taken += spent
            if callback is not None:
                callback(number, spent)
        return times

    def _estimate_block_size(self, min_run_time: float) -> int:
        """How many runs make a block: next to it, reading the clock is nothing."""
        overhead = sorted([self._clock_cost() for _ in range(5)])[2]
        number = 1
        while True:
            taken = self._timeit(number)
            relative = overhead / taken
            if relative <= 1e-4 and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time:
                return number
            number *= 10

    def _clock_cost(self) -> float:
        start = self._clock()
        return self._clock() - start

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> Any:
        """RuntimeError: there is no Valgrind here."""
        raise RuntimeError("collect_callgrind: instructions are not counted here. Use timeit()")


def _known_names() -> dict[str, Any]:
    """Names that statements may use unasked; `torch` too, where that does not mean another."""
    package = sys.modules["livegrad"]
    torch = sys.modules.get("torch", package)
    ours = getattr(torch, "__file__", None) == package.__file__  # also as the module torch
    return {"livegrad": package, "torch": torch} if ours else {"livegrad": package}


def _compiled(stmt: str, setup: str, names: dict[str, Any]) -> Callable[..., float]:
    """A function that runs the statement in a loop between two looks at the clock.

    After each run, what it has recorded is computed: otherwise several could become one kernel,
    and results that nobody keeps nothing at all.
    """
    lines = [
        "def run(_repetitions, _clock, _compute):",
        textwrap.indent(setup, "    "),
        "    _start = _clock()",
        "    for _ in _repetitions:",
        textwrap.indent(stmt, "        "),
        "        _compute('benchmark')",
        "    return _clock() - _start",
    ]
    source = "\n".join(lines)
    name = f"<benchmark {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = dict(names)
    exec(compile(source, name, "exec"), space)
    run: Callable[..., float] = space["run"]
    return run


__all__ = ["Language", "Timer", "timer"]
