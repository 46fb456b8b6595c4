"""Code generation: rows and columns kernels from their signatures.

Argument block (int64 slots), see runtime/cpu/driver.py for the calling convention:

    0 work items    1 rank of the outer loops    2 inner size    3 middle size
    4 inner block   5 inner blocks               6 middle block  7 middle blocks
    8 scratch bytes per spilled row              9 rows
    10 … sizes of the outer loops, innermost last
    then per stream: address, bytes per inner step, per middle step, per step of each outer loop
    then numbers (bits), then per gather: bytes per step of its dim, size of its dim

A work item is one block of one row range: (outer counters, middle block, inner block). Rows kernels
vectorise the inner loop and fold over it; columns kernels vectorise the inner loop and fold over
the middle one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from livegrad import dtypes
from livegrad.compiler.builder import LANES, Builder, Value
from livegrad.compiler.emitter import Emitter, memory_element
from livegrad.compiler.folding import COLUMN, LONG_ROW, SHORT_ROW, Folds, Reduction, Way
from livegrad.compiler.reducers import REDUCERS, Accs
from livegrad.compiler.signature import Instr, Store, Stream
from livegrad.dtypes import DType
from livegrad.graph.op import REGISTRY, Op

HEADER = 10
RECORD = 3  # slots of a stream's record before its outer strides

PARAMS = (("ptr", "args"), ("i64", "begin"), ("i64", "end"), ("ptr", "ctx"))


class Template:
    """What rows and columns kernels have in common: addressing, stages, evaluation."""

    def __init__(
        self,
        name: str,
        streams: tuple[Stream, ...],
        instrs: tuple[Instr, ...],
        outputs: tuple[Store, ...],
    ) -> None:
        self.b = Builder(name, list(PARAMS))
        self.args, self.begin, self.end, self.ctx = self.b.params
        self.streams = streams
        self.instrs = instrs
        self.outputs = outputs
        self.stage = _stages(instrs)
        self.kept: dict[int, Value] = {}  # values that do not change along the folded loop
        self.emitters: dict[DType, Emitter] = {}
        self.active: Value | None = None  # the lanes that hold elements, if not all do
        self.current: Instr | None = None  # what is being computed, to be named by its faults

    def e(self, dtype: DType) -> Emitter:
        """The emitter that computes in `dtype`."""
        found = self.emitters.get(dtype)
        if found is None:
            found = self.emitters[dtype] = Emitter(self.b, dtype)
            found.on_fault = self.report_fault
        return found

    # --------------------------------------------------------------------------- arguments

    def arg(self, slot: int | Value) -> Value:
        """An int64 of the argument block."""
        return self.b.load_scalar("i64", self.b.gep(self.args, "i64", slot))

    def read_header(self) -> None:
        """Loads the header and works out where the records lie."""
        b = self.b
        self.rank, self.inner, self.middle = self.arg(1), self.arg(2), self.arg(3)
        self.inner_block, self.inner_blocks = self.arg(4), self.arg(5)
        self.middle_block, self.middle_blocks = self.arg(6), self.arg(7)
        self.record = b.add(self.rank, RECORD)
        self.records = b.add(self.rank, HEADER)
        numbers = b.add(self.records, b.mul(self.record, len(self.streams)))
        self.numbers = numbers
        self.bases = [self._record(k, 0, "ptr") for k in range(len(self.streams))]
        self.steps = [self._record(k, 1, "i64") for k in range(len(self.streams))]
        self.middle_steps = [self._record(k, 2, "i64") for k in range(len(self.streams))]
        for i, instr in enumerate(self.instrs):
            if instr.what == "number":
                self.kept[i] = self._load_number(*instr.payload)
            elif instr.fixed:
                self.kept[i] = self._fixed_value(instr)

    def _fixed_value(self, instr: Instr) -> Value:
        """A value that is the same for all work items."""
        if instr.what == "load":
            return self.e(instr.dtype).load_scalar(instr.dtype, self.bases[instr.payload])
        return self.compute(instr, [self.kept[i] for i in instr.operands if i >= 0])

    def _record(self, stream: int, field: int, type: str) -> Value:
        b = self.b
        slot = b.add(self.records, b.add(b.mul(self.record, stream), field))
        if type == "ptr" and self.streams[stream].kind == "position":
            type = "i64"
        return b.load_scalar(type, b.gep(self.args, "i64", slot))

    def _load_number(self, slot: int, kind: str) -> Value:
        b = self.b
        place = b.gep(self.args, "i64", b.add(self.numbers, slot))
        return b.load_scalar("double" if kind == "f" else "i64", place)

    def gather_arg(self, slot: int, field: int) -> Value:
        """Bytes per step (field 0) or size (field 1) of a gathered dim."""
        numbers = 1 + max([i.payload[0] for i in self.instrs if i.what == "number"], default=-1)
        return self.arg(self.b.add(self.numbers, numbers + 2 * slot + field))

    # -------------------------------------------------------------------------- addressing

    def move(self, base: Value, distance: Value) -> Value:
        """An address (or position) moved by a distance in bytes (or elements)."""
        if base.type == "ptr":
            return self.b.gep(base, "i8", distance)
        return self.b.add(base, distance)

    def outer_bases(self, outer: Value) -> list[Value]:
        """Stream addresses at outer counter `outer`, taken apart into the outer loops' counters."""
        b = self.b
        with b.loop(0, self.rank, 1, [outer, *self.bases]) as loop:
            rest, *bases = loop.carried
            d = b.sub(b.sub(self.rank, 1), loop.index)
            size = self.arg(b.add(d, HEADER))
            counter = b.urem(rest, size)
            moved = []
            for k, base in enumerate(bases):
                slot = b.add(b.add(self.records, b.mul(self.record, k)), b.add(d, RECORD))
                moved.append(self.move(base, b.mul(counter, self.arg(slot))))
            loop.update(b.udiv(rest, size), *moved)
        return list(loop.results[1:])

    # -------------------------------------------------------------------------- evaluation

    def compute(self, instr: Instr, operands: list[Value]) -> Value:
        """The value of an op or generate instruction."""
        op = REGISTRY[instr.payload[0] if instr.what == "op" else instr.payload]
        assert op.emit is not None
        if instr.what == "generate":
            return self._generated(op, instr, operands)
        compute = instr.payload[1]
        self.current = instr
        e = self.e(compute)
        values = []
        for position, (x, i) in enumerate(zip(operands, instr.operands, strict=True)):
            source = self.instrs[i]
            # A number keeps the precision that half precisions are computed in.
            target = compute.compute if source.what == "number" else compute
            values.append(e.convert(x, source.dtype, target) if op.converts(position) else x)
        result = op.emit(e, *values)
        made = dtypes.bool_ if op.result == "bool" else compute
        # Half precisions are computed in float32: rounded here, whether stored or not.
        return e.round_to(e.convert(result, made, instr.dtype), instr.dtype)

    def _generated(self, op: Op, instr: Instr, operands: list[Value]) -> Value:
        """A value made from numbers and, unless it is the same everywhere, the position."""
        e = self.e(instr.dtype)
        position = operands.pop(0) if instr.operands[0] >= 0 else None
        kinds = [self.instrs[i].dtype for i in instr.operands[1:]]
        # Integers that go with a position (seeds, offsets) keep their 64 bits.
        numbers = [
            x if position is not None and k is dtypes.int64 else e.convert(x, k, instr.dtype)
            for x, k in zip(operands, kinds, strict=True)
        ]
        assert op.emit is not None
        value: Value = op.emit(e, position, *numbers)
        return e.round_to(value, instr.dtype)

    def wide(self, value: Value) -> Value:
        """Sixteen lanes of a value that may be one for all."""
        return value if value.type.startswith("<") else self.b.splat(value)

    # ------------------------------------------------------------------------------- folding

    def reductions_of(self, reduces: list[int]) -> list[Reduction]:
        """The reductions of a pass: their reducers, with the emitters of their values."""
        instrs = [self.instrs[i] for i in reduces]
        emitters = [self.e(self.instrs[instr.operands[0]].dtype) for instr in instrs]
        reducers = [REDUCERS[instr.payload] for instr in instrs]
        return list(zip(reducers, emitters, strict=True))

    def folded_values(self, reduces: list[int], value: Callable[[int], Value]) -> list[Value]:
        """What the reductions of a pass fold in one round; `value` gives that of an instruction."""
        return [value(self.instrs[i].operands[0]) for i in reduces]

    def keep_folds(self, reduces: list[int], values: list[Value]) -> None:
        """Keeps what the reductions of a pass came to."""
        for i, (reducer, e), value in zip(
            reduces, self.reductions_of(reduces), values, strict=True
        ):
            self.kept[i] = e.convert(value, reducer.output(e.dtype), self.instrs[i].dtype)

    def _position_ok(self, instr: Instr, where: Value, mask: Value | None) -> Value:
        """Where a gather reads, if that is inside its dim, else 0 with a fault reported."""
        b = self.b
        size = self.gather_arg(instr.payload[1], 1)
        self.current = instr
        vectorised = where.type != "i64"
        limit = b.splat(size) if vectorised else size
        good = b.icmp("ult", where, limit)
        bad = b.not_(good)
        if mask is not None and vectorised:
            bad = b.and_(bad, mask)
        self.report_fault(bad, where)
        return b.select(good, where, b.const(where.type, 0))

    def report_fault(self, bad: Value, value: Value | None = None) -> None:
        """If any of `bad`, notes whose fault it is and one of the integers that caused it."""
        b = self.b
        assert self.current is not None
        code = 1 + self.instrs.index(self.current)
        vectorised = bad.type.startswith("<")
        if vectorised and self.active is not None:
            bad = b.and_(bad, self.active)
        with b.if_(b.any_lane(bad) if vectorised else bad):
            b.store_scalar(b.const("i64", code), self.ctx)
            if value is None:
                return
            wide = b.sext(value, "i64")
            if vectorised:
                wide = b.reduce_lanes(b.select(bad, wide, b.const(wide.type, -(1 << 63))), b.smax)
            b.store_scalar(wide, b.gep(self.ctx, "i64", 1))


