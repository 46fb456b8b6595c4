"""The kernels of a flush: what each computes, reads and writes, and what its nodes cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from livegrad.graph.events import PLANS, kernel_name
from livegrad.graph.node import Node
from livegrad.view.capture import Captured, flops_of
from livegrad.view.nodes import LEAF, GraphKernel, Life


class Account:
    """Kernels of one executable, with the numbers of the nodes that were captured for it."""

    def __init__(self, executable: Any, captured: Captured) -> None:
        self.kernels: list[GraphKernel] = []
        self.lives: list[Life] = []
        self.signatures: list[Any] = []
        # Of each kernel: (number of a node, work) for all it computes.
        self.work: list[list[tuple[int, int]]] = []
        # Bytes of the arena that its kernels share, and of memory for its results.
        is_list = hasattr(executable, "step_places")
        self.arena = executable.arena if is_list else executable.plan.arena
        self.results = 0 if is_list else sum([buffer.nbytes for buffer in executable.plan.buffers])
        self._captured = captured
        if not is_list:
            self._take_plan(executable)
            if captured.is_summary:
                self._unite()
        elif captured.is_summary:
            self._take_entries(executable)
        else:
            self._take_list(executable)

    # ---- whole plans ---------------------------------------------------------------------------

    def _take_plan(self, executable: Any) -> None:
        plan = executable.plan
        notes = plan.notes
        twins = {id(site) for site in notes.twins if site is not None}
        owner: dict[Node, int] = {}
        for number, told in enumerate(notes.steps):
            for node in told.nodes:
                owner.setdefault(node, number)
        traffic = _Traffic(owner, notes.steps)
        for number, (step, told) in enumerate(zip(plan.steps, notes.steps, strict=True)):
            numbers = [self._number(executable, node, twins) for node in told.nodes]
            work = [flops_of(node) for node in told.nodes]
            kernel = GraphKernel(
                number, kernel_name(step.signature) if step.signature else "", step.kind,
                tuple([node.op.name for node in told.nodes]), tuple(step.shape),
                tuple(dict.fromkeys([n for n in numbers if n])),
                reads=tuple(sorted(traffic.sources[number])), nbytes=traffic.nbytes[number],
                flops=sum(work), plan=PLANS[plan],
                tier="NumPy" if step.host else "plan", op_nodes=tuple(numbers),
            )  # fmt: skip
            self.kernels.append(kernel)
            self.signatures.append(step.signature)
            self.work.append([(n, max(1, w)) for n, w in zip(numbers, work, strict=True) if n])
        self.lives = [
            Life(self._number(executable, node, twins), node.op.name, node.meta.nbytes, *span)
            for node, span in traffic.spans(len(plan.steps)).items()
        ]

    def _number(self, executable: Any, node: Node, twins: set[int]) -> int:
        """The captured node that a planned one comes from; 0 if it is not known."""
        place = executable.places.get(id(node.site))
        if place is None or place >= len(self._captured.order):
            return 0
        number = self._captured.order[place]
        if id(node.site) in twins:
            number = -number
        return number if number in self._captured.nodes else 0

    def _unite(self) -> None:
        """Makes one of kernels with the same code that compute what is shown as the same nodes."""
        found: dict[Any, list[int]] = {}
        for kernel in self.kernels:
            found.setdefault((kernel.name, kernel.op_nodes), []).append(kernel.number)
        groups = list(found.values())
        new = {number: i for i, group in enumerate(groups) for number in group}
        united = []
        for i, group in enumerate(groups):
            alike = [self.kernels[number] for number in group]
            reads = {new[x] for kernel in alike for x in kernel.reads} - {i}
            united.append(replace(
                alike[0], number=i, reads=tuple(sorted(reads)), count=len(alike),
                nbytes=sum([k.nbytes for k in alike]), flops=sum([k.flops for k in alike]),
            ))  # fmt: skip
        self.work = [
            [(node, share * len(group)) for node, share in self.work[group[0]]] for group in groups
        ]
        self.signatures = [self.signatures[group[0]] for group in groups]
        self.kernels, self.lives = united, []

    # ---- pieces --------------------------------------------------------------------------------

    def _take_entries(self, listed: Any) -> None:
        """The entries of a list, those that are alike as one."""
        cards, places = listed.entry_cards, listed.entry_places
        counted = Counter(zip(self._numbers_of(places), cards, strict=True))
        for (found, card), count in counted.items():
            node = self._captured.nodes.get(found)
            nodes = (found,) if node is not None else ()
            shape = node.shape if node is not None else ()
            for told in listed.steps_by(card):
                flops = prod(shape) * max(1, len(told.ops)) * count
                if told.kind == "product" and node is not None:
                    flops = max(flops, node.flops)
                self.kernels.append(GraphKernel(
                    len(self.kernels), kernel_name(told.signature) if told.signature else "",
                    told.kind, tuple(told.ops), shape, nodes, plan=PLANS[listed], tier="piece",
                    nbytes=prod(shape) * 4 * count, flops=flops, op_nodes=nodes * len(told.ops),
                    count=count,
                ))  # fmt: skip
                self.signatures.append(told.signature)
                self.work.append([(found, max(1, flops))] if nodes else [])

    def _take_list(self, listed: Any) -> None:
        plan = listed.plan
        numbers = self._numbers_of(listed.step_places)
        products = Counter(
            [n for n, step in zip(numbers, plan.steps, strict=True) if step.kind == "product"]
        )
        steps = zip(plan.steps, plan.notes.steps, numbers, strict=True)
        for number, (step, told, found) in enumerate(steps):
            node = self._captured.nodes.get(found)
            nodes = (found,) if node is not None else ()
            moved = node.nbytes if node is not None else 0
            flops = prod(step.shape) * max(1, len(told.nodes))
            if step.kind == "product" and node is not None:
                flops = max(flops, node.flops // products[found])
            kernel = GraphKernel(
                number, kernel_name(step.signature) if step.signature else "", step.kind,
                tuple([x.op.name for x in told.nodes]), tuple(step.shape), nodes,
                nbytes=moved, flops=flops, plan=PLANS[plan], tier="piece",
                op_nodes=nodes * len(told.nodes),
            )  # fmt: skip
            self.kernels.append(kernel)
            self.signatures.append(step.signature)
            self.work.append([(found, max(1, flops))] if nodes else [])
        self._take_lives(listed, numbers)

    def _numbers_of(self, places: Sequence[int]) -> list[int]:
        """The captured node that each step belongs to: what comes to a place again is its gradient.

        Sums of gradients belong to nobody.
        """
        order, nodes = self._captured.order, self._captured.nodes
        found, done, before = [], set(), -1
        for place in places:
            if place != before:
                done.add(before)
            before = place
            number = order[place] if 0 <= place < len(order) else 0
            found.append(-number if place in done and -number in nodes else number)
        return found

    def _take_lives(self, listed: Any, numbers: list[int]) -> None:
        """What pieces hand on, what they leave to the program, and what was there before."""
        order, nodes, end = self._captured.order, self._captured.nodes, len(self.kernels) - 1
        for lived in listed.lives:
            number = order[lived.place] if lived.is_kept else numbers[lived.first]
            node = nodes.get(number)
            op = "sum of gradients" if node is None else node.op
            last, what = (end, "result") if lived.is_kept else (lived.last, "value")
            self.lives.append(Life(number, op, lived.nbytes, lived.first, last, what))
        if self.lives:
            self.lives += [
                Life(node.number, node.op, node.nbytes, 0, end, "leaf")
                for node in nodes.values()
                if node.phase == LEAF
            ]


class _Traffic:
    """Which values go from one kernel to another through memory."""

    def __init__(self, owner: dict[Node, int], steps: list[Any]) -> None:
        self.owner = owner
        self.sources: list[set[int]] = [set() for _ in steps]
        self.nbytes = [0] * len(steps)
        self._last: dict[Node, int] = {}  # the last kernel that reads a stored value
        self._written: list[set[Node]] = [set() for _ in steps]
        self._finals = [told.nodes[-1] if told.nodes else None for told in steps]
        for number, told in enumerate(steps):
            for value in self._read(told.nodes, number):
                self.nbytes[number] += value.meta.nbytes
                self._last[value] = max(number, self._last.get(value, 0))
                if value in owner:
                    self.sources[number].add(owner[value])
                    self._written[owner[value]].add(value)
        for number, told in enumerate(steps):
            written = self._written[number] or set(told.nodes[-1:])
            self.nbytes[number] += sum([x.meta.nbytes for x in written])

    def _read(self, nodes: Iterable[Node], number: int) -> set[Node]:
        """What these nodes read that their kernel does not compute: through views."""
        own = set(nodes)
        found: set[Node] = set()
        seen: set[Node] = set()
        waiting = [x for node in own for x in node.inputs]
        while waiting:
            x = waiting.pop()
            if x in own or x in seen:
                continue
            seen.add(x)
            if x in self.owner or x.op.kind == "leaf" or not x.inputs:
                if x.op.kind != "generate" or x in self.owner:
                    found.add(x)
            else:
                waiting += x.inputs
        return found

    def spans(self, count: int) -> dict[Node, tuple[int, int, str]]:
        """For each stored value: the kernels from which and to which it is in memory."""
        found: dict[Node, tuple[int, int, str]] = {}
        for value, last in self._last.items():
            if value.op.kind == "leaf":
                found[value] = 0, count - 1, "leaf"
            elif value in self.owner:
                found[value] = self.owner[value], last, "value"
        for number, final in enumerate(self._finals):
            if final is not None and final not in found and not self._written[number]:
                found[final] = number, count - 1, "result"  # no kernel reads it: the program does
        return found
