"""Plans that serve every size: made once sizes are all that a structure changes in.

    sizes 1 … 5 of a structure     planned, an outline learnt and compared     compiler/sizes.py
    the 6th                        filled in; and from now on there is one
                                   executable that fits itself to any size     cpu/fitting.py
    in the next process            that is found on disk

They are found by the families of the pending nodes, which specs of all sizes share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad.compiler.expand import Recorded
from livegrad.compiler.kept import KEPT, size_of_plan
from livegrad.device import CPU, backend_of
from livegrad.graph.node import Node
from livegrad.native.calls import remainder
from livegrad.native.hot import hot
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.pieces.families import know_families
from livegrad.runtime.executable import Executable

if TYPE_CHECKING:
    from livegrad.compiler.plan import Plan
    from livegrad.runtime.cpu.pieces.moulds import Mould

# By a digest of families; those with the same differ in links, in what is kept, or in which sizes
# are equal.
FITTED: dict[int, tuple[Executable, ...]] = {}
_MOST_FITTED, _MOST_ALIKE = 1024, 4
_DIGESTS = 1 << 48


class _Loaded:
    """What the first flush has imported."""

    fitting: Any = None


def load() -> None:
    """Imports what fits plans, with the functions that are to be native."""
    from livegrad.runtime.cpu import fitting

    _Loaded.fitting = fitting


@hot
def digest_of_families(nodes: list[Node]) -> int:
    """A number that structures have in common which differ in sizes only; their families must be
    known. Backward passes and updates make it 0: those have none that tells all of them."""
    digest = 0
    for node in nodes:
        kind = node.spec.op.kind
        if kind == "gradient" or kind == "update":
            return 0
        # So that it stays below 64 bits.
        digest = remainder(digest, _DIGESTS) * 31 + id(node.spec.family)
    return digest


@hot
def fitted_for(nodes: list[Node]) -> tuple[Executable, ...]:
    """The plans that may serve pending nodes, whatever their sizes."""
    know_families(nodes, len(nodes))
    return FITTED.get(digest_of_families(nodes), ())


# How a plan is had for some sizes, when somebody wants to see it.
Fill = Callable[[list[int]], "Plan | None"]
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
    from livegrad.runtime.planning import mould_for  # the plan was filled in by the same module
    from livegrad.runtime.recalling import store_for_sizes

    found = mould_for(recorded)
    if found is not None:
        mould, fill = found
        _fit(plan, recorded, bind, mould, fill)
        store_for_sizes(recorded, plan, mould)


def _digest(nodes: list[Node]) -> int:
    if _Loaded.fitting is None or not nodes or nodes[0].meta.device is not CPU:
        return 0
    know_families(nodes, len(nodes))
    return digest_of_families(nodes)


def _fit(plan: Plan, recorded: Recorded, bind: Bind, mould: Mould, fill: Fill) -> None:
    fitting, nodes = _Loaded.fitting, recorded.nodes
    runnable, addresses = fitting.runnable_of(plan, mould)
    fitted = Fitted(plan, recorded, backend_of(CPU), runnable)
    metas = [node.meta for node in (*recorded.leaves, *nodes)]
    read = bind(fitted)
    fitting.fit(fitted, nodes, read, fitting.Sizes(mould, metas, addresses))
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


def _drop(digest: int) -> None:
    FITTED.pop(digest, None)


def recall(recorded: Recorded, bind: Bind) -> bool:
    """Looks on disk for a plan that serves what was recorded, whatever its sizes."""
    if _digest(recorded.nodes) == 0:
        return False
    from livegrad.runtime.recalling import planning, recalled_for_sizes

    found = recalled_for_sizes(recorded)
    if found is None:
        return False
    plan, mould, structure = found
    _fit(plan, recorded, bind, mould, lambda sizes: planning().plan_at(structure, sizes))
    counters.plans_loaded += 1
    return True
