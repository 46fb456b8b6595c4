"""Columns kernels: folds over leading dims, sixteen columns side by side; see templates.py."""

from __future__ import annotations

from typing import Any

from livegrad.compiler.builder import LANES, Value
from livegrad.compiler.emitter import memory_element
from livegrad.compiler.folding import COLUMN, Folds
from livegrad.compiler.reducers import Accs
from livegrad.compiler.signature import Instr, Store
from livegrad.compiler.templates import Template, passes


class Columns(Template):
    """Folds over leading dims: sixteen columns side by side, the middle loop is folded."""

    def emit(self) -> str:
        """The kernel's IR."""
        b = self.b
        self.read_header()
        self.plan = passes(self)
        with b.loop(self.begin, self.end) as item:
            outer = b.udiv(item.index, self.inner_blocks)
            block = b.urem(item.index, self.inner_blocks)
            self.rows = self.outer_bases(outer)
            low = b.mul(block, self.inner_block)
            high = b.smin(b.add(low, self.inner_block), self.inner)
            whole = b.add(low, b.and_(b.sub(high, low), -LANES))
            with b.loop(low, whole, LANES) as main:
                self._chunk(main.index, None)
            with b.loop(whole, high, LANES) as tail:
                self._chunk(tail.index, b.lane_mask(b.sub(high, tail.index)))
        return b.ir()

    def _chunk(self, at: Value, mask: Value | None) -> None:
        """Sixteen columns from top to bottom."""
        outer = dict(self.kept)
        self.at, self.mask = at, mask
        self.active = mask
        self._keep(0)
        for number, (reduces, stores) in enumerate(self.plan):
            self._pass(reduces, stores)
            self._keep(number + 1)
        for value, stream, full, _ in self.outputs:
            if not full:
                self._store(stream, self.wide(self.kept[value]), None)
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
                self._store(store.stream, value(store.value), row)
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
            return self._load(instr.payload, row, None)
        if instr.what == "position":
            return self._position(instr.payload, row)
        if instr.what == "gather":
            return self._gather(instr, operands[0], row)
        return self.compute(instr, operands)

    def _base(self, stream: int, row: Value | None) -> Value:
        base = self.rows[stream]
        if row is None:
            return base
        return self.move(base, self.b.mul(row, self.middle_steps[stream]))

    def _load(self, stream: int, row: Value | None, base: Value | None) -> Value:
        b = self.b
        dtype, step = self.streams[stream].dtype, self.streams[stream].step
        base = self._base(stream, row) if base is None else base
        e = self.e(dtype)
        if step == 1:
            return e.load(dtype, b.gep(base, memory_element(dtype), self.at), self.mask)
        if step == 0:
            return e.load_scalar(dtype, base)
        return e.gather(dtype, base, self._strided(stream), self.mask)

    def _strided(self, stream: int) -> Value:
        b = self.b
        step = b.sdiv(self.steps[stream], self.streams[stream].dtype.itemsize)
        return b.mul(b.add(b.splat(self.at), b.iota()), b.splat(step))

    def _position(self, stream: int, row: Value | None) -> Value:
        b = self.b
        lanes = b.mul(b.add(b.splat(self.at), b.iota()), b.splat(self.steps[stream]))
        return b.add(b.splat(self._base(stream, row)), lanes)

    def _gather(self, instr: Instr, where: Value, row: Value | None) -> Value:
        b = self.b
        stream, slot = instr.payload
        good = self.position_ok(instr, b.sext(where, "i64"), self.mask)
        distance = self.gather_arg(slot, 0)
        base = self._base(stream, row)
        if good.type == "i64":
            return self._load(stream, row, self.move(base, b.mul(good, distance)))
        place = b.mul(good, b.splat(b.sdiv(distance, instr.dtype.itemsize)))
        if self.streams[stream].step:
            place = b.add(place, self._strided(stream))
        return self.e(instr.dtype).gather(instr.dtype, base, place, self.mask)

    def _store(self, stream: int, value: Value, row: Value | None) -> None:
        dtype, step = self.streams[stream].dtype, self.streams[stream].step
        e, base = self.e(dtype), self._base(stream, row)
        if step == 1:
            e.store(dtype, value, self.b.gep(base, memory_element(dtype), self.at), self.mask)
        else:
            e.scatter(dtype, value, base, self._strided(stream), self.mask)


def generate_columns(name: str, *described: Any) -> str:
    """The IR of a columns kernel with these streams, instructions and stores."""
    return Columns(name, *described).emit()