def _stages(instrs: tuple[Instr, ...]) -> list[int]:
    """The pass of the folded loop in which each value is available."""
    stage: list[int] = []
    for instr in instrs:
        ready = max([stage[i] for i in instr.operands if i >= 0], default=0)
        stage.append(ready + 1 if instr.what == "reduce" else ready)
    return stage


def passes(template: Template) -> list[tuple[list[int], list[Store]]]:
    """Per pass over the folded loop: the reductions done and the full outputs stored in it."""
    instrs, stage = template.instrs, template.stage
    reduces = [i for i, x in enumerate(instrs) if x.what == "reduce"]
    stores = [store for store in template.outputs if store.full]
    last = max([stage[i] - 1 for i in reduces] + [stage[s.value] for s in stores], default=-1)
    return [
        (
            [i for i in reduces if stage[i] - 1 == p],
            [store for store in stores if stage[store.value] == p],
        )
        for p in range(last + 1)
    ]


class Span:
    """The elements of a row from `low` up to `high`: sixteens up to `whole`, the rest by a mask."""

    def __init__(self, b: Builder, low: Value, high: Value) -> None:
        self.low, self.high = low, high
        self.whole = b.add(low, b.and_(b.sub(high, low), -LANES))
        self.mask = b.lane_mask(b.sub(high, self.whole))
        self.short = b.icmp("sle", b.sub(high, low), SHORT_ROW.rounds * LANES)


