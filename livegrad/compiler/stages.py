"""In which pass over the folded loop of a kernel each value is computed, stored, or kept for later.

softmax     pass 0   max of x
            pass 1   exp(x - max): dear, so it is kept in scratch memory; its sum
            pass 2   what was kept, divided by the sum, is stored
"""

from __future__ import annotations

from typing import NamedTuple

from livegrad.compiler.signature import Instr, Store
from livegrad.graph.op import REGISTRY


class Pass(NamedTuple):
    """One pass over the folded loop: the reductions done and the full outputs stored in it."""

    reduces: list[int]
    stores: list[Store]


class Spill(NamedTuple):
    """A value that is kept in a slot of scratch memory, from the pass that computes it on."""

    slot: int
    computed_in: int


class Stages:
    """The passes that a kernel with these instructions and outputs makes.

    `stage` is, for each value, the pass in which it is available. Dear values that several passes
    need are spilled: computed in the first of them, and loaded afterwards.
    """

    def __init__(self, instrs: tuple[Instr, ...], outputs: tuple[Store, ...]) -> None:
        self.instrs = instrs
        self.stage = self._stages()
        self.passes = self._passes([store for store in outputs if store.full])
        self.spills = self._spills()

    def _stages(self) -> list[int]:
        stage: list[int] = []
        for instr in self.instrs:
            ready = max([stage[i] for i in instr.operands if i >= 0], default=0)
            stage.append(ready + 1 if instr.what == "reduce" else ready)
        return stage

    def _passes(self, stores: list[Store]) -> list[Pass]:
        stage = self.stage
        reduces = [i for i, x in enumerate(self.instrs) if x.what == "reduce"]
        last = max([stage[i] - 1 for i in reduces] + [stage[s.value] for s in stores], default=-1)
        return [
            Pass(
                [i for i in reduces if stage[i] - 1 == number],
                [store for store in stores if stage[store.value] == number],
            )
            for number in range(last + 1)
        ]

    def _spills(self) -> dict[int, Spill]:
        needed: dict[int, list[int]] = {}
        for number, (reduces, stores) in enumerate(self.passes):
            roots = [self.instrs[i].operands[0] for i in reduces] + [s.value for s in stores]
            for i in self._computed_for(roots, number):
                needed.setdefault(i, []).append(number)
        dear = [i for i, numbers in needed.items() if len(numbers) > 1 and self._is_dear(i)]
        return {i: Spill(slot, needed[i][0]) for slot, i in enumerate(sorted(dear))}

    def _computed_for(self, roots: list[int], number: int) -> set[int]:
        """What pass `number` needs for its roots, down to dear values of earlier passes."""
        found: set[int] = set()
        todo = list(roots)
        while todo:
            i = todo.pop()
            if i in found or not self.instrs[i].full:
                continue
            found.add(i)
            if self._is_dear(i) and self.stage[i] < number:
                continue
            todo += [o for o in self.instrs[i].operands if o >= 0]
        return found

    def _is_dear(self, i: int) -> bool:
        instr = self.instrs[i]
        if instr.what == "op":
            return not REGISTRY[instr.payload[0]].cheap
        return instr.what == "generate"
