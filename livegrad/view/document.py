"""What the page is given: a record as plain data, live or from a file.

overview()          the run: steps, curves, training
step(number)        one step: nodes, kernels, lives, its time line
code(step, kernel)  LLVM IR and assembly of a kernel
source(file)        a file of the program, if nodes of it were recorded
limits()            what this machine can do, for the roofline
"""

from __future__ import annotations

import linecache
import os
import platform
import sys
from collections.abc import Iterable
from typing import Any, Protocol

from livegrad.__about__ import __version__
from livegrad.runtime.code import assembly_of, ir_of
from livegrad.view.asking import Graph
from livegrad.view.limits import measured_limits
from livegrad.view.nodes import GraphNode
from livegrad.view.reasons import between
from livegrad.view.record import Flush, Recorder, StepRecord
from livegrad.view.steps import graph_of_step, signature_of

FORMAT = 1

# Of a longer curve, the page gets as many points, evenly chosen.
MOST_SENT = 2000


class Document(Protocol):
    """What can be shown."""

    def overview(self) -> dict[str, Any]: ...

    def step(self, number: int) -> dict[str, Any]: ...

    def code(self, step: int, kernel: int) -> dict[str, str]: ...

    def source(self, file: str) -> dict[str, Any]: ...

    def limits(self) -> dict[str, float]: ...


class LiveDocument:
    """A record that may still grow."""

    def __init__(self, recorder: Recorder, title: str = "") -> None:
        self.recorder = recorder
        self._title = title
        self.paused = False
        self._files: set[str] = set()

    def overview(self) -> dict[str, Any]:
        """The run as a whole."""
        recorder = self.recorder
        return {
            "format": FORMAT,
            "title": self._title or os.path.basename(sys.argv[0] or "") or "livegrad",
            "live": recorder.running,
            "paused": self.paused,
            "machine": {
                "livegrad": __version__,
                "python": platform.python_version(),
                "system": f"{platform.system()} {platform.machine()}",
                "cores": os.cpu_count() or 1,
            },
            "skipped": recorder.skipped,
            "steps": [_step_line(step, recorder.began) for step in recorder.steps],
            "curves": {name: _thinned(list(x)) for name, x in list(recorder.curves.items())},
            "code": recorder.code.told(),
            "training": {
                "looks": [[step, look] for step, look in _few(list(recorder.training.looks))],
                "rates": list(recorder.training.rates),
            },
        }

    def step(self, number: int) -> dict[str, Any]:
        """One step."""
        record = self.recorder.record(number)
        graph = graph_of_step(record)
        self._files |= files_of(graph)
        return step_data(record, graph, self.recorder.began)

    def code(self, step: int, kernel: int) -> dict[str, str]:
        """The code of a kernel."""
        record = self.recorder.record(step)
        found = graph_of_step(record).kernel(kernel)
        signature = signature_of(record, found)
        if not signature:
            return {"ir": "", "assembly": "", "note": "NumPy runs it: there is no code of ours"}
        return {"ir": ir_of(signature), "assembly": assembly_of(signature)}

    def source(self, file: str) -> dict[str, Any]:
        """A file of the program; no other file is ever read."""
        if file not in self._files:
            raise PermissionError("no node of this program was recorded there")
        return read_source(file, self.recorder.wall_began)

    def limits(self) -> dict[str, float]:
        """What this machine can do."""
        return measured_limits()


def read_source(file: str, since: float = 0.0) -> dict[str, Any]:
    """The text of a file; whether it was changed since, or why there is none."""
    try:
        changed = since > 0 and os.path.getmtime(file) > since
        with open(file, encoding="utf-8", errors="replace") as opened:
            return {"text": opened.read(2_000_000), "changed": changed}
    except OSError as error:
        lines = linecache.getlines(file)  # cells of notebooks are in no file, and known there
        if lines:
            return {"text": "".join(lines), "changed": False}
        return {"text": "", "problem": f"this file cannot be read: {error.strerror or error}"}


def files_of(graph: Graph) -> set[str]:
    """The files that nodes of a graph name."""
    return {node.file for node in graph if node.file}


# --------------------------------------------------------------------------------------- steps


def _step_line(step: StepRecord, began: int) -> dict[str, Any]:
    return {
        "n": step.number,
        "start": (step.started - began) / 1e3,
        "us": (step.ended - step.started) / 1e3,
        "kernels_us": sum([(f.ended - f.started) / 1e3 for f in step.flushes]),
        "flushes": len(step.flushes),
        "nodes": sum([f.nodes for f in step.flushes]),
        "compiles": sum([f.compiles for f in step.flushes]),
        "tiers": sorted({f.tier for f in step.flushes}),
        "graph": step.has_graph,
        "error": step.error["type"] if step.error else "",
    }


# Columns of nodes; those that are texts are numbers in a table of texts.
_TEXTS = ("op", "phase", "dtype", "name", "file", "function", "module", "attrs")
_REST = ("number", "shape", "inputs", "line", "nbytes", "flops", "of", "kernels", "seconds")
_LAST = ("stats", "failed", "count")
COLUMNS = (*_TEXTS, *_REST, *_LAST)


