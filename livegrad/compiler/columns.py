"""Columns kernels: folds over leading dims, sixteen columns side by side; see templates.py."""

from __future__ import annotations

from functools import partial
from typing import Any

from livegrad.compiler.builder import Builder
from livegrad.compiler.folding import COLUMN, Folds
from livegrad.compiler.reducers import Accs
from livegrad.compiler.signature import Instr, Store
from livegrad.compiler.templates import Template
from livegrad.compiler.values import Value


class Columns(Template):
    """Folds over leading dims: sixteen columns side by side, the middle loop is folded."""

    def emit(self) -> None:
        """Writes the kernel."""
        b = self.b
        self.read_header()
        with b.loop(self.begin, self.end) as item:
            outer = b.udiv(item.index, self.inner_blocks)
            block = b.urem(item.index, self.inner_blocks)
            self.rows = self.outer_bases(outer)
            low = b.mul(block, self.inner_block)
            high = b.smin(b.add(low, self.inner_block), self.inner)
            whole = b.add(low, b.and_(b.sub(high, low), -b.lanes))
            with b.loop(low, whole, b.lanes) as main:
                self._chunk(main.index, None)
            with b.loop(whole, high, b.lanes) as tail:
                self._chunk(tail.index, b.lane_mask(b.sub(high, tail.index)))

    def _chunk(self, at: Value, mask: Value | None) -> None:
        """Sixteen columns from top to bottom."""
        outer = dict(self.kept)
        self.at, self.mask = at, mask
        self.active = mask
        self.keep(0)
        for number, (reduces, stores) in enumerate(self.passes):
            self._pass(reduces, stores)
            self.keep(number + 1)
        for value, stream, full, _ in self.outputs:
            if not full:
                wide = self.wide(self.kept[value])
                self.store(stream, wide, self.rows[stream], self.at, self.mask)
        self.kept = outer

    def kept_value(self, instr: Instr) -> Value:
        """The value in sixteen columns, for all rows alike."""
        operands = self.kept_operands(instr)
        return self.elements(instr, operands, self.rows.__getitem__, self.at, self.mask)

    def _pass(self, reduces: list[int], stores: list[Store]) -> None:
        folds = Folds(self.b, self.reductions_of(reduces), COLUMN)

        def step(row: Value, accs: Accs) -> Accs:
            known: dict[int, Value] = {}

            def value(i: int) -> Value:
                return self.wide(self._full(i, row, known))

            accs = folds.step(accs, self.folded_values(reduces, value), self.b.splat(row))
            for store in stores:
                stored = value(store.value)
                base = self._base(row, store.stream)
                self.store(store.stream, stored, base, self.at, self.mask)
            return accs

        carried = folds.run(self.b.const("i64", 0), self.middle, 1, step)
        self.keep_folds(reduces, folds.results(carried, across_lanes=False))

    def _full(self, i: int, row: Value, known: dict[int, Value]) -> Value:
        found = known.get(i) or self.kept.get(i)
        if found is None:
            operands = [self._full(o, row, known) for o in self.instrs[i].operands if o >= 0]
            base = partial(self._base, row)
            found = self.elements(self.instrs[i], operands, base, self.at, self.mask)
            known[i] = found
        return found

    def _base(self, row: Value, stream: int) -> Value:
        return self.move(self.rows[stream], self.b.mul(row, self.middle_steps[stream]))


def generate_columns(b: Builder, *described: Any) -> None:
    """Writes a columns kernel with these streams, instructions and stores."""
    Columns(b, *described).emit()
