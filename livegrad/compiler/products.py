"""Matrix products: native code that multiplies some rows with some columns.

Kernels of loops (compiler/rows.py) call it for each of their work items, and go on from the sums:

    left: rows of terms           ┌──────────┐
    right: columns of terms  ───► │ multiply │ ──► sums, a line per row ──► bias, relu ──► results
                                  └──────────┘     in the thread's memory

Operands are brought together before they are multiplied:

    for each 256 terms
        columns ──► panels, term by term                     stay in the second cache
        for each 14 rows, or fewer, by the host's registers
            rows ──► a strip                                 stays in the first
            for each panel: strip * panel ──► sums in registers ──► sums in memory

Rows whose terms are neighbours are read where they are, unless they would meet in the first cache.
For a few rows, bringing columns would take longer than multiplying: see compiler/few_rows.py.

A sum is made in one order, whatever else is computed and however operands lie in memory: terms by
fused multiply-adds in blocks of 256, and blocks one after the other. So a row's result does not
depend on other rows and columns, on threads, or on the host's registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from livegrad import dtypes
from livegrad.compiler.builder import Builder
from livegrad.compiler.emitter import Emitter, memory_element
from livegrad.compiler.panels import turned_square
from livegrad.compiler.quads import plus_dots
from livegrad.compiler.values import Operand, Value, bytes_of
from livegrad.dtypes import DType

# Terms of a sum in registers: as many are brought together at a time.
BLOCK = 256
# Columns of the widest panel. Rows of a strip lie apart by some more than their terms, so that they
# do not meet in the cache.
WIDEST = 32
APART = BLOCK + 16
# Elements of a strip, either way it lies.
STRIP = 16 * APART
# Bytes that memory is read by, and from one place to the next that has the same one in the first
# cache: such lines of a tile's rows would drive each other out.
LINE, MEETING = 64, 4096
# Terms that are asked for while others are brought together; and strips that are too few to ask for
# columns.
AHEAD, FEW_STRIPS = 16, 4
# What is to be done, in slots of eight bytes. Distances of operands are in bytes: to the next row
# or column, and to the next term. Sums lie in lines, so many elements apart; if `onto` is not 0,
# they are added to what is there. `images` are taken together. What is made of sums will be written
# at `results`, with what is at `reads`, a line per row, so many bytes apart: unless that is 0, the
# memory is asked for. If `brought` is 1, columns are there already, from a job before, and of one
# block of terms; if it is -1, they are brought however few rows there are, or none. They are in
# `room`, from byte `panels` on. As many columns will be wanted after this job, `next` bytes from
# those of now, unless that is 0.
JOB = (
    "left", "left step", "left term", "right", "right step", "right term",
    "rows", "terms", "columns", "sums", "line", "room", "first row", "first column", "geometry",
    "onto", "images", "results", "result step", "brought", "next",
    "reads", "read step", "panels",
)  # fmt: skip
JOB_BYTES = 192
_POINTERS = ("left", "right", "sums", "room", "geometry", "results", "reads")
# Which distance is that of neighbours: of an operand that lies in terms, or in lines.
UNITS = {"terms": "term", "lines": "step"}


def room_for(rows: int, columns: int) -> int:
    """Elements of the thread's memory that products of so many rows and columns need: for sums in
    lines of whole panels, for panels, and for a strip."""
    return room_for_sums(rows, columns) + room_for_sums(BLOCK, columns) + STRIP


def room_for_sums(rows: int, columns: int) -> int:
    """Elements of sums in lines of whole panels."""
    return rows * (-(-columns // WIDEST) * WIDEST)


def call_product(b: Builder, job: Value, code: Value, told: dict[str, Value]) -> None:
    """Writes a call of what multiplies; what is not told is 0."""
    nothing = b.const("i64", 0)
    for slot, name in enumerate(JOB):
        b.store(told.get(name, nothing), b.gep(job, "i64", slot))
    b.call_at(code, [job, nothing, nothing, b.params[3]])


def summed_as(dtype: DType) -> DType:
    """What elements become when they are multiplied: half precisions float32."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


class Tile(NamedTuple):
    """Sums that are in registers at a time: rows, and vectors of columns."""

    rows: int
    vectors: int


def tile_for(vectors: int, element: str) -> Tile:
    """What fits into registers for `vectors` of sixteen floats, beside what is multiplied."""
    fit = vectors * 4 // bytes_of(element)
    for least, tile in ((32, Tile(14, 2)), (16, Tile(14, 1)), (8, Tile(6, 1)), (4, Tile(2, 1))):
        if fit >= least:
            return tile
    return Tile(1, 1)


