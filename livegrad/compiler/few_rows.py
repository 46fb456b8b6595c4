"""Products of a few rows with many columns, and which way a product is made.

Bringing columns together would take longer than multiplying: they are read where they are, those of
wide matrices line by line. Sums are made in the order of all products (compiler/products.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from livegrad.compiler.builder import Builder
from livegrad.compiler.products import (
    BLOCK,
    JOB,
    STRIP,
    UNITS,
    WIDEST,
    Many,
    Multiplier,
    room_for_sums,
)
from livegrad.compiler.values import Operand, Value
from livegrad.dtypes import DType

# As many rows are a few. Columns of a matrix that is read line by line for them, so many lines at
# once, by one row. Blocks of a single column that are taken at once.
FEW_ROWS, WIDE, LINES, AT_ONCE = 4, 512, 8, (8, 4, 2)


def room_for_few(rows: int, columns: int) -> int:
    """Elements of the thread's memory for a few rows: sums, those of a block, and terms of rows."""
    return 2 * room_for_sums(rows, columns) + STRIP


def generate_product(b: Builder, left: str, right: str, dtype: DType, quads: str = "") -> None:
    """Writes what multiplies operands of which terms or lines are neighbours; `quads` names the
    one whose bytes have no sign, if terms are four bytes each (compiler/quads.py)."""
    units = [f"left {UNITS[left]}", f"right {UNITS[right]}"]
    rows, brought = [
        b.load("i64", b.gep(b.params[0], "i64", JOB.index(name))) for name in ("rows", "brought")
    ]
    few = b.and_(b.icmp("sle", rows, FEW_ROWS), b.icmp("eq", brought, 0))
    with b.if_(few):
        _Few(b, dtype, units, quads).emit()
    with b.if_(b.not_(few)):
        Many(b, dtype, units, quads).emit()


# Vectors of columns that are multiplied at once with a row, with two, and with more.
_SIDE_BY_SIDE = {1: 8, 2: 8, 4: 4}


