"""Processes that run checks, so that a crash or a hang costs one sample and not the run."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any


@dataclass
class Column:
    """The verdicts on one op in one respect, such as "float32" or "gradient"."""

    total: int = 0
    failed: dict[int, str] = field(default_factory=dict)  # sample number -> sample and reason

    @property
    def passed(self) -> int:
        return self.total - len(self.failed)


@dataclass
class Result:
    """All verdicts on one OpInfo."""

    name: str  # of the op, without that of the variant
    hosts: list[str] = field(default_factory=list)  # host ops that ran for it
    columns: dict[str, Column] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        return self.columns.setdefault(name, Column())


# --------------------------------------------------------------------------------- in the worker


def work(pipe: Any, silent: bool = True) -> None:
    """Answers requests (op's place in op_db, check, samples, start) until the pipe is closed."""
    if silent:  # what PyTorch and the ops print is not part of the report
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    import torch
    from torch.testing._internal import common_methods_invocations as database

    from tests.conformance import opinfo_bridge as bridge, opinfo_checks as checks

    torch.set_num_threads(1)
    op_db = database.op_db
    database.wrapper_set_seed = bridge.call  # whether an op is random shows with another seed
    checks.watch_host_ops()
    pipe.send(("ready", None))
    while True:
        try:
            place, unit, most, start = pipe.recv()
        except EOFError:
            return
        checks.host_calls.clear()
        results = checks.run_unit(op_db[place], unit, most, start, lambda i: pipe.send(("at", i)))
        try:
            for message in results:
                pipe.send(("sample", message))
        except Exception as error:  # making the samples failed
            pipe.send(("broken", f"{type(error).__name__}: {error}"))
        pipe.send(("done", sorted(checks.host_calls)))


# --------------------------------------------------------------------------------- in the parent


class Worker:
    """One process, started again whenever it died or was given up on."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.process: Any = None
        self.pipe: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        try:
            if self.pipe.poll(300):
                self.pipe.recv()  # "ready"
                return
        except EOFError:
            pass
        raise RuntimeError("a worker of the conformance run did not start; does livegrad import?")

    def stop(self) -> None:
        if self.process is not None:
            self.pipe.close()
            self.process.kill()
            self.process.join()
            self.process = None

    def run(self, place: int, unit: str, most: int, result: Result) -> None:
        """Runs one check to its end, starting again after a sample that ended the process."""
        start, deaths = 0, 0
        while True:
            if self.process is None:
                self.start()
            self.pipe.send((place, unit, most, start))
            died = self._listen(unit, result)
            if died is None:
                return
            at, reason = died
            self.stop()
            result.column(unit.removeprefix("forward ")).total += 1
            result.column(unit.removeprefix("forward ")).failed[at] = reason
            start, deaths = at + 1, deaths + 1
            if deaths == 5:
                return

    def _listen(self, unit: str, result: Result) -> tuple[int, str] | None:
        at = 0
        while True:
            if not self.pipe.poll(self.timeout):
                return at, f"no answer within {self.timeout:.0f} s"
            try:
                kind, content = self.pipe.recv()
            except (EOFError, ConnectionResetError):
                self.process.join()
                return at, f"the process died with code {self.process.exitcode}"
            if kind == "at":
                at = content
            elif kind == "sample":
                note(result, *content)
            elif kind == "broken":
                print(f"{unit}: no samples: {content}", file=sys.stderr)
            else:
                if unit.startswith("forward") and "complex" not in unit:
                    result.hosts = sorted({*result.hosts, *content})
                return None


def note(result: Result, i: int, outcomes: list[tuple[str, str, str]], text: str) -> None:
    """Enters the verdicts on one sample."""
    for name, verdict, reason in outcomes:
        if verdict == "skip":
            continue
        column = result.column(name)
        column.total += 1
        if verdict == "fail":
            column.failed[i] = f"({text}) {reason}"


def run_all(
    jobs: list[tuple[Any, int, list[str]]],
    workers: int,
    timeout: float,
    most: int,
    finished: Callable[[str, Result], None],
) -> BaseException | None:
    """Runs the checks of all ops (op, place in op_db, checks) on some processes.

    Returns what ended the run too early, if anything did.
    """
    queue: SimpleQueue[Any] = SimpleQueue()
    for job in jobs:
        queue.put(job)
    failures: list[BaseException] = []

    def serve() -> None:
        worker = Worker(timeout)
        try:
            while not failures:
                try:
                    op, place, units = queue.get_nowait()
                except Empty:
                    return
                result = Result(op.name)
                for unit in units:
                    worker.run(place, unit, most, result)
                finished(op.full_name, result)
        except BaseException as error:
            failures.append(error)
        finally:
            worker.stop()

    threads = [threading.Thread(target=serve) for _ in range(max(1, min(workers, len(jobs))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures[0] if failures else None
