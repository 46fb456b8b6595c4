"""Folding: the loops of reduction kernels, in blocks that keep sums accurate.

    for each block of 8 rounds           whatever the length of the fold
        open                             sums start from 0 again
        for each round of the block
            step                         sixteen lanes, one value each
        close                            the block is added to a total of twice the precision

So no value takes part in more than 8 roundings, and the order is fixed by the length alone. A loop
that folds nothing in blocks (a maximum) has no blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from livegrad.compiler.builder import Builder, Value
from livegrad.compiler.emitter import Emitter
from livegrad.compiler.reducers import Accs, Reducer

# Rounds of a block. Fewer would round less; the bound in "The same bits" of docs/design.md is this.
BLOCK = 8

# What a round does, given its counter and accumulators: the accumulators after it.
Round = Callable[[Value, Accs], Accs]


class Folds:
    """The reductions of one loop, side by side: each a reducer and the emitter of its values."""

    def __init__(self, b: Builder, folds: Sequence[tuple[Reducer, Emitter]]) -> None:
        self.b = b
        self.folds = folds
        self.in_blocks = any([reducer.in_blocks(e.dtype) for reducer, e in folds])

    def start(self) -> Accs:
        """The totals before the first round."""
        return [x for reducer, e in self.folds for x in reducer.start(e)]

    def step(
        self, accs: Accs, values: Sequence[Value], index: Value, mask: Value | None = None
    ) -> Accs:
        """The accumulators after one more value per lane, of each reduction."""
        stepped: Accs = []
        for (reducer, e), mine, value in zip(self.folds, self._shares(accs), values, strict=True):
            stepped += reducer.step(e, mine, value, index, mask)
        return stepped

    def run(self, low: Value | int, high: Value, step: int, totals: Accs, body: Round) -> Accs:
        """The totals after the rounds from `low` up to `high`."""
        b = self.b
        if not self.in_blocks:
            with b.loop(low, high, step, totals) as rounds:
                rounds.update(body(rounds.index, rounds.carried))
            return rounds.results
        with b.loop(low, high, step * BLOCK, totals) as block:
            end = b.smin(b.add(block.index, step * BLOCK), high)
            with b.loop(block.index, end, step, self._open(block.carried)) as rounds:
                rounds.update(body(rounds.index, rounds.carried))
            block.update(self._close(block.carried, rounds.results))
        return block.results

    def run_last(self, low: Value, high: Value, step: int, totals: Accs, body: Round) -> Accs:
        """The totals after the round at `low`, a block of its own, if that is below `high`."""
        with self.b.loop(low, high, step, totals) as block:
            accs = body(block.index, self._open(block.carried))
            block.update(self._close(block.carried, accs))
        return block.results

    def results(self, totals: Accs, across_lanes: bool) -> list[Value]:
        """What the reductions came to; `across_lanes` merges the sixteen into one."""
        values = []
        for (reducer, e), mine in zip(self.folds, self._shares(totals, totals=True), strict=True):
            if across_lanes:
                mine = reducer.fold_lanes(e, mine)
            values.append(reducer.result(e, mine))
        return values

    def _open(self, totals: Accs) -> Accs:
        shares = zip(self.folds, self._shares(totals, totals=True), strict=True)
        return [x for (reducer, e), mine in shares for x in reducer.open(e, mine)]

    def _close(self, totals: Accs, accs: Accs) -> Accs:
        closed: Accs = []
        shares = zip(self._shares(totals, totals=True), self._shares(accs), strict=True)
        for (reducer, e), (before, block) in zip(self.folds, shares, strict=True):
            closed += reducer.close(e, before, block)
        return closed

    def _shares(self, values: Accs, totals: bool = False) -> list[Accs]:
        """The accumulators (or totals) of each reduction, out of those of all."""
        shares, left = [], list(values)
        for reducer, e in self.folds:
            kinds = reducer.totals(e.dtype) if totals else reducer.accumulators(e.dtype)
            shares.append(left[: len(kinds)])
            left = left[len(kinds) :]
        return shares
