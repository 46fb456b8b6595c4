"""Columns kernels: folds over leading dims, sixteen columns side by side; see templates.py."""

from __future__ import annotations

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
        self._keep(0)
        for number, (reduces, stores) in enumerate(self.passes):
            self._pass(reduces, stores)
            self._keep(number + 1)
        for value, stream, full, _ in self.outputs:
            if not full:
                self._put(stream, self.wide(self.kept[value]), None)
        self.kept = outer

    def _keep(self, stage: int) -> None:
        for i, instr in enumerate(self.instrs):
            if instr.full or self.stage[i] != stage or i in self.kept or instr.what == "reduce":
                continue
            operands = [self.kept[o] for o in instr.operands if o >= 0]
            self.kept[i] = self._value(instr, operands, None)

    def _pass(self, reduces: list[int], stores: list[Store]) -> None:
        folds = Folds(self.b, self.reductions_of(reduces), COLUMN)

        def step(row: Value, accs: Accs) -> Accs:
            known: dict[int, Value] = {}

            def value(i: int) -> Value:
                return self.wide(self._full(i, row, known))

            accs = folds.step(accs, self.folded_values(reduces, value), self.b.splat(row))
            for store in stores:
                self._put(store.stream, value(store.value), row)
            return accs

        carried = folds.run(self.b.const("i64", 0), self.middle, 1, step)
        self.keep_folds(reduces, folds.results(carried, across_lanes=False))

    def _full(self, i: int, row: Value, known: dict[int, Value]) -> Value:
        found = known.get(i)
        if found is None:
            found = self.kept.get(i)
        if found is None:
            operands = [self._full(o, row, known) for o in self.instrs[i].operands if o >= 0]
            found = known[i] = self._value(self.instrs[i], operands, row)
        return found

    def _value(self, instr: Instr, operands: list[Value], row: Value | None) -> Value:
        """An instruction's value in sixteen columns, at a row (or for all rows alike)."""
        if instr.what == "load":
            base = self._base(instr.payload, row)
            return self.load(instr.payload, base, self.at, self.mask)
        if instr.what == "position":
            return self.positions(instr.payload, self._base(instr.payload, row), self.at)
        if instr.what == "gather":
            base = self._base(instr.payload[0], row)
            return self.gather(instr, operands[0], base, self.at, self.mask)
        return self.compute(instr, operands)

    def _put(self, stream: int, value: Value, row: Value | None) -> None:
        self.store(stream, value, self._base(stream, row), self.at, self.mask)

    def _base(self, stream: int, row: Value | None) -> Value:
        base = self.rows[stream]
        if row is None:
            return base
        return self.move(base, self.b.mul(row, self.middle_steps[stream]))


def generate_columns(b: Builder, *described: Any) -> None:
    """Writes a columns kernel with these streams, instructions and stores."""
    Columns(b, *described).emit()
