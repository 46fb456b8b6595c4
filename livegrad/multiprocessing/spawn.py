"""`spawn`: one function in several processes, whose errors are raised here."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

# How long processes have to end after they were asked to.
_GRACE = 30.0


class ProcessException(Exception):
    """A process that `spawn` started did not end well: number `error_index`, of `error_pid`."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process ended with an error, whose traceback is the message."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process was ended by a signal, or with an exit code."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), given


class ProcessContext:
    """The processes of one `spawn`; `join` waits for them and raises their errors."""

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes = processes
        self.error_queues = error_queues
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The process ids, in order."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for one process to end, or until the time is over; True if all have ended.

        If one has failed, the others are ended, within `grace_period` seconds, and its error is
        raised.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in wait(list(self.sentinels), timeout):
            i = self.sentinels.pop(sentinel)
            self.processes[i].join()
            if self.processes[i].exitcode != 0 and failed is None:
                failed = i
        if failed is None:
            return not self.sentinels
        self._end_others(_GRACE if grace_period is None else grace_period)
        raise self._failure(failed)

    def _end_others(self, grace: float) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        end = time.monotonic() + grace
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _failure(self, i: int) -> ProcessException:
        process, errors = self.processes[i], self.error_queues[i]
        pid, code = int(process.pid), int(process.exitcode)
        if not errors.empty():
            text = f"\n\n-- Process {i} terminated with the following error:\n{errors.get()}"
            return ProcessRaisedException(text, i, pid)
        if code >= 0:
            text = f"process {i} terminated with exit code {code}"
            return ProcessExitedException(text, i, pid, code)
        name = signal.Signals(-code).name
        text = f"process {i} terminated with signal {name}"
        return ProcessExitedException(text, i, pid, code, name)


class SpawnContext(ProcessContext):
    """What `spawn` gives without `join`."""


def _run(fn: Callable[..., None], i: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted too, and says so
    except Exception:
        errors.put(traceback.format_exc())
        sys.exit(1)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs `fn(i, *args)` in `nprocs` processes, i from 0 on, and waits for them if `join`.

    If one fails, the others are ended and its error is raised; without `join`, the context is
    returned, whose `join` does so.
    """
    context: Any = multiprocessing.get_context(start_method)
    queues, processes = [], []
    for i in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(target=_run, args=(fn, i, args, queue), daemon=daemon)
        process.start()
        queues.append(queue)
        processes.append(process)
    made = SpawnContext(processes, queues)
    if not join:
        return made
    while not made.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by the method "spawn"."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}). To use a "
            "different start_method use livegrad.multiprocessing.start_processes",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]