class _Few(Multiplier):
    """Columns are read where they are."""

    def emit(self) -> None:
        """One column by itself, more by which of them are neighbours."""
        b = self.b
        if self.quads:  # which are multiplied in vectors only
            self._columns()
            return
        single = b.icmp("eq", self.columns, 1)
        with b.if_(single), b.loop(0, self.rows) as row:
            self._dot(row.index)
        with b.if_(b.not_(single)):
            self._columns()

    def _dot(self, row: Value) -> None:
        """A row with the only column: some blocks at a time, as a sum has to wait for each of its
        terms."""
        b, done = self.b, self.b.const("i64", 0)
        for count in AT_ONCE:
            whole = b.and_(self.terms, -count * BLOCK)
            with b.loop(done, whole, count * BLOCK) as first:
                starts = [b.add(first.index, i * BLOCK) for i in range(count)]
                self._dot_blocks(row, starts, b.const("i64", BLOCK))
            done = whole
        with b.loop(done, b.smax(self.terms, 1), BLOCK) as first:
            terms = b.smin(b.sub(self.terms, first.index), BLOCK)
            self._dot_blocks(row, [first.index], terms)

    def _dot_blocks(self, row: Value, starts: list[Value], terms: Value) -> None:
        b, steps = self.b, [self.job["left term"], self.job["right term"]]
        pairs = [(self.operand("left", row, x), self.operand("right", 0, x)) for x in starts]
        with b.loop(0, terms, 1, [b.const(self.element, 0)] * len(starts)) as term:
            before = [b.mul(step, term.index) for step in steps]
            for i, (left, right) in enumerate(pairs):
                x, y = [
                    self.read_one(b.gep(place, "i8", distance))
                    for place, distance in zip((left, right), before, strict=True)
                ]
                term.carried[i] = self.times(x, y, term.carried[i])
            term.update(term.carried)
        for first, total in zip(starts, term.results, strict=True):
            self.put([[b.splat(total)]], row, b.const("i64", 0), b.icmp("eq", first, 0))

    def _columns(self) -> None:
        """By which of columns are neighbours."""
        if "right term" in self.units:
            self._turn()
            return
        b, start, rows = self.b, self.b.const("i64", 0), FEW_ROWS
        while rows:
            there = b.and_(self.rows, rows)
            with b.if_(b.icmp("ne", there, 0)):
                self._side_by_side(start, rows)
            start = b.add(start, there)
            rows //= 2

    def _side_by_side(self, row: Value, rows: int) -> None:
        """Columns that are neighbours: those of a wide matrix line by line, as memory is read
        quickest."""
        wide = self.b.icmp("sge", self.columns, WIDE)
        with self.b.if_(wide):
            self._by_lines(row, rows)
        with self.b.if_(self.b.not_(wide)):
            self._by_columns(row, rows)

    def _by_lines(self, row: Value, rows: int) -> None:
        """All columns of a few terms at a time: the sums of a block wait in memory."""
        b, together = self.b, LINES // rows
        with self.each_block(self.terms) as (first, terms):
            with b.loop(0, rows) as i, b.loop(0, self.columns, self.lanes) as column:
                b.store(b.const(self.kind, 0), self._waiting(i.index, column.index))
            whole = b.and_(terms, -together)
            with b.loop(0, whole, together) as term:
                self._lines(row, rows, b.add(first, term.index), together)
            with b.loop(whole, terms) as term:
                self._lines(row, rows, b.add(first, term.index), 1)
            with b.loop(0, rows) as i, b.loop(0, self.columns, self.lanes) as column:
                sums = b.load(self.kind, self._waiting(i.index, column.index))
                new = b.icmp("eq", first, 0)
                self.put([[sums]], b.add(row, i.index), column.index, new)

    def _waiting(self, row: Operand, column: Value) -> Value:
        """Where the sums of a block are, in lines of whole panels."""
        b = self.b
        line = b.and_(b.add(self.columns, WIDEST - 1), -WIDEST)
        return self.at(self.job["room"], b.mul(line, row), column)

    def _lines(self, row: Value, rows: int, first: Value, together: int) -> None:
        """Adds some terms to the sums of all columns."""
        b = self.b
        terms = [b.add(first, t) for t in range(together)]
        lefts = [
            [b.splat(self.read_one(self.operand("left", b.add(row, i), t))) for t in terms]
            for i in range(rows)
        ]
        lines = [self.operand("right", 0, t) for t in terms]
        with b.loop(0, self.columns, self.lanes) as column:
            mask = b.lane_mask(b.sub(self.columns, column.index))
            values = [self.read(self.further(line, column.index), mask) for line in lines]
            for i, left in enumerate(lefts):
                place = self._waiting(i, column.index)
                total = b.load(self.kind, place)
                for x, y in zip(left, values, strict=True):
                    total = self.times(x, y, total)
                b.store(total, place)

    def _by_columns(self, row: Value, rows: int) -> None:
        """Many of a term at a time, the last ones by a mask."""
        b, vectors = self.b, _SIDE_BY_SIDE[rows]
        width = vectors * self.lanes
        whole = b.mul(b.udiv(self.columns, width), width)
        with b.loop(0, whole, width) as column, self.each_block(self.terms) as block:
            self._block(row, rows, column.index, [None] * vectors, *block)
        with (
            b.loop(whole, self.columns, self.lanes) as column,
            self.each_block(self.terms) as block,
        ):
            mask = b.lane_mask(b.sub(self.columns, column.index))
            self._block(row, rows, column.index, [mask], *block)

    def _block(
        self,
        row: Value,
        rows: int,
        column: Value,
        masks: Sequence[Value | None],
        first: Value,
        terms: Value,
    ) -> None:
        b, vectors = self.b, len(masks)
        lefts = [self.operand("left", b.add(row, i), first) for i in range(rows)]
        zeros = [b.const(self.kind, 0)] * (rows * vectors)
        start = [*lefts, self.operand("right", column, first), *zeros]
        with b.loop(0, terms, 1, start) as term:
            at, line, sums = term.carried[:rows], term.carried[rows], term.carried[rows + 1 :]
            places = [self.further(line, v * self.lanes) for v in range(vectors)]
            columns = [self.read(x, mask) for x, mask in zip(places, masks, strict=True)]
            lefts = [b.splat(self.read_one(place)) for place in at]
            pairs = [(x, y) for x in lefts for y in columns]
            found = [self.times(x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]
            after = [b.gep(place, "i8", self.job["left term"]) for place in at]
            term.update(after, b.gep(line, "i8", self.job["right term"]), found)
        sums = term.results[rows + 1 :]
        lines = [sums[i * vectors : (i + 1) * vectors] for i in range(rows)]
        self.put(lines, row, column, b.icmp("eq", first, 0))

    def _turn(self) -> None:
        """Terms that are neighbours: a square of them at a time, turned in registers.

        Terms of rows are copied, with zeros behind them, which add nothing to a sum.
        """
        b = self.b
        alone = b.icmp("eq", self.rows, 1)
        with b.loop(0, self.columns, self.lanes) as column, self.each_block(self.terms) as block:
            with b.loop(0, self.rows) as row:
                self.move_terms(row.index, *block, self._row(row.index))
            lines = self.column_lines(column.index, block[0])
            with b.if_(alone):
                self._turn_with_one(column.index, lines, *block)
            with b.if_(b.not_(alone)):
                self._turn_with_some(column.index, lines, *block)

    def _row(self, row: Value) -> Value:
        return self.at(self.job["room"], self.b.mul(row, BLOCK + self.lanes))

    def _turn_with_one(self, column: Value, lines: list[Value], first: Value, terms: Value) -> None:
        b, row = self.b, self.b.const("i64", 0)
        whole = b.and_(terms, -self.lanes)
        with b.loop(0, whole, self.lanes, [b.const(self.kind, 0)]) as term:
            self._ask_for_columns(b.add(column, self.lanes), b.add(first, term.index))
            columns = self.turned(lines, term.index, None)
            term.update(self._with_row(row, term.index, columns, term.carried[0]))
        with b.loop(whole, terms, self.lanes, term.results) as term:
            columns = self.turned(lines, term.index, b.sub(terms, term.index))
            term.update(self._with_row(row, term.index, columns, term.carried[0]))
        self.put([term.results], row, column, b.icmp("eq", first, 0))

    def _ask_for_columns(self, column: Value, term: Value) -> None:
        """Has some of the columns that come next near: as many lines as are read of the ones
        before, but one behind the other, as memory is read quickest."""
        b = self.b
        number = b.mul(term, self.lanes)
        line, start = b.udiv(number, self.terms), b.urem(number, self.terms)
        place = self.operand("right", b.add(column, line), start)
        for i in range(self.lanes):
            b.prefetch(self.further(place, i * self.lanes))

    def _turn_with_some(
        self, column: Value, lines: list[Value], first: Value, terms: Value
    ) -> None:
        """Sums wait in memory for the next square."""
        b = self.b
        waiting = self._row(b.const("i64", FEW_ROWS))
        with b.loop(0, self.rows) as row:
            b.store(b.const(self.kind, 0), self.at(waiting, b.mul(row.index, self.lanes)))
        with b.loop(0, terms, self.lanes) as term:
            columns = self.turned(lines, term.index, b.sub(terms, term.index))
            with b.loop(0, self.rows) as row:
                place = self.at(waiting, b.mul(row.index, self.lanes))
                total = b.load(self.kind, place)
                b.store(self._with_row(row.index, term.index, columns, total), place)
        with b.loop(0, self.rows) as row:
            total = b.load(self.kind, self.at(waiting, b.mul(row.index, self.lanes)))
            self.put([[total]], row.index, column, b.icmp("eq", first, 0))

    def _with_row(self, row: Value, term: Value, columns: list[Value], total: Value) -> Value:
        """A square multiplied with the terms of a row."""
        place = self.at(self._row(row), term)
        for i, y in enumerate(columns):
            total = self.times(self.spread(self.at(place, i)), y, total)
        return total