class Strip(NamedTuple):
    """Some rows as they are multiplied: the first term, and bytes to the next term and row."""

    place: Value
    term: Value
    row: Value


class Multiplier:
    """What all ways have in common: the job, and how sums are made."""

    def __init__(self, b: Builder, dtype: DType, units: Sequence[str], quads: str = "") -> None:
        """`units` are the distances that are known to be those of neighbours."""
        self.b, self.lanes, self.units, self.quads = b, b.lanes, units, quads
        self.dtype, self.element = dtype, memory_element(summed_as(dtype))
        self.kind = b.vector(self.element)
        self.job = {
            name: b.load("ptr" if name in _POINTERS else "i64", b.gep(b.params[0], "i64", slot))
            for slot, name in enumerate(JOB)
        }
        for name in units:
            self.job[name] = b.const("i64", dtype.itemsize)
        self.rows, self.terms, self.columns = [self.job[x] for x in ("rows", "terms", "columns")]

    def at(self, base: Value, *distances: Operand) -> Value:
        """An address some elements away."""
        for distance in distances:
            base = self.b.gep(base, self.element, distance)
        return base

    def operand(self, name: str, number: Operand, term: Operand) -> Value:
        """The address of a term of a row, or of a column."""
        b, job = self.b, self.job
        place = b.gep(job[name], "i8", b.mul(job[f"{name} step"], number))
        return b.gep(place, "i8", b.mul(job[f"{name} term"], term))

    def further(self, place: Value, distance: Operand) -> Value:
        """The address some elements of an operand away, in the direction of neighbours."""
        return self.b.gep(place, memory_element(self.dtype), distance)

    def read(self, place: Value, mask: Value | None = None) -> Value:
        """Neighbours of an operand, as they are multiplied."""
        return Emitter(self.b, summed_as(self.dtype)).load(self.dtype, place, mask)

    def read_one(self, place: Value) -> Value:
        """An element of an operand, as it is multiplied."""
        return Emitter(self.b, summed_as(self.dtype)).load_scalar(self.dtype, place)

    def times(self, x: Value, y: Value, total: Value) -> Value:
        """total + x * y, rounded once."""
        b = self.b
        if self.quads:
            return plus_dots(b, total, *((x, y) if self.quads == "left" else (y, x)))
        if self.element in ("float", "double"):
            return b.fma(x, y, total)
        return b.add(b.mul(x, y), total)

    def spread(self, place: Value) -> Value:
        """A term of a row, for all columns."""
        return self.b.splat(self.b.load(self.element, place))

    @contextmanager
    def each_block(self, terms: Value) -> Iterator[tuple[Value, Value]]:
        """Blocks of so many terms: the first one of each, and their number. One if there is none:
        an empty sum is 0."""
        b = self.b
        with b.loop(0, b.smax(terms, 1), BLOCK) as block:
            yield block.index, b.smin(b.sub(terms, block.index), BLOCK)

    def put(
        self,
        sums: list[list[Value]],
        row: Value,
        column: Value,
        first: Value,
        apart: Operand = 1,
    ) -> None:
        """Adds the sums of a block, a list per row, to those of the blocks before it. Rows are so
        far `apart`.

        Those of the first block are stored as they are: sums are never -0, so that adding them to
        0 would change nothing.
        """
        b = self.b
        new = b.and_(first, b.icmp("eq", self.job["onto"], 0))
        with b.if_(new):
            self._put(sums, row, column, apart, onto=False)
        with b.if_(b.not_(new)):
            self._put(sums, row, column, apart, onto=True)

    def _put(
        self, sums: list[list[Value]], row: Value, column: Value, apart: Operand, onto: bool
    ) -> None:
        b = self.b
        add = b.fadd if self.element in ("float", "double") else b.add
        for i, line in enumerate(sums):
            number = b.add(row, b.mul(b.const("i64", i), apart))
            place = self.at(self.job["sums"], b.mul(number, self.job["line"]), column)
            for v, x in enumerate(line):
                at = self.at(place, v * self.lanes)
                b.store(add(b.load(self.kind, at), x) if onto else x, at)

    def move_terms(self, row: Value, start: Value, count: Value, out: Value) -> None:
        """Copies so many terms of a row, and zeros up to a whole vector."""
        b = self.b
        whole = b.and_(count, -self.lanes)
        rest = b.sub(count, whole)
        if "left term" in self.units:
            with b.loop(0, whole, self.lanes) as term:
                x = self.read(self.operand("left", row, b.add(start, term.index)))
                b.store(x, self.at(out, term.index))
            with b.if_(b.icmp("ne", rest, 0)):
                place = self.operand("left", row, b.add(start, whole))
                b.store(self.read(place, b.lane_mask(rest)), self.at(out, whole))
            return
        b.store(b.const(self.kind, 0), self.at(out, whole))
        with b.loop(0, count) as term:
            place = self.operand("left", row, b.add(start, term.index))
            b.store(self.read_one(place), self.at(out, term.index))

    def turned(self, lines: list[Value], term: Value, left: Value | None) -> list[Value]:
        """Vectors of a term each, of columns whose terms lie at `lines`; if not so many are
        `left`, zeros."""
        b = self.b
        mask = None if left is None else b.lane_mask(left)
        return turned_square(b, [self.read(self.further(x, term), mask) for x in lines])

    def column_lines(self, column: Value, start: Value) -> list[Value]:
        """The places of terms of as many columns as there are lanes; the last of all columns
        stands for those that are not there."""
        b = self.b
        last = b.sub(self.columns, 1)
        numbers = [b.smin(b.add(column, i), last) for i in range(self.lanes)]
        return [self.operand("right", number, start) for number in numbers]


