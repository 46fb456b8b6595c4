"""Folding: the loops of reduction kernels, in blocks that keep sums accurate.

    for each block of 16 rounds, or 9 in a column         whatever the length of the fold
        two sums start from 0, or one in a column
        for each round                                    sixteen lanes, one value each
        what it came to is added to a total of twice the precision

So no value takes part in more than a few roundings, in an order that is fixed by the length alone.
Many rows are short: those of 9 rounds have loops of their own, with one sum and no total. A loop
that folds nothing in blocks (a maximum) is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import chain, islice
from typing import NamedTuple

from livegrad.compiler.builder import Builder
from livegrad.compiler.emitter import Emitter
from livegrad.compiler.reducers import Accs, Reducer
from livegrad.compiler.values import Value

# The roundings that a value takes part in within a block. The bound in "The same bits" of
# docs/design.md follows: these, and 4 when the lanes of a row are merged.
BLOCK = 8

# What a round does, given its counter and accumulators: the accumulators after it.
Round = Callable[[Value, Accs], Accs]
# A reducer, and the emitter of the values it folds.
Reduction = tuple[Reducer, Emitter]


class Way(NamedTuple):
    """How sums are made: in so many chains, which do not wait for each other, and if in blocks.

    So many lanes, or all, are left of what a block came to when it goes on in twice the precision.
    """

    chains: int
    lanes: int | None
    blocks: bool

    @property
    def rounds(self) -> int:
        """The rounds of a block: adding the first value to 0 is no rounding, merging chains is."""
        return self.chains * (BLOCK + 1 - (self.chains - 1))


# Columns have one chain: where signs alternate, two would each see the same ones. In rows lanes do.
# Of a row's lanes as few are left as roundings allow: a total of four takes one register of many
# hosts, and what a short row comes to is converted in any case.
SHORT_ROW, LONG_ROW, COLUMN = Way(1, 2, False), Way(2, 4, True), Way(1, None, True)


class Fold:
    """One reduction: its reducer, the emitter of its values, and how it is made.

    Its accumulators are `carried` from block to block; a block has some of its own if there are
    several, and what it comes to is added to a total.
    """

    def __init__(self, reducer: Reducer, e: Emitter, way: Way) -> None:
        blocks = reducer.of_blocks(e.dtype)
        self.reducer = reducer
        self.e = e
        self.chains = way.chains if blocks else 1
        self.lanes = way.lanes
        self.carries_total = way.blocks and blocks is not None
        self.total = blocks if way.blocks or reducer.ends_wide(e.dtype) else None

    def start(self) -> Accs:
        """What is carried before the first block."""
        if self.total and self.carries_total:
            return self.total.start(self.e, self.lanes)
        return self.start_block()

    def start_block(self) -> Accs:
        """The accumulators of a block before its first round."""
        return self.reducer.start(self.e) * self.chains

    def open(self, carried: Accs) -> Accs:
        """The accumulators of the next block."""
        return self.start_block() if self.carries_total else carried

    def step(self, accs: Accs, value: Value, index: Value, mask: Value | None) -> Accs:
        """The accumulators after one more value per lane: that of the chain whose turn it is."""
        turn, *others = self._apart(accs)
        return [*chain(*others), *self.reducer.step(self.e, turn, value, index, mask)]

    def close(self, carried: Accs, accs: Accs) -> Accs:
        """What is carried after a block."""
        if self.total and self.carries_total:
            return self.total.merge(self.e, carried, self._entered(self.total, accs))
        return accs

    def result(self, carried: Accs, across_lanes: bool) -> Value:
        """What it came to; `across_lanes` merges them into one."""
        if self.carries_total:
            accs = carried
        else:
            accs = self._entered(self.total, carried) if self.total else self._together(carried)
        reducer = self.total or self.reducer
        return reducer.result(self.e, reducer.fold_lanes(self.e, accs) if across_lanes else accs)

    def _entered(self, total: Reducer, accs: Accs) -> Accs:
        """What the accumulators of a block come to, as the total has it."""
        (block,) = together = self._together(accs)
        if self.lanes is not None:
            (block,) = self.reducer.fold_lanes(self.e, together, self.lanes)
        return total.enter(self.e, block, None)

    def _apart(self, accs: Accs) -> list[Accs]:
        return split(accs, [len(accs) // self.chains] * self.chains)

    def _together(self, accs: Accs) -> Accs:
        return reduce(partial(self.reducer.merge, self.e), self._apart(accs))


class Folds:
    """The reductions of one loop, side by side."""

    def __init__(self, b: Builder, reductions: Sequence[Reduction], way: Way) -> None:
        self.b = b
        self.folds = [Fold(reducer, e, way) for reducer, e in reductions]
        self._rounds_of_block = way.rounds

    def step(
        self, accs: Accs, values: Sequence[Value], index: Value, mask: Value | None = None
    ) -> Accs:
        """The accumulators after one more value per lane, of each reduction."""
        shares = zip(self.folds, self._of_block(accs), values, strict=True)
        return [x for fold, mine, value in shares for x in fold.step(mine, value, index, mask)]

    def run(self, low: Value, high: Value, step: int, body: Round) -> Accs:
        """The rounds from `low` up to `high`, in steps: what is carried after them."""
        b, start = self.b, [x for fold in self.folds for x in fold.start()]
        if not any([fold.total for fold in self.folds]):
            return self._rounds(low, high, step, start, body)
        block = self._rounds_of_block * step
        with b.loop(low, high, block, start) as blocks:
            end = b.smin(b.add(blocks.index, block), high)
            accs = self._rounds(blocks.index, end, step, self._open(blocks.carried), body)
            blocks.update(self._close(blocks.carried, accs))
        return blocks.results

    def run_rest(self, carried: Accs, low: Value, high: Value, body: Round) -> Accs:
        """The round at `low` too, as a block of its own, if that is below `high`."""

        def block() -> Accs:
            return self._close(carried, body(low, self._open(carried)))

        return self.b.either(self.b.icmp("slt", low, high), block, lambda: carried)

    def results(self, carried: Accs, across_lanes: bool) -> list[Value]:
        """What the reductions came to."""
        shares = zip(self.folds, self._carried(carried), strict=True)
        return [fold.result(mine, across_lanes) for fold, mine in shares]

    def _rounds(self, low: Value, high: Value, step: int, accs: Accs, body: Round) -> Accs:
        with self.b.loop(low, high, step, accs) as rounds:
            rounds.update(body(rounds.index, rounds.carried))
        return rounds.results

    def _open(self, carried: Accs) -> Accs:
        shares = zip(self.folds, self._carried(carried), strict=True)
        return [x for fold, mine in shares for x in fold.open(mine)]

    def _close(self, carried: Accs, accs: Accs) -> Accs:
        shares = zip(self.folds, self._carried(carried), self._of_block(accs), strict=True)
        return [x for fold, mine, block in shares for x in fold.close(mine, block)]

    def _carried(self, accs: Accs) -> list[Accs]:
        return split(accs, [len(fold.start()) for fold in self.folds])

    def _of_block(self, accs: Accs) -> list[Accs]:
        return split(accs, [len(fold.start_block()) for fold in self.folds])


def split(values: Accs, counts: Sequence[int]) -> list[Accs]:
    """The first so many, the next so many, and so on."""
    rest = iter(values)
    return [list(islice(rest, count)) for count in counts]