def step_data(record: StepRecord, graph: Graph, began: int) -> dict[str, Any]:
    """A step as the page reads it."""
    return {
        "number": record.number,
        "seconds": graph.seconds,
        "error": record.error,
        "left_out": graph.left_out,
        "nodes": _table(graph),
        "kernels": [_kernel(graph, kernel) for kernel in graph.kernels],
        "flushes": [_flush(flush) for flush in record.flushes],
        "lives": [[x.node, x.op, x.nbytes, x.first, x.last, x.what] for x in graph.lives],
        "timeline": timeline(record, graph, began),
    }


def _table(nodes: Iterable[GraphNode]) -> dict[str, Any]:
    texts: dict[str, int] = {}
    rows = []
    for node in nodes:
        row: list[Any] = [texts.setdefault(getattr(node, name), len(texts)) for name in _TEXTS]
        rows.append(row + [getattr(node, name) for name in (*_REST, *_LAST)])
    return {"columns": COLUMNS, "texts": list(texts), "text_columns": len(_TEXTS), "rows": rows}


def _kernel(graph: Graph, kernel: Any) -> dict[str, Any]:
    return {
        "number": kernel.number, "name": kernel.name, "kind": kernel.kind,
        "ops": kernel.ops, "shape": kernel.shape, "nodes": kernel.nodes,
        "op_nodes": kernel.op_nodes, "seconds": kernel.seconds, "nbytes": kernel.nbytes,
        "flops": kernel.flops, "plan": kernel.plan, "flush": kernel.flush, "tier": kernel.tier,
        "count": kernel.count, "threads": len(kernel.threads), "busy": kernel.busy,
        "reads": [[source, between(graph.kernels[source], kernel)] for source in kernel.reads],
    }  # fmt: skip


def _flush(flush: Flush) -> dict[str, Any]:
    account = flush.known.account if flush.known is not None else None
    return {
        "reason": flush.reason, "how": flush.how, "tier": flush.tier, "why": flush.why,
        "compiles": flush.compiles, "arena": account.arena if account else 0,
        "results": account.results if account else 0,
    }  # fmt: skip


def timeline(record: StepRecord, graph: Graph, began: int) -> list[list[Any]]:
    """[lane, what, start µs, µs, detail, kernel], for the page and for Chrome."""
    found: list[list[Any]] = []

    def add(lane: str, what: str, start: float, took: float, detail: str, kernel: int) -> None:
        found.append([lane, what, round(start, 2), round(took, 2), detail, kernel])

    for place, flush in enumerate(record.flushes):
        start, end = (flush.started - began) / 1e3, (flush.ended - began) / 1e3
        add("flush", flush.reason, start, end - start, flush.how, -1)
        kernels = [kernel for kernel in graph.kernels if kernel.flush == place]
        is_shared = any([len(kernel.threads) > 1 for kernel in kernels])
        at = end - sum([(kernel.seconds or 0) * 1e6 for kernel in kernels])
        for kernel in kernels:
            took, what = (kernel.seconds or 0) * 1e6, " ".join(kernel.ops[:6])
            if kernel.started:
                at = (kernel.started - began) / 1e3
            add("kernel", what, max(start, at), took, kernel.kind, kernel.number)
            if is_shared:
                for thread, a, b in kernel.threads or [(0, kernel.started, 0)]:
                    first = (a - began) / 1e3 if a else max(start, at)
                    busy = (b - a) / 1e3 if b else took
                    add(f"thread {thread}", what, first, busy, kernel.kind, kernel.number)
            at += took
    for span in record.spans:
        start = (span.started - began) / 1e3
        add(span.what, span.what, start, (span.ended - span.started) / 1e3, span.detail, -1)
    previous = (record.started - began) / 1e3
    for flush in record.flushes:
        start = (flush.started - began) / 1e3
        if start > previous:
            add("python", "Python and recording", previous, start - previous, "", -1)
        previous = (flush.ended - began) / 1e3
    end = (record.ended - began) / 1e3
    if end > previous:
        add("python", "Python and recording", previous, end - previous, "", -1)
    return found


_LANES = ("python", "data", "flush", "plan", "compile", "kernel")


def chrome_trace(document: Document, numbers: Iterable[int]) -> dict[str, Any]:
    """Steps for chrome://tracing and its like."""
    lanes = {lane: i for i, lane in enumerate(_LANES, 1)}
    events: list[dict[str, Any]] = []
    for number in numbers:
        for lane, what, start, took, detail, _ in document.step(number)["timeline"]:
            tid = lanes.setdefault(lane, len(lanes) + 1)
            events.append(
                {"ph": "X", "name": what, "cat": lane, "pid": 1, "tid": tid,
                 "ts": start, "dur": took, "args": {"detail": detail, "step": number}}
            )  # fmt: skip
    events += [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": lane}}
        for lane, tid in lanes.items()
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


# --------------------------------------------------------------------------------------- fewer


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float | None]]:
    stride = max(1, -(-len(points) // MOST_SENT))
    kept = points[::stride]
    if points and kept[-1] != points[-1]:
        kept.append(points[-1])
    return [(step, value if value - value == 0 else None) for step, value in kept]


def _few(looks: list[Any]) -> list[Any]:
    """The latest, and of those before as many as a small chart shows."""
    stride = max(1, len(looks) // 60)
    kept = looks[::stride]
    return kept if not looks or kept[-1] is looks[-1] else [*kept, looks[-1]]
