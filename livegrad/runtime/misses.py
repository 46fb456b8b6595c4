"""Why something had to be planned: how it differs from the plan that is most like it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from livegrad.graph.events import PLANS
from livegrad.graph.node import Node, Spec, describe_site
from livegrad.runtime.snapshot import Snapshot, numbers_of

# Of more structures, the latest are compared.
_MOST_COMPARED = 300


class Miss(NamedTuple):
    """What is different, in a word and in plain words; `plan` is the one it was compared with.

    kind: first, shape, dtype, layout, device, constant, operations, connections, results, numbers
    """

    kind: str
    text: str
    plan: int = 0

    def __str__(self) -> str:
        return f"{self.text} (compared with plan {self.plan})" if self.plan else self.text


def why_missed(snapshot: Snapshot, known: dict[Any, list[Any]]) -> Miss:
    """Why none of the known executables, by their specs, was for this."""
    alike = known.get(snapshot.specs)
    if alike:
        return _connected_otherwise(snapshot, alike[0])
    nearest = _nearest(snapshot.specs, islice(reversed(known), _MOST_COMPARED))
    if nearest is None:
        return Miss("first", "the first plan")
    plan = PLANS[known[nearest][0].plan]
    if [x.op for x in nearest] == [x.op for x in snapshot.specs]:
        return _other_values(nearest, snapshot, plan)
    return _other_operations(nearest, snapshot, plan)


def _nearest(specs: Sequence[Spec], known: Iterable[Sequence[Spec]]) -> Sequence[Spec] | None:
    """The structure with most operations in common at its beginning and its end."""
    ops = [spec.op for spec in specs]
    best, most = None, -1
    for other in known:
        theirs = [spec.op for spec in other]
        first, last = _common(ops, theirs)
        score = 2 * (first + last) - abs(len(ops) - len(theirs))
        if score > most:
            best, most = other, score
    return best


def _common(a: Sequence[Any], b: Sequence[Any]) -> tuple[int, int]:
    """How many entries are the same at the beginning, and behind these at the end."""
    shorter = min(len(a), len(b))
    first = 0
    while first < shorter and a[first] is b[first]:
        first += 1
    last = 0
    while last < shorter - first and a[-1 - last] is b[-1 - last]:
        last += 1
    return first, last


def _other_values(before: Sequence[Spec], snapshot: Snapshot, plan: int) -> Miss:
    """The same operations, of other shapes, dtypes, strides or constants."""
    found: list[tuple[str, str]] = []
    for old, new, node in zip(before, snapshot.specs, snapshot.nodes, strict=True):
        if old is not new:
            found.append(_changed(old, new, node))
    kind, text = found[0]
    same = len([1 for other, _ in found if other == kind])
    more = f"; {same - 1} more values like this" if same > 1 else ""
    kinds = [other for other in dict.fromkeys([k for k, _ in found]) if other != kind]
    also = f"; also other {', '.join([f'{each}s' for each in kinds])}" if kinds else ""
    return Miss(kind, text + more + also, plan)


def _changed(old: Spec, new: Spec, node: Node) -> tuple[str, str]:
    where = f"{node.op.name} at {describe_site(node.site)}"
    for kind, a, b in (
        ("dtype", old.meta.dtype.name, new.meta.dtype.name),
        ("shape", list(old.meta.shape), list(new.meta.shape)),
        ("device", str(old.meta.device), str(new.meta.device)),
        ("layout", old.meta.strides, new.meta.strides),
        ("constant", old.attrs, new.attrs),
    ):
        if a != b:
            word = "strides" if kind == "layout" else kind
            return kind, f"the {word} of {where} changed from {a} to {b}"
    return (
        "constant",
        f"{where} is recorded otherwise (whether gradients flow, or its numbers)",
    )


def _other_operations(before: Sequence[Spec], snapshot: Snapshot, plan: int) -> Miss:
    ops = [spec.op for spec in snapshot.specs]
    theirs = [spec.op for spec in before]
    first, last = _common(ops, theirs)
    came = snapshot.nodes[first : len(ops) - last]
    gone = theirs[first : len(theirs) - last]
    told = []
    if came:
        lines = dict.fromkeys([describe_site(node.site) for node in came])
        told.append(f"{_few([n.op.name for n in came])} came in at {_few(list(lines), 2)}")
    if gone:
        told.append(f"{_few([op.name for op in gone])} went out")
    return Miss("operations", " and ".join(told), plan)


def _few(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _connected_otherwise(snapshot: Snapshot, executable: Any) -> Miss:
    """The same operations of the same values: what else is a plan's own."""
    plan = PLANS[executable.plan]
    nodes = snapshot.nodes
    if executable.links != snapshot.links:
        return Miss("connections", "the same operations read each other in another way", plan)
    if executable.keep != snapshot.keep:
        pairs = zip(nodes, executable.keep, snapshot.keep, strict=True)
        node, was = next((node, a) for node, a, b in pairs if a != b)
        what = "is no longer kept" if was else "is kept now"
        text = f"the value of {node.op.name} at {describe_site(node.site)} {what} by the program"
        return Miss("results", text, plan)
    planned = executable.specialised
    if planned is not None and planned != numbers_of([nodes[i] for i in executable.numbered]):
        return Miss("numbers", "it holds for one number only, and that is another now", plan)
    return Miss("connections", "other values are the same tensor, or numbers of another kind", plan)


__all__ = ["Miss", "why_missed"]
