"""What memory is used for: `memory_report()`, and what a step will need: `predict_peak(step)`."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from livegrad.debug.names import Names
from livegrad.graph.handle import Handle
from livegrad.graph.node import Node, describe_site
from livegrad.graph.state import flush_all
from livegrad.graph.watch import BLAMING
from livegrad.runtime import rehearsal
from livegrad.runtime.memory import memory_held, memory_in_use, memory_peak
from livegrad.runtime.plans import arena_users


class Held(NamedTuple):
    """Values that one line of the program has made, and that are still in memory."""

    line: str
    kind: str  # parameter, gradient, optimiser, tensor, or kept for backward
    nbytes: int
    values: int
    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]


class MemoryReport:
    """What is in memory now, the largest first; `print` it.

    - `held`: values by line and kind; `tensors` is the sum of their bytes
    - `in_use`: bytes of all values, arenas included; `peak`: the most so far
    - `cache`: bytes that are free, and kept for the next values
    - `arenas`: scratch memory that plans use again and again, and of `arena_users`, the plans that
      take turns in it, (bytes, plan, kernels), the one that needs most first
    """

    def __init__(self, held: list[Held]) -> None:
        self.held = held
        self.tensors = sum([each.nbytes for each in held])
        self.in_use, self.peak, self.cache = memory_in_use(), memory_peak(), memory_held()
        self.arenas = rehearsal.arenas()
        self.arena_users = [user for user in arena_users() if user[0]]

    def __repr__(self) -> str:
        return self.__str__()

    def __str__(self) -> str:
        arenas = ", ".join([f"{size(n)} of {name}" for name, n in self.arenas.items()])
        lines = [
            f"in use {size(self.in_use)}, peak {size(self.peak)}, free and kept {size(self.cache)}",
            f"tensors {size(self.tensors)}; arenas: {arenas}",
        ]
        for nbytes, plan, kernels in self.arena_users[:3]:
            lines.append(f"{size(nbytes):>10}  of the arena for plan {plan}, {kernels} kernels")
        if len(self.arena_users) > 3:
            lines.append(f"{'':>10}  and for {len(self.arena_users) - 3} others, in turns")
        for each in self.held[:_SHOWN]:
            what = ", ".join(each.names[:2]) or " ".join([str(list(s)) for s in each.shapes[:2]])
            more = f" and {each.values - 2} more" if each.values > 2 else ""
            lines.append(f"{size(each.nbytes):>10}  {each.kind:12} {each.line:24} {what}{more}")
        if len(self.held) > _SHOWN:
            rest = sum([each.nbytes for each in self.held[_SHOWN:]])
            lines.append(f"{size(rest):>10}  in {len(self.held) - _SHOWN} other lines")
        return "\n".join(lines)


_SHOWN = 20


def size(nbytes: int) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}" if unit != "B" else f"{nbytes} B"
        nbytes /= 1000  # type: ignore[assignment]
    return f"{nbytes:.3g} GB"


def memory_report() -> MemoryReport:
    """What is in memory now, by the lines that made it. What is pending has no memory yet."""
    names = Names()
    kinds = _kinds(names)
    found: dict[tuple[str, str], list[tuple[Node, int, str]]] = {}
    seen: set[int] = set()
    for node, tensor in _values():
        buffer = node.buffer
        nbytes = getattr(buffer, "nbytes", None)
        if nbytes is None or id(buffer) in seen:
            continue
        seen.add(id(buffer))
        kind, name = kinds.get(id(tensor), ("tensor", "")) if tensor is not None else _BACKWARD
        found.setdefault((describe_site(node.site), kind), []).append((node, nbytes, name))
    held = [_held(line, kind, entries) for (line, kind), entries in found.items()]
    return MemoryReport(sorted(held, key=lambda each: -each.nbytes))


_BACKWARD = ("backward", "")


def _held(line: str, kind: str, entries: list[tuple[Node, int, str]]) -> Held:
    entries.sort(key=lambda entry: -entry[1])
    shapes = tuple(dict.fromkeys([node.meta.shape for node, _, _ in entries]))
    names = tuple([name for _, _, name in entries if name])
    return Held(line, kind, sum([n for _, n, _ in entries]), len(entries), shapes, names)


def _values() -> Iterator[tuple[Node, Any]]:
    """The nodes of all tensors, and those that only graphs still hold."""
    tensors = [x for x in gc.get_objects() if isinstance(x, Handle)]
    tensors = [x for x in tensors if getattr(x, "_node", None) is not None]
    nodes = [x._node for x in tensors]
    yield from zip(nodes, tensors, strict=False)
    met = set(nodes)
    for node in nodes:  # grows while it is walked
        for x in node.inputs:
            if x not in met:
                met.add(x)
                nodes.append(x)
                yield x, None


def _kinds(names: Names) -> dict[int, tuple[str, str]]:
    """What tensors are to the models and optimisers that exist."""
    kinds: dict[int, tuple[str, str]] = {}
    for x in gc.get_objects():
        groups = getattr(x, "param_groups", None) if hasattr(type(x), "update_group") else None
        for group in groups or ():
            for p in group["params"]:
                name = names.of_tensor(p) or ""
                for key, value in x.state.get(p, {}).items():
                    if isinstance(value, Handle):
                        kinds[id(value)] = ("optimiser", f"{key} of {name}" if name else key)
                kinds[id(p)] = ("parameter", name)
                if p._grad is not None:
                    kinds[id(p._grad)] = ("gradient", name)
    for module in names.modules:
        for p in module.parameters(recurse=False):
            kinds.setdefault(id(p), ("parameter", names.of_tensor(p) or ""))
    return kinds


# ------------------------------------------------------------------------------------- prediction

_SECONDS = 120


def predict_peak(step: Callable[[], Any], times: int = 3) -> int:
    """The most bytes that will be in use while `step()` runs: it is rehearsed, not run.

    A copy of this process calls it once as it would be, and some `times` as it will be before long,
    with everything recorded, planned and given memory, and no kernel run; nothing happens to this
    one. Values that the step reads are arbitrary there, so it should not decide by them how much to
    compute. It counts what is in use now, and memory of livegrad's alone, as `memory_report()`.
    """
    if not hasattr(os, "fork"):
        raise RuntimeError("predict_peak: this system cannot copy processes (os.fork)")
    flush_all("predict_peak")  # values that are there before the step are what they are
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os.close(reading)
        _rehearse(step, times, writing)
    os.close(writing)
    try:
        answer = _answer(reading)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if isinstance(answer, int):
        return answer
    raise RuntimeError(f"predict_peak: the step could not be rehearsed:\n{answer}")


def _rehearse(step: Callable[[], Any], times: int, writing: int) -> None:  # pragma: no cover
    """In the copy: what a rehearsal needs, or why it could not be."""
    answer: int | str
    try:
        rehearsal.begin()
        warnings.simplefilter("ignore")  # of values that mean nothing
        BLAMING.enabled = False
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        step()  # at first sight, which has an arena of its own
        rehearsal.plan_as_wholes()
        for _ in range(times):
            step()
        answer = rehearsal.peak()
    except BaseException:
        answer = traceback.format_exc()
    try:
        os.write(writing, pickle.dumps(answer)[: 1 << 15])
    finally:
        os._exit(0)


def _answer(reading: int) -> Any:
    ready, _, _ = select.select([reading], [], [], _SECONDS)
    if not ready:
        return f"it took more than {_SECONDS} seconds"
    text = os.read(reading, 1 << 16)
    return pickle.loads(text) if text else "its process ended"


__all__ = ["Held", "MemoryReport", "memory_report", "predict_peak", "size"]