class Rows(Template):
    """Elementwise loops and folds along rows: the inner loop is vectorised and folded."""

    def emit(self) -> str:
        """The kernel's IR."""
        b = self.b
        self.read_header()
        self.plan = passes(self)
        self.spills = self._choose_spills()
        if self.spills:
            self.scratch = b.load_scalar("ptr", b.gep(self.ctx, "i64", 3))
            self.scratch_row = self.arg(8)
        if any(instr.tail for instr in self.instrs):
            with b.if_(b.icmp("slt", self.begin, 0)):
                self._tail()
        with b.loop(self.begin, self.end) as item:
            rest, inner_at = (
                b.udiv(item.index, self.inner_blocks),
                b.urem(item.index, self.inner_blocks),
            )
            outer, middle_at = b.udiv(rest, self.middle_blocks), b.urem(rest, self.middle_blocks)
            bases = self.outer_bases(outer)
            low = b.mul(inner_at, self.inner_block)
            high = b.smin(b.add(low, self.inner_block), self.inner)
            self.span = Span(b, low, high)
            first = b.mul(middle_at, self.middle_block)
            last = b.smin(b.add(first, self.middle_block), self.middle)
            with b.loop(first, last) as row:
                self._row(bases, row.index)
        return b.ir()

    def _row(self, bases: list[Value], row: Value) -> None:
        b = self.b
        self.rows = [
            self.move(base, b.mul(row, step))
            for base, step in zip(bases, self.middle_steps, strict=True)
        ]
        outer = dict(self.kept)
        self._keep(0)
        for number, (reduces, stores) in enumerate(self.plan):
            self._pass(number, reduces, stores)
            self._keep(number + 1)
        self._store_row(tail=False)
        self.kept = outer

    def _store_row(self, tail: bool) -> None:
        for value, stream, full, in_tail in self.outputs:
            if not full and in_tail == tail:
                dtype = self.streams[stream].dtype
                self.e(dtype).store_scalar(dtype, self.kept[value], self.rows[stream])

    def _tail(self) -> None:
        """When all rows are done: folds what they gave, in the order a kernel of its own would."""
        outer = dict(self.kept)
        self.rows = self.bases
        for i, instr in enumerate(self.instrs):
            if not instr.tail or i in self.kept:
                continue
            if instr.what == "fold":
                self.kept[i] = self._fold(instr)
            else:
                self.kept[i] = self._row_value(instr)
        self._store_row(tail=True)
        self.kept = outer

    def _fold(self, instr: Instr) -> Value:
        b = self.b
        combine, stream = instr.payload
        dtype = self.streams[stream].dtype
        reducer, e = REDUCERS[combine], self.e(dtype)

        def step(folds: Folds, at: Value, mask: Value | None, accs: Accs) -> Accs:
            place = b.gep(self.bases[stream], memory_element(dtype), at)
            return folds.step(accs, [e.load(dtype, place, mask)], self._lane_index(at), mask)

        span = Span(b, b.const("i64", 0), self.arg(9))
        (value,) = self._fold_row([(reducer, e)], span, step)
        return e.convert(value, reducer.output(dtype), instr.dtype)

    def _fold_row(
        self, reductions: list[Reduction], span: Span, step: Callable[..., Accs]
    ) -> list[Value]:
        """Folds a row: sixteen elements per round, the last ones under a mask."""

        def folded(way: Way) -> list[Value]:
            folds = Folds(self.b, reductions, way)
            whole, high = span.whole, span.high
            each, last = partial(step, folds, mask=None), partial(step, folds, mask=span.mask)
            carried = folds.run(span.low, whole, LANES, lambda at, accs: each(at, accs=accs))
            carried = folds.run_rest(
                carried, whole, high, LANES, lambda at, accs: last(at, accs=accs)
            )
            return folds.results(carried, across_lanes=True)

        if not any([reducer.of_blocks(e.dtype) for reducer, e in reductions]):
            return folded(SHORT_ROW)
        return self.b.either(span.short, lambda: folded(SHORT_ROW), lambda: folded(LONG_ROW))

    def _keep(self, stage: int) -> None:
        """Computes the values of a whole row that became available at `stage`."""
        for i, instr in enumerate(self.instrs):
            later = instr.full or instr.tail or instr.what == "reduce"
            if later or self.stage[i] != stage or i in self.kept:
                continue
            self.kept[i] = self._row_value(instr)

    def _row_value(self, instr: Instr) -> Value:
        operands = [self.kept[i] for i in instr.operands if i >= 0]
        if instr.what == "load":
            dtype = instr.dtype
            return self.e(dtype).load_scalar(dtype, self.rows[instr.payload])
        if instr.what == "position":
            counter: Value = self.rows[instr.payload]
            return counter
        if instr.what == "gather":
            stream, slot = instr.payload
            where = self._position_ok(instr, self._index64(operands[0]), None)
            place = self.move(self.rows[stream], self.b.mul(where, self.gather_arg(slot, 0)))
            return self.e(instr.dtype).load_scalar(instr.dtype, place)
        return self.compute(instr, operands)

    def _index64(self, x: Value) -> Value:
        return self.b.sext(x, "i64")

    # ------------------------------------------------------------------ one pass over a row

    def _pass(self, number: int, reduces: list[int], stores: list[Store]) -> None:
        def step(folds: Folds, at: Value, mask: Value | None, accs: Accs) -> Accs:
            return self._body(number, reduces, stores, at, mask, folds, accs)

        reductions = self.reductions_of(reduces)
        self.keep_folds(reduces, self._fold_row(reductions, self.span, step))

    def _body(
        self,
        number: int,
        reduces: list[int],
        stores: list[Store],
        at: Value,
        mask: Value | None,
        folds: Folds,
        carried: Accs,
    ) -> Accs:
        """Sixteen elements of one pass; gives the accumulators of its reductions."""
        known: dict[int, Value] = {}
        self.active = mask

        def value(i: int) -> Value:
            return self.wide(self._full(i, number, at, mask, known))

        values = self.folded_values(reduces, value)
        accs = folds.step(carried, values, self._lane_index(at), mask)
        for store in stores:
            self._store(store.stream, value(store.value), at, mask)
        for i, slot in self.spills.items():
            if self._spilled_in(i) == number and i in known:
                self._spill(slot, i, known[i], at, mask)
        self.active = None
        return accs

    def _lane_index(self, at: Value) -> Value:
        b = self.b
        return b.add(b.splat(at), b.iota())

    def _full(
        self, i: int, number: int, at: Value, mask: Value | None, known: dict[int, Value]
    ) -> Value:
        """The sixteen values of instruction `i` at position `at` of the row."""
        found = known.get(i)
        if found is None:
            found = self.kept.get(i)
        if found is None:
            if i in self.spills and self._spilled_in(i) < number:
                found = self._unspill(self.spills[i], i, at, mask)
            else:
                found = self._compute_full(i, number, at, mask, known)
            known[i] = found
        return found

    def _compute_full(
        self, i: int, number: int, at: Value, mask: Value | None, known: dict[int, Value]
    ) -> Value:
        instr = self.instrs[i]
        if instr.what == "load":
            return self._load(instr.payload, at, mask)
        if instr.what == "position":
            b = self.b
            step = self.steps[instr.payload]
            lanes = b.mul(self._lane_index(at), b.splat(step))
            return b.add(b.splat(self.rows[instr.payload]), lanes)
        operands = [self._full(o, number, at, mask, known) for o in instr.operands if o >= 0]
        if instr.what == "gather":
            return self._gather(instr, operands[0], at, mask)
        return self.wide(self.compute(instr, operands))

    # ------------------------------------------------------------------------------ memory

    def _load(self, stream: int, at: Value, mask: Value | None, base: Value | None = None) -> Value:
        b = self.b
        dtype, step = self.streams[stream].dtype, self.streams[stream].step
        base = self.rows[stream] if base is None else base
        e = self.e(dtype)
        if step == 1:
            return e.load(dtype, b.gep(base, memory_element(dtype), at), mask)
        if step == 0:
            return e.load_scalar(dtype, base)
        return e.gather(dtype, base, self._strided(stream, at), mask)

    def _strided(self, stream: int, at: Value) -> Value:
        b = self.b
        size = self.streams[stream].dtype.itemsize
        step = b.sdiv(self.steps[stream], size)
        return b.mul(self._lane_index(at), b.splat(step))

    def _gather(self, instr: Instr, where: Value, at: Value, mask: Value | None) -> Value:
        b = self.b
        stream, slot = instr.payload
        good = self._position_ok(instr, self._index64(where), mask)
        distance = self.gather_arg(slot, 0)
        if good.type == "i64":
            return self._load(stream, at, mask, self.move(self.rows[stream], b.mul(good, distance)))
        step = b.sdiv(distance, instr.dtype.itemsize)
        place = b.mul(good, b.splat(step))
        if self.streams[stream].step:
            place = b.add(place, self._strided(stream, at))
        return self.e(instr.dtype).gather(instr.dtype, self.rows[stream], place, mask)

    def _store(self, stream: int, value: Value, at: Value, mask: Value | None) -> None:
        dtype, step = self.streams[stream].dtype, self.streams[stream].step
        e = self.e(dtype)
        if step == 1:
            place = self.b.gep(self.rows[stream], memory_element(dtype), at)
            e.store(dtype, value, place, mask)
        else:
            e.scatter(dtype, value, self.rows[stream], self._strided(stream, at), mask)

    # ------------------------------------------------------- values kept between two passes

    def _choose_spills(self) -> dict[int, int]:
        """Dear values that a later pass needs again, with their slots in scratch memory."""
        needed: dict[int, set[int]] = {}
        for number, (reduces, stores) in enumerate(self.plan):
            roots = [self.instrs[i].operands[0] for i in reduces] + [s.value for s in stores]
            for i in self._closure(roots, number):
                needed.setdefault(i, set()).add(number)
        dear = [i for i, where in needed.items() if len(where) > 1 and self._is_dear(i)]
        return {i: slot for slot, i in enumerate(sorted(dear))}

    def _closure(self, roots: list[int], number: int) -> set[int]:
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

    def _spilled_in(self, i: int) -> int:
        """The first pass that needs value `i`: it is computed there and loaded afterwards."""
        for number, (reduces, stores) in enumerate(self.plan):
            roots = [self.instrs[r].operands[0] for r in reduces] + [s.value for s in stores]
            if i in self._closure(roots, number):
                return number
        raise AssertionError("a spilled value is needed somewhere")

    def _scratch_type(self, i: int) -> DType:
        return self.instrs[i].dtype.compute

    def _scratch_place(self, slot: int, dtype: DType, at: Value) -> Value:
        b = self.b
        row = b.gep(self.scratch, "i8", b.mul(self.scratch_row, slot))
        return b.gep(row, memory_element(dtype), at)

    def _spill(self, slot: int, i: int, value: Value, at: Value, mask: Value | None) -> None:
        dtype = self._scratch_type(i)
        self.e(dtype).store(dtype, self.wide(value), self._scratch_place(slot, dtype, at), mask)

    def _unspill(self, slot: int, i: int, at: Value, mask: Value | None) -> Value:
        dtype = self._scratch_type(i)
        return self.e(dtype).load(dtype, self._scratch_place(slot, dtype, at), mask)


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
        good = self._position_ok(instr, b.sext(where, "i64"), self.mask)
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


def generate(name: str, kind: str, *rest: Any) -> str:
    """The IR of the kernel that a description's signature asks for."""
    template = Rows if kind == "rows" else Columns
    return template(name, *rest).emit()


# Signatures are large: those of a few plans.
@lru_cache(maxsize=512)
def spill_count(signature: tuple[Any, ...]) -> int:
    """How many rows of scratch memory a rows kernel needs."""
    _, kind, *rest = signature
    if kind != "rows":
        return 0
    template = Rows("probe", *rest)
    template.plan = passes(template)
    return len(template._choose_spills())
