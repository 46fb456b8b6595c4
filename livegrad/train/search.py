"""search(): hyper-parameters, by chance, on a grid, by halving or with Optuna."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livegrad.train.early_stopping import check_mode
from livegrad.train.plot import Axis, Chart
from livegrad.train.progress import Progress, progress
from livegrad.train.search_journal import Journal, Result
from livegrad.train.search_methods import Bayes, Grid, Halving, Method, Random
from livegrad.train.search_space import Space, check_space
from livegrad.train.search_workers import Here, Objective, Processes

METHODS = ("random", "grid", "halving", "bayes")


@dataclass
class SearchResult:
    """All results of a search, in the order they came; print it, or `show` it."""

    results: list[Result]
    mode: str

    @property
    def done(self) -> list[Result]:
        """Those with a value."""
        return [r for r in self.results if r.value is not None and not math.isnan(r.value)]

    @property
    def ranked(self) -> list[Result]:
        """The last result of each trial, the best first; of more budget before of less."""
        last = {r.number: r for r in self.done}
        sign = 1 if self.mode == "min" else -1
        most = max([r.budget or 0 for r in last.values()], default=0)

        def rank(r: Result) -> tuple[int, float]:
            return most - (r.budget or 0), sign * (r.value or 0.0)

        return sorted(last.values(), key=rank)

    @property
    def best(self) -> Result:
        """The best of all that got as far as any."""
        if not self.done:
            errors = [r.error for r in self.results if r.error]
            why = f"; the first: {errors[0]}" if errors else ""
            raise RuntimeError(f"search: no trial has a value{why}")
        return self.ranked[0]

    def _table(self) -> list[list[str]]:
        names = list(self.results[0].params) if self.results else []
        budgets = any([r.budget is not None for r in self.results])
        rows = [["trial", *names, *(["budget"] if budgets else []), "value", "time"]]
        for r in self.ranked:
            cells = [str(r.number), *[_cell(r.params[name]) for name in names]]
            cells += [str(r.budget)] if budgets else []
            rows.append([*cells, _cell(r.value), f"{r.seconds:.1f} s"])
        return rows

    def __str__(self) -> str:
        table = self._table()
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        lines = ["  ".join([c.rjust(w) for c, w in zip(r, widths, strict=True)]) for r in table]
        failed = [f"trial {r.number} failed: {r.error}" for r in self.results if r.error]
        return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:], *failed])

    __repr__ = __str__

    def show(self, limit: int = 10) -> None:
        """Prints the best as a table."""
        from rich.console import Console
        from rich.table import Table

        head, *rows = self._table()
        table = Table(*head, title=f"{len(self.results)} results")
        for row in rows[:limit]:
            table.add_row(*row)
        Console().print(table)

    def plot(self, path: Any) -> None:
        """Draws values and the best so far: SVG without any library, else with matplotlib."""
        better = min if self.mode == "min" else max
        values = [(float(i), float(r.value or 0.0)) for i, r in enumerate(self.done, 1)]
        best: list[tuple[float, float]] = []
        for at, value in values:
            best.append((at, better(best[-1][1], value) if best else value))
        chart = Chart(
            "search", Axis("results"), Axis("value"), {"best so far": best}, values,
            {f"{best[-1][1]:.4g}": best[-1]} if best else {},
        )  # fmt: skip
        chart.save(path)


def _cell(x: Any) -> str:
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def search(
    objective: Objective,
    space: Space,
    method: str = "random",
    trials: int | None = None,
    *,
    mode: str = "min",
    seed: int = 0,
    journal: Any = None,
    workers: int = 1,
    budget: tuple[int, int] = (1, 9),
    factor: int = 3,
    points: int = 5,
    show: bool = True,
) -> SearchResult:
    """Looks for the parameters with which `objective(trial)` is least, or greatest.

        found = search(objective, {"lr": Float(1e-4, 1e-1, log=True), "width": Int(16, 128)},
                       trials=30, journal="runs/widths.jsonl", workers=2)
        print(found.best.params, found.best.value)

    Args:
        objective: given a `Trial`, returns a value. An error in it is noted; others go on.
        space: `Float`, `Int` or `Choice` by the names of parameters.
        method: "random"; "grid", all combinations, of ranges `points` values each; "halving", where
            most trials get the least of `budget` alone and the best up to the most of it, by
            `factor` (objectives read `trial.budget`); "bayes", which needs Optuna.
        trials: how many; of a grid all, else 20 by default.
        mode: whether the least ("min") or the greatest ("max") value is best.
        journal: a file that each result is written to. A search that was interrupted goes on from
            it, with the same arguments; one with more trials goes on, too.
        workers: processes that run trials at the same time, and share the cores.
        show: whether to show progress.
    """
    check_mode("search", mode)
    check_space(space)
    if trials is not None and trials < 1:
        raise ValueError(f"search: got trials={trials}; expected 1 or more")
    if workers < 1:
        raise ValueError(f"search: got workers={workers}; expected 1 or more")
    chosen = _method(method, space, trials, seed, mode, budget, factor, points)
    described = {
        "space": {name: repr(part) for name, part in space.items()},
        "method": method, "mode": mode, "seed": seed,
        **({"budget": list(budget), "factor": factor} if method == "halving" else {}),
        **({"points": points} if method == "grid" else {}),
    }  # fmt: skip
    kept = Journal(journal, described)
    for result in kept.results:
        chosen.tell(result)
    folder = None if journal is None else Path(journal).with_suffix(".trials")
    runner = Here(objective, folder) if workers == 1 else Processes(objective, folder, workers)
    try:
        _run(chosen, kept, runner, mode, show)
    finally:
        runner.close()
    found = SearchResult(kept.results, mode)
    if kept.results and not found.done:
        _ = found.best  # raises, and says why
    return found


def _method(
    name: str, space: Space, trials: int | None, seed: int, mode: str, budget: tuple[int, int],
    factor: int, points: int,
) -> Method:  # fmt: skip
    sign, count = 1 if mode == "min" else -1, 20 if trials is None else trials
    if name == "random":
        return Random(space, count, seed, sign)
    if name == "grid":
        return Grid(space, trials, seed, sign, points)
    if name == "halving":
        return Halving(space, count, seed, sign, budget, factor)
    if name == "bayes":
        return Bayes(space, count, seed, sign)
    raise ValueError(f"search: got method={name!r}; expected one of {', '.join(METHODS)}")


def _run(method: Method, journal: Journal, runner: Any, mode: str, show: bool) -> None:
    better = min if mode == "min" else max
    done = len(journal.results)
    bar: Progress[Any] = progress(
        description="search", total=method.total(), initial=done, disable=not show
    )
    with bar:
        while True:
            while runner.is_free and (job := method.next()) is not None:
                runner.begin(job)
            if not runner.is_busy:
                return
            for result in runner.results():
                journal.add(result)
                method.tell(result)
                values = [r.value for r in journal.results if r.value is not None]
                bar.set(best=better(values) if values else "none")
                bar.total = method.total()
                bar.update()
