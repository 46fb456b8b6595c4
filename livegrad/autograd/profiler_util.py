"""What a profile has seen: single events, their averages by name, tables and traces of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class Interval(NamedTuple):
    """A time, in microseconds since the profile began."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class _NoDevice:
    """Times and memory of GPUs, of which there are none; and times as texts."""

    device_time_total = self_device_time_total = device_time = 0.0
    cuda_time_total = self_cuda_time_total = cuda_time = 0.0
    device_memory_usage = self_device_memory_usage = 0
    cuda_memory_usage = self_cuda_memory_usage = 0
    is_async = is_remote = is_legacy = False
    use_device = None
    flops = 0
    node_id = -1
    overload_name = ""
    cpu_time_total: float
    self_cpu_time_total: float
    count: int

    @property
    def cpu_time(self) -> float:
        """The average, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """The average, with its unit."""
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """All of the time, with its unit."""
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """The time without that of children, with its unit."""
        return format_time(self.self_cpu_time_total)


@dataclass(eq=False)
class FunctionEvent(_NoDevice):
    """Something that took time: an op, a flush, a plan, or a block of the user's."""

    id: int
    name: str
    thread: int
    time_range: Interval
    input_shapes: list[Any] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    self_cpu_memory_usage: int = 0  # bytes of results, without those of children
    is_user_annotation: bool = False
    # What its kernel computes besides, whose time was shared out among all of it.
    metadata: dict[str, Any] = field(default_factory=dict)
    cpu_parent: FunctionEvent | None = None
    cpu_children: list[FunctionEvent] = field(default_factory=list)
    count = 1

    @property
    def key(self) -> str:
        """Events of one key are averaged."""
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds, children included."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds without those of children."""
        return max(0.0, self.cpu_time_total - sum([c.cpu_time_total for c in self.cpu_children]))

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes of results, children included."""
        return self.self_cpu_memory_usage + sum([c.cpu_memory_usage for c in self.cpu_children])

    def __repr__(self) -> str:
        start, end = self.time_range
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={start:.3f} end_us={end:.3f} "
            f"cpu_children={[c.id for c in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


@dataclass(eq=False)
class FunctionEventAvg(_NoDevice):
    """All events of one name."""

    key: str = ""
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    input_shapes: list[Any] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    is_user_annotation: bool = False

    def add(self, other: Any) -> FunctionEventAvg:
        """Adds an event, or another average."""
        if not self.count:
            self.key = self.key or other.key
            self.input_shapes, self.stack = other.input_shapes, other.stack
            self.is_user_annotation = other.is_user_annotation
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} count={self.count} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list[Any]):
    """Events, or averages of them."""

    def __init__(self, events: Iterable[Any] = (), profile_memory: bool = False) -> None:
        super().__init__(events)
        self._profile_memory = profile_memory

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all of them."""
        return float(sum([event.self_cpu_time_total for event in self]))

    def nest(self) -> EventList:
        """Finds out which events happened within which, from their times."""
        open_events: dict[int, list[FunctionEvent]] = {}
        for event in sorted(self, key=lambda e: (e.time_range.start, -e.time_range.end)):
            above = open_events.setdefault(event.thread, [])
            while above and above[-1].time_range.end < event.time_range.end:
                above.pop()
            if above:
                event.cpu_parent = above[-1]
                above[-1].cpu_children.append(event)
            above.append(event)
        return self

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Averages by name; and by shapes or the last lines of the stack, if asked for."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in sorted(self, key=lambda e: (e.time_range.start, -e.time_range.end)):
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            key = event.key, shapes, tuple(event.stack[:group_by_stack_n])
            found.setdefault(key, FunctionEventAvg()).add(event)
        for average in found.values():
            average.input_shapes = average.input_shapes if group_by_input_shapes else []
            average.stack = average.stack[:group_by_stack_n]
        return EventList(found.values(), self._profile_memory)

    def total_average(self) -> FunctionEventAvg:
        """All of them as one."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """A table of the first `row_limit` events, by `sort_by`; all of them if that is -1."""
        events = list(self)
        if top_level_events_only:
            events = [e for e in events if getattr(e, "cpu_parent", None) is None]
        if sort_by is not None:
            name = sort_by.replace("cuda", "device")
            events.sort(key=lambda event: getattr(event, name), reverse=True)
        shown = events if row_limit < 0 else events[:row_limit]
        columns = self._columns(shown, max_name_column_width, max_shapes_column_width, time_unit)
        text = _table(columns, [header] if header else [], shown)
        return f"{text}\nSelf CPU time total: {format_time(self.self_cpu_time_total, time_unit)}\n"

    def _columns(
        self, shown: list[Any], names: int, shapes: int, unit: str | None
    ) -> dict[str, Callable[[Any], str]]:
        total = self.self_cpu_time_total
        columns: dict[str, Callable[[Any], str]] = {
            "Name": lambda e: _cut(e.key, names),
            "Self CPU %": lambda e: format_time_share(e.self_cpu_time_total, total),
            "Self CPU": lambda e: format_time(e.self_cpu_time_total, unit),
            "CPU total %": lambda e: format_time_share(e.cpu_time_total, total),
            "CPU total": lambda e: format_time(e.cpu_time_total, unit),
            "CPU time avg": lambda e: format_time(e.cpu_time, unit),
        }
        if self._profile_memory:
            columns["CPU Mem"] = lambda e: format_memory(e.cpu_memory_usage)
            columns["Self CPU Mem"] = lambda e: format_memory(e.self_cpu_memory_usage)
        columns["# of Calls"] = lambda e: str(e.count)
        if any([e.input_shapes for e in shown]):
            columns["Input Shapes"] = lambda e: _cut(str(e.input_shapes), shapes)
        if any([e.stack for e in shown]):
            columns["Source Location"] = lambda e: e.stack[0] if e.stack else ""
        return columns

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a file for chrome://tracing and its like."""
        Path(path).write_text(json.dumps(self.chrome_trace()), encoding="utf-8")

    def chrome_trace(self, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
        """The events in Chrome's format."""
        told = [
            {
                "ph": "X",
                "cat": "user_annotation" if e.is_user_annotation else "cpu_op",
                "name": e.name,
                "pid": os.getpid(),
                "tid": e.thread,
                "ts": e.time_range.start,
                "dur": e.time_range.elapsed_us(),
                "args": {
                    **({"Input Dims": e.input_shapes} if e.input_shapes else {}),
                    **({"Call stack": "; ".join(e.stack)} if e.stack else {}),
                    **e.metadata,
                },
            }
            for e in self
        ]
        return {**(metadata or {}), "schemaVersion": 1, "traceEvents": told}

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes lines of the program with their times, for flame graphs."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        lines = [
            f"{';'.join(reversed(e.stack))} {int(getattr(e, metric))}\n"
            for e in self
            if e.stack and int(getattr(e, metric)) > 0
        ]
        Path(path).write_text("".join(lines), encoding="utf-8")

    @staticmethod
    def supported_export_stacks_metrics() -> list[str]:
        """What `export_stacks` can write."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"]

    def __str__(self) -> str:
        return self.table()


_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def format_time(time_us: float, time_unit: str | None = None) -> str:
    """Microseconds with a unit that suits them."""
    unit = time_unit or ("s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us")
    return f"{time_us / _UNITS[unit]:.3f}{unit}"


def format_time_share(time_us: float, total_time_us: float) -> str:
    """A part of a time, as a percentage."""
    return f"{time_us * 100 / total_time_us:.2f}%" if total_time_us else "NaN"


def format_memory(nbytes: int) -> str:
    """Bytes with a unit that suits them."""
    for unit, size in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def _cut(text: str, width: int) -> str:
    return text if width < 0 or len(text) <= width else f"{text[: width - 3]}..."


def _table(columns: dict[str, Callable[[Any], str]], before: list[str], events: list[Any]) -> str:
    rows = [[show(event) for show in columns.values()] for event in events]
    heads = list(columns)
    widths = [max(len(head), 12, *[len(row[i]) for row in rows]) if rows else max(len(head), 12)
              for i, head in enumerate(heads)]  # fmt: skip
    rule = "  ".join(["-" * width for width in widths])
    lines = [
        "  ".join([text.rjust(width) for text, width in zip(row, widths, strict=True)])
        for row in [heads, *rows]
    ]
    return "\n".join([*before, rule, lines[0], rule, *lines[1:], rule])


__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "format_memory",
    "format_time",
    "format_time_share",
]
