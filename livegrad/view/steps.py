"""A recorded step as a graph: the nodes of its flushes, their kernels and what these took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from livegrad.view.asking import Graph
from livegrad.view.capture import find_modules_of_gradients, find_uses_of_gradients
from livegrad.view.nodes import LEAF, GraphKernel, GraphNode, Life
from livegrad.view.record import Flush, Span, StepRecord
from livegrad.view.summary import MOST_NODES


def graph_of_step(step: StepRecord) -> Graph:
    """The graph of a step; its nodes are copies."""
    nodes: dict[int, GraphNode] = {}
    graph = Graph(nodes, title=f"step {step.number}", error=step.error)
    graph.seconds = max(0, step.ended - step.started) / 1e9
    for place, flush in enumerate(step.flushes):
        if flush.known is None or len(nodes) >= MOST_NODES:
            graph.left_out += flush.nodes
            continue
        _merge(nodes, flush.known.captured.nodes.values())
        _add_kernels(graph, flush, place, step.spans)
        for number, stats in flush.stats.items():
            if number in nodes:
                nodes[number].stats = stats
    find_modules_of_gradients(nodes)
    find_uses_of_gradients(nodes)
    if step.failed is not None:
        _merge(nodes, step.failed)
    if step.error:
        _mark_failing(graph, step.error)
    return graph


def _merge(nodes: dict[int, GraphNode], more: Iterable[GraphNode]) -> None:
    for node in more:
        known = nodes.get(node.number)
        if known is None or known.phase == LEAF:  # computed by an earlier flush of this step
            nodes[node.number] = replace(node)


def _add_kernels(graph: Graph, flush: Flush, place: int, spans: Sequence[Span]) -> None:
    account = flush.known.account if flush.known is not None else None
    if account is None:
        return
    first = len(graph.kernels)
    rows = flush.rows
    times = _seconds(flush, rows, account.work, spans)
    if flush.tier == "plan":  # what was planned tells more exactly what there was to do
        for number in {node for work in account.work for node, _ in work} & set(graph.nodes):
            graph.nodes[number].flops = 0
    for kernel, took, work in zip(account.kernels, times, account.work, strict=True):
        number = kernel.number + first
        row = rows[kernel.number] if kernel.number < len(rows) else None
        made = replace(
            kernel, number=number, seconds=took, flush=place, planned=flush.why,
            reads=tuple([x + first for x in kernel.reads]),
            started=row[0] if row else 0, threads=_threads(row),
        )  # fmt: skip
        graph.kernels.append(made)
        total = sum([share for _, share in work])
        for node, share in work:
            found = graph.nodes.get(node)
            if found is not None:
                found.kernels = tuple(dict.fromkeys([*found.kernels, number]))
                found.seconds += (took or 0.0) * share / total
                if flush.tier == "plan":
                    found.flops += share
    graph.lives += [
        Life(x.node, x.op, x.nbytes, x.first + first, x.last + first, x.what) for x in account.lives
    ]


def _seconds(
    flush: Flush,
    rows: list[list[int] | None],
    work: list[list[tuple[int, int]]],
    spans: Sequence[Span],
) -> list[float | None]:
    """Seconds of each kernel: as measured, else shares of the flush by their work.

    What was planned and compiled meanwhile is not theirs.
    """
    if any(rows) and len(rows) == len(work):
        return [None if row is None else (row[1] - row[0]) / 1e9 for row in rows]
    weights = [max(1, sum([w for _, w in each])) for each in work]
    total = sum(weights) or 1
    made = [x for x in spans if flush.started <= x.started < flush.ended and x.what != "data"]
    whole = max(0, flush.ended - flush.started - sum([x.ended - x.started for x in made])) / 1e9
    return [whole * w / total for w in weights]


def _threads(row: list[int] | None) -> tuple[tuple[int, int, int], ...]:
    """Which threads took part in a kernel, if it was shared out."""
    if row is None:
        return ()
    parts = zip(row[2::2], row[3::2], strict=True)
    # What a thread noted when it was not looked at may be older.
    return tuple([(t, max(a, row[0]), min(b, row[1])) for t, (a, b) in enumerate(parts) if a])


def _mark_failing(graph: Graph, error: dict[str, Any]) -> None:
    """Adds the call that failed, reading what was recorded last in its function."""
    last = [
        node.number
        for node in graph
        if node.file == error["file"] and node.function == error["function"]
    ]
    number = max([0, *graph.nodes]) + 1
    graph.nodes[number] = GraphNode(
        number, f"{error['type']}", "forward", (), "", tuple(last[-1:]),
        file=error["file"], line=error["line"], function=error["function"],
        module=error["module"], attrs=error["text"][:300], failed=True,
    )  # fmt: skip


def signature_of(step: StepRecord, kernel: GraphKernel) -> Any:
    """What the code of a kernel is made from; () if it has none."""
    first = 0
    for flush in step.flushes:
        if flush.known is None:
            continue
        account = flush.known.account
        if kernel.number < first + len(account.signatures):
            return account.signatures[kernel.number - first]
        first += len(account.signatures)
    return ()
