"""Folding: the loops of reduction kernels, in blocks that keep sums accurate.

    for each block of 4 or 8 rounds           whatever the length of the fold
        for each round                        sixteen lanes, one value each
        if it is full                         what it came to is added to a total of twice the
                                              precision, and sums start from 0 again

So no value takes part in more than a few roundings, in an order that is fixed by the length alone.
A fold of less than a block has no totals: many rows are short. A loop that folds nothing in blocks
(a maximum) is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from livegrad.compiler.builder import LANES, Builder, Value
from livegrad.compiler.emitter import Emitter
from livegrad.compiler.reducers import Accs, Reducer

# Rounds of a block; of one in a long row, where memory is slower and accuracy costs nothing; and of
# such a row. The bound in "The same bits" of docs/design.md follows: 8 roundings in a
# block, and 4 when the lanes of a row are merged.
BLOCK, LONG_ROW_BLOCK, LONG_ROW = 8, 4, 256

# What a round does, given its counter and accumulators: the accumulators after it.
Round = Callable[[Value, Accs], Accs]
Fold = tuple[Reducer, Emitter]


class State(NamedTuple):
    """What a loop has folded: the block it was in, and those before it if there are `several`."""

    accs: Accs
    totals: Accs
    several: Value | None


class Folds:
    """The reductions of one loop, side by side: each a reducer and the emitter of its values."""

    def __init__(self, b: Builder, folds: Sequence[Fold]) -> None:
        self.b = b
        self.folds = folds
        blocks = [(reducer.of_blocks(e.dtype), e) for reducer, e in folds]
        self._blocks = [(reducer, e) for reducer, e in blocks if reducer is not None]
        self._in_blocks = [reducer is not None for reducer, _ in blocks]

    def step(
        self, accs: Accs, values: Sequence[Value], index: Value, mask: Value | None = None
    ) -> Accs:
        """The accumulators after one more value per lane, of each reduction."""
        stepped: Accs = []
        for (reducer, e), mine, value in zip(
            self.folds, _shares(self.folds, accs), values, strict=True
        ):
            stepped += reducer.step(e, mine, value, index, mask)
        return stepped

    def run(self, low: Value, high: Value, step: int, block: Value, body: Round) -> State:
        """The rounds from `low` up to `high`, in steps; a `block` is full after so many steps."""
        if not self._blocks:
            return State(self._rounds(low, high, step, _start(self.folds), body), [], None)
        b, totals = self.b, _start(self._blocks)
        with b.loop(low, high, block, [*totals, *_start(self.folds)]) as blocks:
            end = b.add(blocks.index, block)
            accs = blocks.carried[len(totals) :]
            accs = self._rounds(blocks.index, b.smin(end, high), step, accs, body)
            carried = [*blocks.carried[: len(totals)], *accs]
            full = b.icmp("sle", end, high)
            blocks.update(b.either(full, lambda: self._next_block(carried), lambda: carried))
        several = b.icmp("sge", b.sub(high, low), block)
        return State(blocks.results[len(totals) :], blocks.results[: len(totals)], several)

    def run_rest(self, state: State, low: Value, high: Value, step: int, body: Round) -> State:
        """The round at `low` too, as one of the block the loop was in, if that is below `high`.

        Then all lanes are merged; those of totals before the round, which needs the registers.
        """
        totals: Accs = []
        if state.several is not None:
            totals = self.b.either(
                state.several,
                lambda: _merged(self._blocks, state.totals),
                lambda: _start(self._blocks, lanes=0),
            )
        accs = self._rounds(low, high, step, state.accs, body)
        return State(_merged(self.folds, accs), totals, state.several)

    def results(self, state: State) -> list[Value]:
        """What the reductions came to."""

        def of_one_block() -> list[Value]:
            return _results(self.folds, state.accs)

        def of_several() -> list[Value]:
            wide = iter(_results(self._blocks, self._close(state.totals, state.accs)))
            plain = zip(of_one_block(), self._in_blocks, strict=True)
            return [next(wide) if blocks else value for value, blocks in plain]

        if state.several is None:
            return of_one_block()
        return self.b.either(state.several, of_several, of_one_block)

    def _rounds(self, low: Value, high: Value, step: int, accs: Accs, body: Round) -> Accs:
        with self.b.loop(low, high, step, accs) as rounds:
            rounds.update(body(rounds.index, rounds.carried))
        return rounds.results

    def _next_block(self, carried: Accs) -> Accs:
        """Totals with the last block, and the accumulators of the next one."""
        count = len(carried) - len(_start(self.folds))
        totals, accs = carried[:count], carried[count:]
        opened: Accs = []
        for fold, mine, blocks in zip(
            self.folds, _shares(self.folds, accs), self._in_blocks, strict=True
        ):
            opened += _start([fold]) if blocks else mine
        return [*self._close(totals, accs), *opened]

    def _close(self, totals: Accs, accs: Accs) -> Accs:
        """The totals after a block."""
        shares = zip(_shares(self.folds, accs), self._in_blocks, strict=True)
        blocks = [mine for mine, in_blocks in shares if in_blocks]
        closed: Accs = []
        for (reducer, e), before, (block,) in zip(
            self._blocks, _shares(self._blocks, totals), blocks, strict=True
        ):
            closed += reducer.merge(e, before, reducer.enter(e, block, None))
        return closed


def _start(folds: Sequence[Fold], lanes: int = LANES) -> Accs:
    """The accumulators of all of them before the first round."""
    return [x for reducer, e in folds for x in reducer.start(e, lanes)]


def _merged(folds: Sequence[Fold], accs: Accs) -> Accs:
    """The accumulators of all of them with their lanes merged."""
    shares = zip(folds, _shares(folds, accs), strict=True)
    return [x for (reducer, e), mine in shares for x in reducer.fold_lanes(e, mine)]


def _results(folds: Sequence[Fold], accs: Accs) -> list[Value]:
    shares = zip(folds, _shares(folds, accs), strict=True)
    return [reducer.result(e, mine) for (reducer, e), mine in shares]


def _shares(folds: Sequence[Fold], accs: Accs) -> list[Accs]:
    """The accumulators of each, out of those of all."""
    shares, left = [], list(accs)
    for reducer, e in folds:
        count = len(reducer.accumulators(e.dtype))
        shares.append(left[:count])
        left = left[count:]
    return shares
