"""Who runs the trials of a search: this process, or several others."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from livegrad.train.search_journal import Result
from livegrad.train.search_methods import Job
from livegrad.utils.reading import number_of


class Trial:
    """What an objective is given: its parameters, and its budget, if the search has one.

    trial.params["lr"] or trial["lr"]
    trial.budget          epochs, say, of all together: after 3 a trial that goes on gets 9
    trial.folder          for what it keeps between budgets, beside the journal; or None
    trial.report(e, x)    a value on the way, for the plot
    """

    def __init__(self, job: Job, folder: Path | None) -> None:
        self.number, self.params, self.budget = job
        self._folder = folder
        self.reports: list[list[float]] = []

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    @property
    def folder(self) -> Path | None:
        """A directory of this trial's own, made when it is first asked for."""
        if self._folder is None:
            return None
        made = self._folder / f"trial-{self.number}"
        made.mkdir(parents=True, exist_ok=True)
        return made

    def report(self, step: float, value: Any) -> None:
        """Notes a value on the way."""
        self.reports.append([float(step), number_of(value)])


Objective = Callable[[Trial], Any]


def run_trial(objective: Objective, job: Job, folder: Path | None) -> Result:
    """Runs one trial; an error of the objective is its result."""
    trial, start = Trial(job, folder), time.perf_counter()
    value, error = None, None
    try:
        value = number_of(objective(trial))
    except Exception as raised:
        last = traceback.extract_tb(raised.__traceback__)[-1]
        error = f"{type(raised).__name__}: {raised} ({Path(last.filename).name}:{last.lineno})"
    seconds = time.perf_counter() - start
    return Result(job.number, job.params, job.budget, value, seconds, error, trial.reports)


class Here:
    """Trials in this process, one after the other."""

    def __init__(self, objective: Objective, folder: Path | None) -> None:
        self.objective, self.folder = objective, folder
        self.jobs: list[Job] = []

    @property
    def is_free(self) -> bool:
        """Whether a job can be begun."""
        return not self.jobs

    @property
    def is_busy(self) -> bool:
        """Whether results are to come."""
        return bool(self.jobs)

    def begin(self, job: Job) -> None:
        """Takes a job."""
        self.jobs.append(job)

    def results(self) -> Iterator[Result]:
        """What is done now, or next."""
        yield run_trial(self.objective, self.jobs.pop(), self.folder)

    def close(self) -> None:
        """Nothing is left behind."""


def _serve(objective: Objective, folder: Path | None, threads: int, pipe: Connection) -> None:
    """What a process does: jobs, until there are no more, or nobody who gives any.

    The pipe alone does not tell of the latter: processes that were forked hold its other end too.
    """
    from livegrad import set_num_threads

    set_num_threads(threads)
    giver: Any = multiprocessing.parent_process()
    while True:
        try:
            if pipe not in wait([pipe, giver.sentinel]):
                return
            job = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        if job is None:
            return
        try:
            pipe.send(run_trial(objective, job, folder))
        except KeyboardInterrupt:
            return


class Processes:
    """Trials in so many processes, which share the cores."""

    def __init__(self, objective: Objective, folder: Path | None, count: int) -> None:
        methods = multiprocessing.get_all_start_methods()
        self.context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self.told = (objective, folder, max(1, cores // count))
        self.idle = [self._start() for _ in range(count)]
        self.running: dict[Connection, tuple[Any, Job, float]] = {}

    def _start(self) -> tuple[Connection, Any]:
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=_serve, args=(*self.told, theirs), daemon=True)
        process.start()
        theirs.close()
        return ours, process

    @property
    def is_free(self) -> bool:
        """Whether a job can be begun."""
        return bool(self.idle)

    @property
    def is_busy(self) -> bool:
        """Whether results are to come."""
        return bool(self.running)

    def begin(self, job: Job) -> None:
        """Gives a job to a process."""
        pipe, process = self.idle.pop()
        pipe.send(job)
        self.running[pipe] = (process, job, time.perf_counter())

    def results(self) -> Iterator[Result]:
        """Waits for one or more."""
        for ready in wait(list(self.running)):
            assert isinstance(ready, Connection)
            process, job, start = self.running.pop(ready)
            try:
                result = ready.recv()
                self.idle.append((ready, process))
            except (EOFError, OSError):
                process.join()
                result = Result(
                    job.number, job.params, job.budget, None, time.perf_counter() - start,
                    f"the process of the trial ended with code {process.exitcode}",
                )  # fmt: skip
                self.idle.append(self._start())
            yield result

    def close(self) -> None:
        """Ends all processes; of those that run a trial, that is lost."""
        for process, _, _ in self.running.values():
            process.terminate()
        for pipe, process in self.idle:
            try:
                pipe.send(None)
            except OSError:
                process.terminate()
        for _, process in [*self.idle, *[(p, x[0]) for p, x in self.running.items()]]:
            process.join(5)
