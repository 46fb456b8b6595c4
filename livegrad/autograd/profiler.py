"""Profiles: which ops ran, and how long their kernels took.

    livegrad::flush                 what was pending is computed: all of it
      ├ livegrad::plan              a plan was made
      ├ livegrad::compile           a kernel was compiled, or loaded from disk
      └ matmul, relu, add, …        ops; those of one kernel share its time by their work

Kernels are timed one by one. Where they are not (a plan that was made before the profile, in its
first run; pieces of what is new; steps of NumPy), what is left of the flush is shared out. What is
pending, results that the program has dropped included, is computed where a profile, a block or a
step begins and ends, so that it is counted there. Memory is that of the results of plans.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import ContextDecorator
from itertools import accumulate
from typing import Any

from livegrad.autograd.profiler_util import EventList, FunctionEvent, Interval
from livegrad.futures import Future
from livegrad.graph.events import Compiled, Listening, Planned, Ran, Recorded, listen
from livegrad.graph.node import Node, describe_site
from livegrad.graph.state import flush_all
from livegrad.runtime.counters import Clocks

FLUSH, PLAN, COMPILE = "livegrad::flush", "livegrad::plan", "livegrad::compile"


def work_of(node: Any) -> int:
    """About how much there is to do: additions of a product, elements of anything else."""
    if not isinstance(node, Node):
        return 1  # of a piece, only the name is known
    if node.op.flops is not None:
        return max(1, int(node.op.flops(node)))
    return max(1, *[x.meta.numel for x in (node, *node.inputs)])


class Collector:
    """Listens to the runtime from `start` to `stop`, and makes events of what it hears."""

    now: Collector | None = None  # the one that is listening

    def __init__(self, record_shapes: bool, with_stack: bool, profile_memory: bool) -> None:
        self.record_shapes = record_shapes
        self.with_stack = with_stack
        self.profile_memory = profile_memory
        self.events: list[FunctionEvent] = []
        self._listening: list[Listening] = []
        self._made = 0  # when the latest plan or kernel was made: what a flush runs comes after
        # Shapes of the inputs of what is pending, by op: of a piece, only the name is known.
        self._shapes: dict[str, deque[Any]] = {}

    def start(self) -> None:
        """Begins; what was pending before is not part of it."""
        if Collector.now is not None:
            raise RuntimeError("Profiler is already enabled on this thread")
        flush_all("profiler")
        Clocks.start()
        Collector.now = self
        self._listening = [
            listen("ran", self._ran),
            listen("planned", self._planned),
            listen("compiled", self._compiled),
        ]
        if self.record_shapes:
            self._listening.append(listen("recorded", self._recorded))
        self.began = time.perf_counter_ns()

    def stop(self) -> EventList:
        """Ends, with what is pending computed; gives the events."""
        try:
            flush_all("profiler")
        finally:
            for each in self._listening:
                each.remove()
            Collector.now = None
            Clocks.stop()
        return EventList(self.events, self.profile_memory).nest()

    def note(self, name: str, start: int, end: int, **more: Any) -> FunctionEvent:
        """Adds an event between two times of the clock."""
        where = Interval((start - self.began) / 1e3, (end - self.began) / 1e3)
        number = len(self.events) + 1
        event = FunctionEvent(number, name, threading.get_native_id(), where, **more)
        self.events.append(event)
        return event

    def _recorded(self, event: Recorded) -> None:
        self._shapes.setdefault(event.op, deque()).append(event.input_shapes)

    def _planned(self, event: Planned) -> None:
        now = time.perf_counter_ns()
        self.note(PLAN, now - int(event.seconds * 1e9), now)
        self._made = now

    def _compiled(self, event: Compiled) -> None:
        now = time.perf_counter_ns()
        kernel = {"kernel": event.kernel, "from disk": event.from_disk}
        self.note(COMPILE, now - int(event.seconds * 1e9), now, metadata=kernel)
        self._made = now

    def _ran(self, ran: Ran) -> None:
        plan = ran.executable.plan
        nbytes = sum([b.nbytes for b in plan.buffers]) if self.profile_memory else 0
        why = {"reason": ran.reason, "plan": ran.plan, "found": ran.hit}
        self.note(FLUSH, ran.started, ran.ended, self_cpu_memory_usage=nbytes, metadata=why)
        ready = min(ran.ended, max(ran.started, self._made))
        times = self._times(ran, ran.ended - ready)
        at = begin = max(ready, ran.ended - sum(times))
        for step, notes, took in zip(ran.steps, plan.notes.steps, times, strict=True):
            kernel = {"kernel": step.kernel, "with": list(step.ops), "of": list(step.shape)}
            work = [work_of(node) for node in notes.nodes]
            for node, done in zip(notes.nodes, accumulate(work), strict=True):
                end = min(ran.ended, at + took * done // sum(work))
                more = self._said_of(ran, node)
                self.note(node.op.name, begin, end, metadata=kernel, **more)
                begin = end
            at += took
        self._shapes.clear()

    def _times(self, ran: Ran, within: int) -> list[int]:
        """Nanoseconds of each step; those that were not timed share what the others leave."""
        known = [None if t is None else round(t * 1e9) for t in ran.step_seconds]
        if not any(known):
            known = [None] * len(known)  # the clocks were set up in this run, and not yet read
        left = within - sum([t or 0 for t in known])
        unknown = sum([t is None for t in known])
        share = max(0, left // unknown) if unknown else 0
        return [share if t is None else t for t in known]

    def _said_of(self, ran: Ran, node: Any) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if self.record_shapes and isinstance(node, Node):
            more["input_shapes"] = [list(x.meta.shape) for x in node.inputs]
        elif self._shapes.get(node.op.name):
            more["input_shapes"] = [list(x) for x in self._shapes[node.op.name].popleft()]
        if self.with_stack:
            place = ran.executable.places.get(id(node.site))
            more["stack"] = [describe_site(node.site if place is None else ran.sites[place])]
        return more


class profile:
    """`with profile() as prof:`; then `prof.key_averages().table()`."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        self.entered = False
        self.function_events: EventList | None = None
        self._collector = Collector(record_shapes, with_stack, profile_memory)
        if use_cuda or use_device:
            device = (use_device or "cuda").upper()
            warnings.warn(f"{device} is not available, disabling {device} profiling", stacklevel=2)

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._collector.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            self.function_events = self._collector.stop()

    def _found(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Averages by name."""
        return self._found().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> Any:
        """All events as one."""
        return self._found().total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """A table of all events."""
        return self._found().table(*args, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        """Writes a file for chrome://tracing and its like."""
        self._found().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes lines of the program with their times, for flame graphs."""
        self._found().export_stacks(path, metric)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return self._found().self_cpu_time_total

    def __str__(self) -> str:
        return "<unfinished profile>" if self.function_events is None else str(self.function_events)


class record_function(ContextDecorator):
    """A block, or a function, with a name of its own in profiles.

    In a profile, what is pending is computed where it begins and ends: what the block has recorded
    counts as its own. Without one it does nothing.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._collector: Collector | None = None

    def _recreate_cm(self) -> record_function:
        return record_function(self.name, self.args)

    def __enter__(self) -> record_function:
        self._collector = Collector.now
        if self._collector is not None:
            flush_all("record_function")
            self._start = time.perf_counter_ns()
        return self

    def __exit__(self, *exception: object) -> None:
        collector, self._collector = self._collector, None
        if collector is not None and collector is Collector.now:
            flush_all("record_function")
            more = {"args": self.args} if self.args else {}
            end = time.perf_counter_ns()
            collector.note(self.name, self._start, end, is_user_annotation=True, metadata=more)

    def _call_end_callbacks_on_future(self, fut: Future[Any]) -> Future[Any]:
        def end(done: Future[Any]) -> Any:
            self.__exit__()
            return done.value()

        return fut.then(end)


class _Emitting:
    """Ranges for another tool, which is not there: nothing is emitted, and that is said."""

    tool = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> _Emitting:
        if self.enabled:
            warnings.warn(
                f"{type(self).__name__}: there is no {self.tool} here, so nothing is emitted. Use "
                "livegrad.profiler.profile",
                stacklevel=2,
            )
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class emit_nvtx(_Emitting):
    """Does nothing: there is no NVTX."""

    tool = "NVTX"


class emit_itt(_Emitting):
    """Does nothing: there is no ITT."""

    tool = "ITT"


def kineto_available() -> bool:
    """No: the events are those of livegrad itself."""
    return False


__all__ = ["emit_itt", "emit_nvtx", "kineto_available", "profile", "record_function"]