# -------------------------------------------------------------------------------------- many rows


class Many(Multiplier):
    """Operands are brought together first."""

    # Rows that are left are taken by so many at a time.
    rest: tuple[int, ...] = (4, 2, 1)

    def emit(self) -> None:
        """All terms, so many at a time."""
        b = self.b
        self.tile = tile_for(b.vectors, self.element)
        self.width = self.tile.vectors * self.lanes
        self.panels = b.udiv(b.add(self.columns, self.width - 1), self.width)
        self.strip = self.at(self.job["room"], b.mul(self.panels, BLOCK * self.width))
        depth = self.depth()
        with b.loop(0, b.smax(self.terms, 1), depth) as part:
            self.start = part.index
            self.count = b.smin(b.sub(self.terms, part.index), depth)
            self.bring_columns()
            self.strips()

    def depth(self) -> Operand:
        """How many terms are brought together at a time, `BLOCK` at most."""
        return BLOCK

    def panel(self, column: Value) -> Value:
        """Where the panel that begins with a column is."""
        base = self.b.gep(self.job["room"], "i8", self.job["panels"])
        return self.at(base, self.b.mul(column, BLOCK))

    def bring_columns(self) -> None:
        """Columns, term by term, to their places in panels, unless they are there."""
        with self.b.if_(self.b.icmp("sle", self.job["brought"], 0)):
            self._bring_columns()

    def _bring_columns(self) -> None:
        b = self.b
        if "right term" in self.units:
            with b.loop(0, self.columns, self.lanes) as column:
                self._bring_turned(column.index)
            return
        whole = b.and_(self.columns, -self.width)
        with b.loop(0, self.count) as term:
            source = self.operand("right", 0, b.add(self.start, term.index))
            target = self.at(self.panel(b.const("i64", 0)), b.mul(term.index, self.width))
            with b.loop(0, whole, self.width) as column:
                self._bring_line(source, target, column.index, None)
            with b.if_(b.icmp("ne", whole, self.columns)):
                self._bring_line(source, target, whole, b.sub(self.columns, whole))

    def _bring_line(self, source: Value, target: Value, column: Value, left: Value | None) -> None:
        """One term of a panel's columns, which are neighbours; all, or as many as are left."""
        b = self.b
        for v in range(0, self.width, self.lanes):
            mask = None if left is None else b.lane_mask(b.sub(left, v))
            place = self.further(source, b.add(column, v))
            b.store(self.read(place, mask), self.at(target, b.mul(column, BLOCK), v))
            b.prefetch(b.gep(place, "i8", b.mul(self.job["right term"], AHEAD)))

    def _bring_turned(self, column: Value) -> None:
        """As many columns as there are lanes, whose terms are neighbours."""
        b = self.b
        inside = b.and_(column, self.width - 1)
        out = self.at(self.panel(b.sub(column, inside)), inside)
        lines = self.column_lines(column, self.start)
        ahead = b.mul(self.job["right step"], self.lanes)
        self.bring_turned(lines, out, self.width, ahead)

    def bring_turned(
        self, lines: list[Value], out: Value, apart: int, ahead: Value | None = None
    ) -> None:
        """Of as many lines as there are lanes, term by term, so far apart. Asks for what lies so
        many bytes ahead of each, as memory is slow to give so many lines at once."""
        b = self.b
        with b.loop(0, self.count, self.lanes) as term:
            if ahead is not None:
                for line in lines:
                    b.prefetch(b.gep(self.further(line, term.index), "i8", ahead))
            square = self.turned(lines, term.index, b.sub(self.count, term.index))
            target = self.at(out, b.mul(term.index, apart))
            for i, x in enumerate(square):
                b.store(x, self.at(target, i * apart))

    def strips(self) -> None:
        """Rows as many at a time as there are registers for; the rest by fewer."""
        b = self.b
        start = b.const("i64", 0)
        for rows in [self.tile.rows, *[x for x in self.rest if x < self.tile.rows]]:
            whole = b.sub(self.rows, b.urem(b.sub(self.rows, start), rows))
            with b.loop(start, whole, rows) as row:
                self.multiply_strip(row.index, rows)
            start = whole

    def multiply_strip(self, row: Value, rows: int) -> None:
        """Some rows with all panels."""
        b, vectors = self.b, self.tile.vectors
        strip = self.find_rows(row, rows)
        with b.loop(0, self.panels) as panel:
            column = b.mul(panel.index, self.width)
            if rows == self.tile.rows:
                self.ask_for_columns(row, column)
                self.ask_for_rows(row, panel.index)
            narrow = b.icmp("sle", b.sub(self.columns, column), self.lanes)
            if vectors == 1 or rows < self.tile.rows:
                self._tile(row, rows, column, vectors, strip)
            else:
                with b.if_(narrow):
                    self._tile(row, rows, column, 1, strip)
                with b.if_(b.not_(narrow)):
                    self._tile(row, rows, column, vectors, strip)

    def find_rows(self, row: Value, rows: int) -> Strip:
        """Rows where they are, if their terms can be multiplied as they lie, or a strip of them."""
        b = self.b
        if "left term" not in self.units or self.dtype is not summed_as(self.dtype):
            return self._brought(*self.bring_rows(row, rows))
        place = self.operand("left", row, self.start)
        here = Strip(place, self.job["left term"], self.job["left step"])
        if rows * 2 <= self.lanes:
            return here
        meet = b.icmp("slt", b.and_(b.add(here.row, LINE // 2), MEETING - 1), LINE)
        with b.if_(meet):
            brought = self._brought(*self.bring_rows(row, rows))
        return Strip(*[b.select(meet, x, y) for x, y in zip(brought, here, strict=True)])

    def _brought(self, along: int, across: int) -> Strip:
        """A strip, with so many elements from a term to the next, and from a row to the next."""
        size = bytes_of(self.element)
        return Strip(self.strip, *[self.b.const("i64", x * size) for x in (along, across)])

    def bring_rows(self, row: Value, rows: int) -> tuple[int, int]:
        """Makes a strip: elements from a term to the next, and from a row to the next.

        Rows become neighbours, which a core loads quickest; where they are few, terms stay so.
        """
        b = self.b
        if "left step" in self.units:
            mask = b.lane_mask(b.const("i64", rows))
            with b.loop(0, self.count) as term:
                place = self.operand("left", row, b.add(self.start, term.index))
                target = self.at(self.strip, b.mul(term.index, self.lanes))
                b.store(self.read(place, mask), target)
                b.prefetch(b.gep(place, "i8", b.mul(self.job["left term"], AHEAD)))
            return self.lanes, 1
        if rows * 2 > self.lanes and "left term" in self.units:
            numbers = [b.add(row, min(i, rows - 1)) for i in range(self.lanes)]
            lines = [self.operand("left", number, self.start) for number in numbers]
            self.bring_turned(lines, self.strip, self.lanes)
            return self.lanes, 1
        for i in range(rows):
            self.move_terms(b.add(row, i), self.start, self.count, self.at(self.strip, i * APART))
        return 1, APART

    def ask_for_columns(self, row: Value, column: Value) -> None:
        """Has a panel's columns of the next block, or of the next job, in the second cache when
        they are brought together: each strip asks for some of them, while it is multiplied."""
        b, turned = self.b, "right term" in self.units
        count, length = (self.width, BLOCK) if turned else (BLOCK, self.width)
        after = b.add(self.start, BLOCK)
        more = b.icmp("slt", after, self.terms)
        known = b.or_(more, b.icmp("ne", self.job["next"], 0))
        strips = b.smax(b.udiv(self.rows, self.tile.rows), 1)
        if turned:  # which a few strips could but ask for all at once: see `bring_turned`
            known = b.and_(known, b.icmp("sge", strips, FEW_STRIPS))
        each = b.udiv(b.add(strips, count - 1), strips)
        first = b.mul(b.udiv(row, self.tile.rows), each)
        last = b.select(known, b.smin(b.add(first, each), count), first)
        distance = b.select(more, b.mul(self.job["right term"], after), self.job["next"])
        base = b.gep(self.job["right"], "i8", distance)
        with b.loop(first, last) as number:
            moved = [column, number.index]
            if turned:
                moved = [b.add(column, number.index), b.const("i64", 0)]
            place = b.gep(base, "i8", b.mul(self.job["right step"], moved[0]))
            place = b.gep(place, "i8", b.mul(self.job["right term"], moved[1]))
            for nbytes in range(0, length * bytes_of(self.element), LINE):
                b.prefetch(b.gep(place, "i8", nbytes), far=True)

    def ask_for_rows(self, row: Value, panel: Value) -> None:
        """Has the next strip's rows in the second cache when they are brought together: each panel
        asks for some of them. To ask for all at once would keep the core waiting."""
        b, turned = self.b, "left term" in self.units
        count: Operand = self.tile.rows if turned else self.count
        each = b.udiv(b.add(b.sub(self.panels, 1), count), self.panels)
        first = b.mul(panel, each)
        last = b.smin(b.add(first, each), count)
        after, start = self._next_strip(row)
        with b.loop(first, last) as number:
            if turned:
                place = self.operand("left", b.add(after, number.index), start)
                with b.loop(0, b.mul(self.count, self.dtype.itemsize), LINE) as distance:
                    b.prefetch(b.gep(place, "i8", distance.index), far=True)
            else:  # of neighbours, the last one: the first ones are there with the strip before
                end = b.add(after, self.tile.rows - 1)
                b.prefetch(self.operand("left", end, b.add(start, number.index)), far=True)

    def _next_strip(self, row: Value) -> tuple[Value, Value]:
        """The first row and term of what comes after a strip: rows, the next block, or the first
        one with other columns. Of one block, the rows of the next job follow."""
        b, after, block = self.b, self.b.add(row, self.tile.rows), self.b.add(self.start, BLOCK)
        done = b.and_(b.icmp("sge", after, self.rows), b.icmp("sgt", self.terms, BLOCK))
        block = b.select(b.icmp("slt", block, self.terms), block, 0)
        return b.select(done, b.const("i64", 0), after), b.select(done, block, self.start)

    def _tile(self, row: Value, rows: int, column: Value, vectors: int, strip: Strip) -> None:
        """Some rows with one panel: the sums of a block are in registers."""
        b = self.b
        self._ask_for_results(row, rows, column, vectors)
        zeros = [b.const(self.kind, 0)] * (rows * vectors)
        with b.loop(0, self.count, 1, [strip.place, self.panel(column), *zeros]) as term:
            at, line, *sums = term.carried
            columns = [b.load(self.kind, self.at(line, v * self.lanes)) for v in range(vectors)]
            for i in range(rows):
                x = self.spread(b.gep(at, "i8", b.mul(strip.row, i)))
                for v, y in enumerate(columns):
                    sums[i * vectors + v] = self.times(x, y, sums[i * vectors + v])
            term.update(b.gep(at, "i8", strip.term), self.at(line, self.width), *sums)
        found = term.results[2:]
        lines = [found[i * vectors : (i + 1) * vectors] for i in range(rows)]
        self.put(lines, row, column, b.icmp("eq", self.start, 0))

    def _ask_for_results(self, row: Value, rows: int, column: Value, vectors: int) -> None:
        """Has the memory of a tile's results near when they will be written, in the last block, and
        that of what will be read for them."""
        b, job = self.b, self.job
        last = b.icmp("sge", b.add(self.start, self.count), self.terms)
        for name in ("result", "read"):
            step = job[f"{name} step"]
            with b.if_(b.and_(b.icmp("ne", step, 0), last)):
                for i in range(rows):
                    line = b.gep(job[f"{name}s"], "i8", b.mul(b.add(row, i), step))
                    for v in range(vectors):
                        place = self.at(line, column, v * self.lanes)
                        b.prefetch(place, write=name == "result", far=True)
