"""Rows kernels: elementwise loops, and folds along rows; see templates.py.

A kernel that begins with matrix products has them computed for each of its work items, by other
native code (compiler/products.py), and its loops read the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

from livegrad.compiler.builder import Builder
from livegrad.compiler.emitter import memory_element
from livegrad.compiler.folding import LONG_ROW, SHORT_ROW, Folds, Reduction, Way
from livegrad.compiler.panels import turned_square
from livegrad.compiler.products import BLOCK, JOB_BYTES, WIDEST, call_product
from livegrad.compiler.reducers import REDUCERS, Accs
from livegrad.compiler.signature import ACROSS, Instr, Store
from livegrad.compiler.stages import Stages
from livegrad.compiler.templates import Template
from livegrad.compiler.values import Value
from livegrad.dtypes import DType

# Rows of a product whose sums are near, beside what is multiplied: two strips.
NEAR_ROWS = 28


class Span:
    """The elements of a row from `low` up to `high`: sixteens up to `whole`, the rest by a mask."""

    def __init__(self, b: Builder, low: Value, high: Value) -> None:
        self.low, self.high = low, high
        self.whole = b.add(low, b.and_(b.sub(high, low), -b.lanes))
        self.mask = b.lane_mask(b.sub(high, self.whole))
        self.short = b.icmp("sle", b.sub(high, low), SHORT_ROW.rounds * b.lanes)


class Rows(Template):
    """Elementwise loops and folds along rows: the inner loop is vectorised and folded."""

    def emit(self) -> None:
        """Writes the kernel."""
        b = self.b
        self.read_header()
        if self.spills:
            self.scratch = b.load("ptr", b.gep(self.ctx, "i64", 3))
            self.scratch_row = self.arg(8)
        if any(instr.tail for instr in self.instrs):
            with b.if_(b.icmp("slt", self.begin, 0)):
                self._tail()
        if self.products:
            self._emit_products()
            return
        with b.loop(self.begin, self.end) as item:
            blocks = self.inner_blocks
            rest, inner_at = b.udiv(item.index, blocks), b.urem(item.index, blocks)
            outer, middle_at = b.udiv(rest, self.middle_blocks), b.urem(rest, self.middle_blocks)
            low = b.mul(inner_at, self.inner_block)
            high = b.smin(b.add(low, self.inner_block), self.inner)
            self.span = Span(b, low, high)
            first = b.mul(middle_at, self.middle_block)
            last = b.smin(b.add(first, self.middle_block), self.middle)
            bases = self.outer_bases(outer)
            with b.loop(first, last) as row:
                self._row(bases, row.index)

    # ------------------------------------------------------------------------ matrix products

    @property
    def products(self) -> list[Instr]:
        """Instructions that have what a product comes to."""
        return [instr for instr in self.instrs if instr.what == "product"]

    def _emit_products(self) -> None:
        """Items that lie side by side are taken together, as many as there is room for: rows, and
        columns if all rows of a band are. So few items are large, however finely work is cut.

        Items of a band of rows follow each other column by column.
        """
        b = self.b
        band_rows, most_columns = self.product_arg(0, 7), self.product_arg(0, 8)
        blocks = self.middle_blocks
        each = b.mul(blocks, self.inner_blocks)
        with b.loop(self.begin, self.end) as item:
            outer, at = b.udiv(item.index, each), b.urem(item.index, each)
            band = b.udiv(at, b.mul(band_rows, self.inner_blocks))
            start = b.mul(band, band_rows)
            height = b.smin(b.sub(blocks, start), band_rows)
            inside = b.sub(at, b.mul(start, self.inner_blocks))
            column, down = b.udiv(inside, height), b.urem(inside, height)
            left = b.sub(self.end, item.index)
            rows = b.smin(left, b.sub(height, down))
            whole = b.icmp("eq", rows, height)
            wanted = b.smin(b.udiv(left, height), b.sub(self.inner_blocks, column))
            columns = b.select(whole, b.smin(wanted, most_columns), 1)
            row = b.add(start, down)
            low, first = b.mul(column, self.inner_block), b.mul(row, self.middle_block)
            end, after = b.add(column, columns), b.add(row, rows)
            high = b.smin(b.mul(end, self.inner_block), self.inner)
            last = b.smin(b.mul(after, self.middle_block), self.middle)
            self.span = Span(b, low, high)
            taken = b.mul(rows, columns)
            more = b.and_(b.icmp("sgt", left, taken), b.icmp("slt", b.add(at, taken), each))
            after = b.select(b.icmp("slt", end, self.inner_blocks), high, 0)
            self.columns_ahead = b.select(more, b.sub(after, low), 0)
            self._rows_of_products(outer, first, last)
            item.advance(taken)

    def _rows_of_products(self, outer: Value, first: Value, last: Value) -> None:
        """The rows of an item; if columns are brought together once, some at a time, so that what
        follows finds the sums in the nearest cache."""
        b = self.b
        once = b.icmp("sle", self.product_arg(0, 1), BLOCK)
        once = b.and_(once, b.icmp("eq", self.product_arg(0, 4), 0))
        step = b.sub(last, first)
        if len(self.products) == 1:
            step = b.select(once, b.smin(step, NEAR_ROWS), step)
        with b.loop(first, last, step) as row:
            after = b.smin(b.add(row.index, step), last)
            brought = b.select(b.icmp("eq", row.index, first), b.const("i64", 0), 1)
            near_end = b.icmp("sge", b.add(after, NEAR_ROWS), last)
            ahead = b.select(near_end, self.columns_ahead, 0)
            self._some_rows_of_products(outer, row.index, after, brought, ahead)

    def _some_rows_of_products(
        self, outer: Value, first: Value, last: Value, brought: Value, ahead: Value
    ) -> None:
        """Rows, of which several steps of the outer loops may be taken together."""
        b = self.b
        together, around = self.product_arg(0, 5), self.product_arg(0, 6)
        start = b.mul(outer, together)
        end = b.smin(b.add(start, together), around)
        columns = b.sub(self.span.high, self.span.low)
        told = {"images": b.sub(end, start), "brought": brought, "next": ahead}
        sums = self._multiply(self.outer_bases(start), first, last, told)
        with b.loop(start, end) as step:
            bases = self.outer_bases(step.index)
            before = b.mul(b.sub(step.index, start), columns)
            if self._turns:
                self._store_turned(
                    bases, first, last, self._line(*sums[0], b.const("i64", 0), before)
                )
            else:
                with b.loop(first, last) as row:
                    self.lines = [self._line(*x, b.sub(row.index, first), before) for x in sums]
                    self._row(bases, row.index)

    @cached_property
    def _turns(self) -> bool:
        """Whether sums are written as they are, and lie across."""
        across = [x for x in self.outputs if self.streams[x.stream].step == ACROSS]
        return len(self.outputs) == len(across) == 1 == len(self.instrs)

    def _store_turned(self, bases: list[Value], first: Value, last: Value, lines: Value) -> None:
        """Writes squares of sums, turned in registers: neighbours are results of a column."""
        b, stream = self.b, self.outputs[0].stream
        low, high, lanes = self.span.low, self.span.high, b.lanes
        with b.loop(low, high, lanes) as column, b.loop(first, last, lanes) as row:
            place = self.move(bases[stream], b.mul(row.index, self.middle_steps[stream]))
            left, below = b.sub(high, column.index), b.sub(last, row.index)
            source = b.add(b.mul(b.sub(row.index, first), self.line), b.sub(column.index, low))
            whole = b.and_(b.icmp("sge", left, lanes), b.icmp("sge", below, lanes))
            square = self._square(lines, source, b.smin(below, lanes))
            with b.if_(whole):
                self._store_square(square, place, column.index, [None] * lanes)
            with b.if_(b.not_(whole)):
                mask = b.lane_mask(below)
                there = [b.and_(mask, b.splat(b.icmp("sgt", left, i))) for i in range(lanes)]
                self._store_square(square, place, column.index, there)

    def _square(self, lines: Value, source: Value, rows: Value) -> list[Value]:
        """As many rows as there are lanes, turned; the last one stands for those not there."""
        b, dtype = self.b, self.products[0].dtype
        e, element, last = self.e(dtype), memory_element(dtype), b.sub(rows, 1)
        found = []
        for i in range(b.lanes):
            place = b.add(source, b.mul(b.smin(last, i), self.line))
            found.append(e.load(dtype, b.gep(lines, element, place)))
        return turned_square(b, found)

    def _store_square(
        self, square: list[Value], place: Value, column: Value, masks: Sequence[Value | None]
    ) -> None:
        """Writes a column after the other."""
        b, stream, e = self.b, self.outputs[0].stream, self.e(self.products[0].dtype)
        for i, (x, mask) in enumerate(zip(square, masks, strict=True)):
            distance = b.mul(b.add(column, i), self.steps[stream])
            e.store(e.dtype, x, self.move(place, distance), mask)

    def _multiply(
        self, bases: list[Value], first: Value, last: Value, alike: dict[str, Value]
    ) -> list[tuple[DType, Value]]:
        """Has products computed, which are told some things alike: where the sums of each are.

        What is ahead is told in columns.
        """
        b, products, together = self.b, self.products, alike["images"]
        scratch = b.load("ptr", b.gep(self.ctx, "i64", 3))
        job = b.gep(scratch, "i8", b.mul(self.arg(8), len(self.spills)))
        columns = b.mul(self.inner_block, self.product_arg(0, 8))
        rows = b.mul(self.middle_block, self.product_arg(0, 7))
        most = b.mul(columns, self.product_arg(0, 5))
        self.line = b.and_(b.add(most, WIDEST - 1), -WIDEST)
        room, sums = b.gep(job, "i8", JOB_BYTES), []
        for instr in products:
            sums.append(room)
            nbytes = b.mul(self.line, instr.dtype.itemsize)
            room = b.gep(room, "i8", b.mul(nbytes, rows))
        low, high = self.span.low, self.span.high
        asked_for = self._asked_for(bases, first, together)
        for instr, place in zip(products, sums, strict=True):
            number, left, right = instr.payload
            told = {
                "left": self.move(bases[left], b.mul(first, self.middle_steps[left])),
                "left step": self.middle_steps[left],
                "left term": self.product_arg(number, 2),
                "right": self.move(bases[right], b.mul(low, self.steps[right])),
                "right step": self.steps[right],
                "right term": self.product_arg(number, 3),
                "rows": b.sub(last, first),
                "terms": self.product_arg(number, 1),
                "columns": b.mul(b.sub(high, low), together),
                "sums": place,
                "line": self.line,
                "room": room,
                "first row": first,
                "first column": low,
                "geometry": b.gep(self.args, "i64", self.product_arg(number, 4)),
                **alike,
                "next": b.mul(alike["next"], self.steps[right]),
                **asked_for,
            }
            call_product(b, job, self.product_arg(number, 0, "ptr"), told)
        return [(instr.dtype, place) for instr, place in zip(products, sums, strict=True)]

    def _asked_for(self, bases: list[Value], first: Value, together: Value) -> dict[str, Value]:
        """Where an item's results will be written, and what is read for them, of one outer step:
        the last of each whose elements are neighbours, and others in each row."""
        b = self.b
        found: dict[str, Value] = {}
        written = [store.stream for store in self.outputs if store.full]
        read = [x.payload for x in self.instrs if x.what == "load" and x.full]
        alone = b.icmp("eq", together, 1)
        for name, streams in (("result", written), ("read", read)):
            step = b.const("i64", 0)
            for stream in [x for x in streams if self.streams[x].step == 1]:
                moves = b.icmp("ne", self.middle_steps[stream], 0)
                place = self.move(bases[stream], b.mul(first, self.middle_steps[stream]))
                place = self.move(place, b.mul(self.span.low, self.steps[stream]))
                found[f"{name}s"] = b.select(moves, place, found.get(f"{name}s", place))
                step = b.select(b.and_(moves, alone), self.middle_steps[stream], step)
            found[f"{name} step"] = step
        return found

    def _line(self, dtype: DType, sums: Value, row: Value, before: Value) -> Value:
        """Where the sums of a row of the item are, in one of its outer steps."""
        place = self.b.add(self.b.mul(row, self.line), before)
        return self.b.gep(sums, memory_element(dtype), place)

    def elements(
        self,
        instr: Instr,
        operands: list[Value],
        base: Callable[[int], Value],
        at: Value,
        mask: Value | None,
    ) -> Value:
        """Also those of a product."""
        if instr.what != "product":
            return super().elements(instr, operands, base, at, mask)
        b, dtype = self.b, instr.dtype
        line = self.lines[instr.payload[0]]
        place = b.gep(line, memory_element(dtype), b.sub(at, self.span.low))
        return (self.e(dtype).load if instr.full else self.e(dtype).load_scalar)(dtype, place)

    # -------------------------------------------------------------------------------- rows

    def _row(self, bases: list[Value], row: Value) -> None:
        b = self.b
        self.rows = [
            self.move(base, b.mul(row, step))
            for base, step in zip(bases, self.middle_steps, strict=True)
        ]
        outer = dict(self.kept)
        self.keep(0)
        for number, (reduces, stores) in enumerate(self.passes):
            self._pass(number, reduces, stores)
            self.keep(number + 1)
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
            folds = instr.what == "fold"
            self.kept[i] = self._fold(instr) if folds else self.kept_value(instr)
        self._store_row(tail=True)
        self.kept = outer

    def _fold(self, instr: Instr) -> Value:
        b = self.b
        combine, stream = instr.payload
        dtype = self.streams[stream].dtype
        reducer, e = REDUCERS[combine], self.e(dtype)

        def step(folds: Folds, at: Value, mask: Value | None, accs: Accs) -> Accs:
            place = b.gep(self.bases[stream], memory_element(dtype), at)
            return folds.step(accs, [e.load(dtype, place, mask)], self.lane_index(at), mask)

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
            carried = folds.run(span.low, whole, self.b.lanes, lambda at, accs: each(at, accs=accs))
            carried = folds.run_rest(carried, whole, high, lambda at, accs: last(at, accs=accs))
            return folds.results(carried, across_lanes=True)

        if not any([reducer.of_blocks(e.dtype) for reducer, e in reductions]):
            return folded(SHORT_ROW)
        return self.b.either(span.short, lambda: folded(SHORT_ROW), lambda: folded(LONG_ROW))

    def kept_value(self, instr: Instr) -> Value:
        """The value for a whole row."""
        if instr.what == "position":
            counter: Value = self.rows[instr.payload]
            return counter
        at = self.b.const("i64", 0)
        return self.elements(instr, self.kept_operands(instr), self.rows.__getitem__, at, None)

    # ------------------------------------------------------------------ one pass over a row

    def _pass(self, number: int, reduces: list[int], stores: list[Store]) -> None:
        def step(folds: Folds, at: Value, mask: Value | None, accs: Accs) -> Accs:
            """Sixteen elements; gives the accumulators of the reductions."""
            known: dict[int, Value] = {}
            self.active = mask

            def value(i: int) -> Value:
                return self.wide(self._full(i, number, at, mask, known))

            values = self.folded_values(reduces, value)
            accs = folds.step(accs, values, self.lane_index(at), mask)
            for store in stores:
                self.store(store.stream, value(store.value), self.rows[store.stream], at, mask)
            for i, spill in self.spills.items():
                if spill.computed_in == number and i in known:
                    dtype, place = self._scratch(i, at)
                    self.e(dtype).store(dtype, self.wide(known[i]), place, mask)
            self.active = None
            return accs

        reductions = self.reductions_of(reduces)
        self.keep_folds(reduces, self._fold_row(reductions, self.span, step))

    def _full(
        self, i: int, number: int, at: Value, mask: Value | None, known: dict[int, Value]
    ) -> Value:
        """The sixteen values of instruction `i` at position `at` of the row."""
        found = known.get(i) or self.kept.get(i)
        if found is None:
            spill = self.spills.get(i)
            if spill is not None and spill.computed_in < number:
                dtype, place = self._scratch(i, at)
                found = self.e(dtype).load(dtype, place, mask)
            else:
                instr = self.instrs[i]
                needed = [o for o in instr.operands if o >= 0]
                operands = [self._full(o, number, at, mask, known) for o in needed]
                found = self.elements(instr, operands, self.rows.__getitem__, at, mask)
            known[i] = found
        return found

    def _scratch(self, i: int, at: Value) -> tuple[DType, Value]:
        """The memory in which a value is kept between two passes."""
        b, dtype = self.b, self.instrs[i].dtype.compute
        row = b.gep(self.scratch, "i8", b.mul(self.scratch_row, self.spills[i].slot))
        return dtype, b.gep(row, memory_element(dtype), at)


def generate_rows(b: Builder, *described: Any) -> None:
    """Writes a rows kernel with these streams, instructions and stores."""
    Rows(b, *described).emit()


# Signatures are large: those of a few plans.
@lru_cache(maxsize=512)
def spill_count(signature: tuple[Any, ...]) -> int:
    """How many rows of scratch memory a rows kernel needs."""
    generate, _, instrs, outputs = signature
    return len(Stages(instrs, outputs).spills) if generate is generate_rows else 0
