"""What `livegrad.explain()` adds: modules, the slowest and largest, and what to do about them."""

from __future__ import annotations

from typing import Any, NamedTuple

from livegrad.autograd.profiler import work_of
from livegrad.debug.memory import size
from livegrad.debug.names import Names
from livegrad.graph.events import Ran, latest, latest_part
from livegrad.graph.node import Node, Site, describe_site

_MOST = 10


class Kernel(NamedTuple):
    """One kernel of the last flush."""

    kind: str
    ops: tuple[str, ...]
    shape: tuple[int, ...]
    seconds: float | None
    lines: tuple[str, ...]
    modules: tuple[str, ...]
    flops: int


def advice() -> str:
    """The ten slowest kernels and the ten largest values of the last flush, in plain words."""
    ran = latest()
    if ran is None:
        return "nothing has been computed yet"
    before = latest_part()
    names = Names()
    parts = [ran] if before is None else [before, ran]
    kernels = [kernel for part in parts for kernel in _kernels(part, names)]
    return "\n".join([*_slowest(kernels), *_largest(parts, names)])


def _kernels(ran: Ran, names: Names) -> list[Kernel]:
    plan = ran.executable.plan
    found = []
    for step, notes, seconds in zip(plan.steps, plan.notes.steps, ran.step_seconds, strict=True):
        sites = [_site(ran, node) for node in notes.nodes]
        modules = [names.of_code(site[0]) for site in sites if site is not None]
        work = [work_of(n) for n in notes.nodes if isinstance(n, Node) and n.op.flops is not None]
        found.append(
            Kernel(
                step.kind,
                tuple([node.op.name for node in notes.nodes]),
                tuple(step.shape),
                seconds,
                tuple(dict.fromkeys([describe_site(site) for site in sites])),
                tuple(dict.fromkeys([name for name in modules if name])),
                sum(work),
            )
        )
    return found


def _site(ran: Ran, node: Any) -> Site | None:
    place = ran.executable.places.get(id(node.site))
    found: Site | None = node.site if place is None else ran.sites[place]
    return found


def _slowest(kernels: list[Kernel]) -> list[str]:
    timed = [(k.seconds, i, k) for i, k in enumerate(kernels) if k.seconds is not None]
    timed = sorted(timed, key=lambda entry: -entry[0])[:_MOST]
    if not timed:
        return ["no kernel has been timed yet: call it again after the next flush"]
    total = sum([k.seconds or 0.0 for k in kernels])
    lines = [f"slowest of {len(kernels)} kernels, {total * 1e6:.0f} µs together:"]
    for seconds, _, kernel in timed:
        share = 100 * seconds / total if total else 0.0
        what = " ".join(kernel.ops[:4]) + (" …" if len(kernel.ops) > 4 else "")
        where = ", ".join([*kernel.lines[:2], *kernel.modules[:2]])
        lines.append(f"  {seconds * 1e6:8.1f} µs {share:4.0f} %  {what} {list(kernel.shape)}")
        lines.append(f"{'':22}{where}: {_what_to_do(kernel, seconds, share)}")
    return lines


def _what_to_do(kernel: Kernel, seconds: float, share: float) -> str:
    """Plain words about one kernel."""
    if share < 5:
        return "nothing to gain here"
    if kernel.kind == "host":
        return "NumPy runs it, since there is no native code for this op: take it out of the step"
    if kernel.kind == "scatter":
        return "values are added one by one where indices say: fewer or sorted indices are quicker"
    if kernel.flops:
        speed = 2 * kernel.flops / max(seconds, 1e-9) / 1e9
        rows = kernel.shape[0] if kernel.shape else 1
        if rows < 16:
            what = f"a product of {rows} rows reads its matrix for little; take a larger batch"
        else:
            what = "a product does what it must; fewer or narrower layers take less"
        return f"{speed:.0f} GFLOP/s: {what}"
    return "it reads and writes memory: compute less of it, or in a smaller dtype"


def _largest(parts: list[Ran], names: Names) -> list[str]:
    values = []
    for ran in parts:
        for place, number, leaf in getattr(ran.executable, "results", ()):
            if leaf < 0 and place < len(ran.sites):
                values.append((ran.executable.fresh[number], ran.sites[place]))
    values = sorted(values, key=lambda entry: -entry[0])[:_MOST]
    if not values:
        return []
    lines = ["largest values that it has made:"]
    for nbytes, site in values:
        module = names.of_code(site[0]) if site is not None else None
        where = f"{describe_site(site)}{f', {module}' if module else ''}"
        lines.append(f"  {size(nbytes):>10}  {where}: {_why_kept(nbytes)}")
    return lines


def _why_kept(nbytes: int) -> str:
    if nbytes < 1 << 20:
        return "small"
    return "kept for the program or for backward: `del` it, use no_grad(), or utils.checkpoint"


__all__ = ["advice"]
