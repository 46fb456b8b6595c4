"""Profiles of training loops: `torch.profiler` for livegrad.

What is measured, and how, is said in `livegrad/autograd/profiler.py`.
"""

from __future__ import annotations

import enum
import gzip
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from livegrad.autograd.profiler import Collector, kineto_available, record_function
from livegrad.autograd.profiler_util import EventList
from livegrad.graph.state import flush_all


class ProfilerActivity(enum.Enum):
    """What may be profiled; here, the CPU."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What is done in one step of a schedule."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """What can be profiled."""
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """A function from the step's number to what is done in it.

    After `skip_first` steps, `wait` steps are left out, `warmup` not kept and `active` recorded,
    again and again, or `repeat` times. With `skip_first_wait`, the first time does not wait.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} "
            f"(need >= 0), active={active} (need > 0), repeat={repeat} (need >= 0), "
            f"skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        steps = wait + warmup + active
        if repeat > 0 and step // steps >= repeat:
            return ProfilerAction.NONE
        place = step % steps
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == steps - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


class profile:
    """Records what runs, in the steps that `schedule` says; `step()` is called after each.

    After the last of the steps recorded together, `on_trace_ready(prof)` is called.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        if use_cuda or ProfilerActivity.CUDA in self.activities:
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        self._options = (record_shapes, with_stack, profile_memory)
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._collector: Collector | None = None
        self._events: EventList | None = None
        self._step_began = 0
        self._metadata: dict[str, Any] = {}

    # ---- running ---------------------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins with the first step."""
        if self.current_action in _RECORDING:
            self._start_trace()
        self._step_began = time.perf_counter_ns()

    def stop(self) -> None:
        """Ends; what is being recorded is complete now."""
        if self._collector is not None:
            if self.record_steps:
                self._note_step()
            self._save()

    def step(self) -> None:
        """Says that a step of the training loop is over."""
        if self._collector is not None:
            self._note_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        recording = self.current_action in _RECORDING
        if before == ProfilerAction.RECORD_AND_SAVE:
            self._save()
        elif before == ProfilerAction.RECORD and not recording:
            warnings.warn(
                f"Incorrect schedule: RECORD followed by {self.current_action.name}", stacklevel=2
            )
            self._stop_trace()
        if recording and self._collector is None:
            self._start_trace()
        self._step_began = time.perf_counter_ns()

    def _note_step(self) -> None:
        assert self._collector is not None
        flush_all("profiler")
        name = f"ProfilerStep#{self.step_num}"
        now = time.perf_counter_ns()
        self._collector.note(name, self._step_began, now, is_user_annotation=True)

    def _start_trace(self) -> None:
        self._collector = Collector(*self._options)
        self._collector.start()

    def _stop_trace(self) -> None:
        if self._collector is not None:
            self._events = self._collector.stop()
            self._collector = None

    def _save(self) -> None:
        self._stop_trace()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # ---- results ---------------------------------------------------------------------------

    def events(self) -> EventList:
        """The events that were recorded last."""
        if self._events is None:
            raise AssertionError("Profiler must be initialized before accessing events")
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Averages by name; and by shapes or the line of the program, if asked for."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Writes a file for chrome://tracing and its like; compressed if it ends with .gz."""
        text = json.dumps(self.events().chrome_trace(self._metadata)).encode()
        Path(path).write_bytes(gzip.compress(text) if str(path).endswith(".gz") else text)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes lines of the program with their times, for flame graphs."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a text to the traces."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a value, written as JSON, to the traces."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes each trace to a file of its own in a directory."""

    def save(prof: profile) -> None:
        place = Path(dir_name)
        place.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = "pt.trace.json.gz" if use_gzip else "pt.trace.json"
        prof.export_chrome_trace(str(place / f"{worker}.{time.time_ns()}.{ending}"))

    return save


__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
