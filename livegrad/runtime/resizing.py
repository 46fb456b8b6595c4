"""Plans that serve every size are made once sizes are all that a structure changes in.

sizes 1 … 5 of a structure     planned, an outline learnt and compared     compiler/sizes.py
the 6th                        filled in; and from now on there is one
                               executable that fits itself to any size     cpu/fitting.py
in the next process            that is found on disk                       recalling.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from livegrad.compiler.expand import Recorded
from livegrad.compiler.kept import KEPT, size_of_plan
from livegrad.compiler.plan import Plan
from livegrad.device import CPU, backend_of
from livegrad.graph.node import Node
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.driver import HEADER_SLOTS, STEP_SLOTS, Program
from livegrad.runtime.cpu.fitting import Sizes
from livegrad.runtime.cpu.pieces.families import know_families, numbered
from livegrad.runtime.cpu.pieces.layout import PATCHES_WORD, STEPS_WORD, WORD
from livegrad.runtime.cpu.pieces.making import learning
from livegrad.runtime.cpu.pieces.moulds import Mould
from livegrad.runtime.cpu.segments import Segment, Segments
from livegrad.runtime.executable import Executable
from livegrad.runtime.fitted import FITTED, digest_of_families
from livegrad.runtime.recalling import planning, recalled_for_sizes, store_for_sizes

_MOST_FITTED, _MOST_ALIKE = 1024, 4

# How a plan is had for some sizes, when somebody wants to see it.
Fill = Callable[[list[int]], Plan | None]
# Tells an executable how it meets what was recorded; gives the numbers of the leaves that are read.
Bind = Callable[[Executable], list[int]]


class Fitted(Executable):
    """An executable whose program is written to for the sizes of each run."""

    def __init__(self, plan: Plan, recorded: Recorded, backend: Any, runnable: Any) -> None:
        self._latest: tuple[list[int], Plan] = ([], plan)
        self._fill: Fill | None = None
        super().__init__(plan, recorded, backend, runnable)

    @property
    def plan(self) -> Plan:
        """The plan for the sizes of the latest run, for reports."""
        if self._fill is None or self.follower is None:
            return self._latest[1]
        sizes = self.follower.sizes
        if sizes != self._latest[0]:
            filled = self._fill(sizes)
            self._latest = (sizes, self._latest[1] if filled is None else filled)
        return self._latest[1]

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._latest = ([], plan)

    def how(self, hit: bool) -> str:
        """How the plan was had, for `explain()`."""
        return "plan for any size found"


def fit_to_sizes(plan: Plan, recorded: Recorded, bind: Bind) -> None:
    """Makes a plan for all sizes of one that was filled in for some, if it can be one."""
    if _digest(recorded.nodes) == 0:
        return
    found = _mould_for(recorded)
    if found is not None:
        mould, outline = found
        _fit(plan, recorded, bind, mould, outline.fill)
        store_for_sizes(recorded, plan, mould)


def store_from(examples: list[Recorded]) -> None:
    """Stores a plan for all sizes of a structure, of which there are some: see aside.py."""
    for recorded in examples:
        plan = planning().planned(recorded)
        found = _mould_for(recorded)
        if found is not None:
            store_for_sizes(recorded, plan, found[0])
            return


def _mould_for(recorded: Recorded) -> tuple[Mould, Any] | None:
    found = planning().trusted_outline(recorded)
    mould = None if found is None else learning().mould_of(*found)
    return None if mould is None else (mould, found[0])


def _digest(nodes: list[Node]) -> int:
    if not nodes or nodes[0].meta.device is not CPU:
        return 0
    know_families(nodes)
    return digest_of_families(nodes)


def _fit(plan: Plan, recorded: Recorded, bind: Bind, mould: Mould, fill: Fill) -> None:
    runnable, addresses = _runnable(plan, mould)
    fitted = Fitted(plan, recorded, backend_of(CPU), runnable)
    nodes = recorded.nodes
    pattern, sizes = numbered([node.meta for node in (*recorded.leaves, *nodes)])
    told = Sizes(mould, pattern, len(sizes), addresses)
    fitted.follower = runnable.fitter(fitted, nodes, bind(fitted), told)
    if fitted.follower is None:
        return
    fitted._fill = fill
    digest = _digest(nodes)
    if len(FITTED) >= _MOST_FITTED:
        FITTED.clear()
    FITTED[digest] = (fitted, *FITTED.get(digest, ())[: _MOST_ALIKE - 1])
    slots = sum([len(block.slots) for step in plan.steps for block in step.blocks])
    nbytes = size_of_plan(len(nodes), len(plan.steps), 2 * slots)
    KEPT.put(fitted, nbytes, lambda: _drop(digest))


def _runnable(plan: Plan, mould: Mould) -> tuple[Segments, list[int]]:
    """The steps of a plan as the program of its mould; the address of each word of the image."""
    image, kernels = mould.linked()
    patches, steps = image[PATCHES_WORD], image[STEPS_WORD]
    told = np.array(image, np.int64)
    program = Program(
        told[patches:steps].reshape(-1, 4),
        told[HEADER_SLOTS:patches],
        told[steps:].reshape(-1, STEP_SLOTS)[:, :6],
        inputs=plan.first_int + plan.ints,
        scalars=plan.floats,
    )
    program.wants_threads = True  # for some sizes
    addresses = [0] * HEADER_SLOTS
    for name, count in (
        ("blocks", patches - HEADER_SLOTS), ("patches", steps - patches),
        ("steps", len(image) - steps),
    ):  # fmt: skip
        addresses += [program.starts[name] + WORD * i for i in range(count)]
    return Segments(plan, [Segment(0, plan.steps, program, kernels)]), addresses


def _drop(digest: int) -> None:
    FITTED.pop(digest, None)


def recall(recorded: Recorded, bind: Bind) -> bool:
    """Looks on disk for a plan that serves what was recorded, whatever its sizes."""
    if _digest(recorded.nodes) == 0:
        return False
    found = recalled_for_sizes(recorded)
    if found is None:
        return False
    plan, mould, structure = found
    _fit(plan, recorded, bind, mould, lambda sizes: planning().plan_at(structure, sizes))
    counters.plans_loaded += 1
    return True
