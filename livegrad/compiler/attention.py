"""Code generation: attention and its gradient; scores are in the thread's memory only.

    for each work item: some queries of one batch entry
        queries @ keys ──► scores ──► softmax, row by row ──► shares @ values ──► result

    the gradient: all queries of a batch entry, some at a time
        shares as above;  g @ values ──► slopes of the shares ──► of the scores
        slopes @ keys ──► queries' gradient;  summed up: slopes.T @ queries, shares.T @ g

What multiplies is called, as by other kernels (compiler/products.py). Where each query looks at the
keys up to its own place, later ones are not multiplied. Keys and values, if they are not too many,
are brought together once for all queries of a batch entry.

Argument block: 0 work items; addresses of what multiplies, then of operands, results first; then
`Kind.numbers`; sizes of the batch's dims; for each operand its steps in bytes, from row to row,
from column to column, and along each dim of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from livegrad import dtypes
from livegrad.compiler.builder import Builder
from livegrad.compiler.emitter import Emitter
from livegrad.compiler.few_rows import FEW_ROWS
from livegrad.compiler.products import (
    BLOCK,
    JOB_BYTES,
    STRIP,
    WIDEST,
    call_product,
    room_for,
    room_for_sums,
)
from livegrad.compiler.spans import Span, Spans
from livegrad.compiler.values import Value, bytes_of
from livegrad.dtypes import DType
from livegrad.graph.op import REGISTRY
from livegrad.graph.symbol import least, most

# Queries, keys, features of queries and of values, queries that are taken at a time, and how many
# such blocks there are.
NUMBERS = ("rows", "columns", "features", "width", "block", "blocks")
DROPOUT = ("p", "kept", "seed", "offset")
# Keys that are multiplied at a time.
CHUNK = 256
# Columns of a product that are brought together once for all queries, at most.
MOST_KEPT = 512


class Kind(NamedTuple):
    """What the code depends on: which queries look where, and how many dims the batch has."""

    causal: bool
    mask: str  # "", "bool" or "float"
    dropout: str  # the op that draws the numbers by which shares are dropped, or ""
    rank: int
    gradient: bool

    @property
    def calls(self) -> tuple[str, ...]:
        """Names of what is called to multiply."""
        forward = ("scores", "values")
        backward = ("scores", "shares", "to queries", "to keys", "to values")
        return backward if self.gradient else forward

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of products whose columns are the same for all queries."""
        return ("scores", "shares", "to queries") if self.gradient else ("scores", "values")

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of results, then of inputs."""
        mask = ("mask",) if self.mask else ()
        if self.gradient:
            return ("gq", "gk", "gv", "g", "q", "k", "v", *mask)
        return ("out", "q", "k", "v", *mask)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the slots after the addresses."""
        return (*NUMBERS, "scale", *(DROPOUT if self.dropout else ()))


def scratch_of(kind: Kind, block: int, columns: int, features: int, width: int) -> int:
    """Elements of the thread's memory that are needed."""
    line, widest = _line(columns), most(_line(features), _line(width))
    own = block * (line + widest + WIDEST)
    if kind.gradient:
        own = own + block * line + columns * 2 * widest
    rights = _rights(columns, features, width)
    for call in kind.kept:
        own = own + room_for_sums(BLOCK, least(rights[call][1], MOST_KEPT))
    return own + room_for(0, most(CHUNK, most(features, width)))


def _rights(keys: Any, features: Any, width: Any) -> dict[str, tuple[Any, Any]]:
    """Terms and columns of the right operands that are the same for all queries, by product."""
    return {
        "scores": (features, keys),
        "shares": (width, keys),
        "values": (keys, width),
        "to queries": (keys, features),
    }


def _line(columns: int) -> int:
    return -(-columns // WIDEST) * WIDEST


class Operand(NamedTuple):
    """A matrix of a batch entry: its address, and bytes to the next row and column."""

    address: Value
    row: Value
    column: Value


def generate_attention(b: Builder, kind: tuple[bool, str, str, int, bool], dtype: DType) -> None:
    """Writes either kernel."""
    made = Kind(*kind)
    (_Backward if made.gradient else _Forward)(b, made, dtype).emit()


class _Template(Spans):
    """What both have in common: operands, and shares of values that queries take."""

    def __init__(self, b: Builder, kind: Kind, dtype: DType) -> None:
        super().__init__(b, dtype)
        self.kind, self.size = kind, bytes_of(self.element)
        self.vector = b.vector(self.element)
        names = ["items", *kind.calls, *kind.operands, *kind.numbers]
        names += [f"size {d}" for d in range(kind.rank)]
        for operand in kind.operands:
            names += [f"{operand} row", f"{operand} column"]
            names += [f"{operand} {d}" for d in range(kind.rank)]
        self.slots = {name: slot for slot, name in enumerate(names)}
        self.rows, self.columns, self.features, self.width, self.block, self.blocks = [
            self.given(name) for name in NUMBERS
        ]
        self.scale = self._real("scale")
        self._lay_out()
        self._lay_out_kept()

    def given(self, name: str, type: str = "i64") -> Value:
        """What is in a slot of the argument block."""
        return self.b.load(type, self.b.gep(self.b.params[0], "i64", self.slots[name]))

    def _real(self, name: str) -> Value:
        number = self.given(name, "double")
        return number if self.element == "double" else self.b.fptrunc(number, self.element)

    def _lay_out(self) -> None:
        """Places in the thread's memory."""
        b = self.b
        self.free = b.load("ptr", b.gep(b.params[3], "i64", 3))
        self.job = self._taken("i8", b.const("i64", JOB_BYTES))
        self.line = self._whole(self.columns)
        self.widest = b.smax(self._whole(self.features), self._whole(self.width))
        self.shares = self._taken(self.element, b.mul(self.block, self.line))
        self.sums = self._taken(self.element, b.mul(self.block, self.widest))
        self.factors = self._taken(self.element, b.mul(self.block, WIDEST))

    def _lay_out_kept(self) -> None:
        """Places of columns that are brought together once, in bytes from the room of all jobs, and
        whether they are: those of one block of terms, unless there are few queries."""
        b = self.b
        widest = b.smax(self.widest, CHUNK)
        place = b.add(b.mul(widest, BLOCK * self.size), STRIP * self.size)
        several = b.icmp("sgt", self.rows, FEW_ROWS)
        self.rights = _rights(self.columns, self.features, self.width)
        self.once: dict[str, tuple[Value, Value]] = {}
        for call in self.kind.kept:
            terms, columns = self.rights[call]
            fits = b.and_(b.icmp("sle", terms, BLOCK), b.icmp("sle", columns, MOST_KEPT))
            self.once[call] = b.and_(fits, several), place
            size = b.mul(self._whole(b.smin(columns, MOST_KEPT)), BLOCK * self.size)
            place = b.add(place, size)

    def _whole(self, columns: Value) -> Value:
        return self.b.and_(self.b.add(columns, WIDEST - 1), -WIDEST)

    def _taken(self, element: str, count: Value) -> Value:
        place = self.free
        self.free = self.b.gep(place, element, count)
        return place

    # ------------------------------------------------------------------------------- operands

    def enter(self, entry: Value) -> None:
        """Finds the operands of a batch entry."""
        b = self.b
        self.entry, places = entry, []
        for d in reversed(range(self.kind.rank)):
            size = self.given(f"size {d}")
            places.append((d, b.urem(entry, size)))
            entry = b.udiv(entry, size)
        self.of = {name: self._operand(name, places) for name in self.kind.operands}

    def _operand(self, name: str, places: list[tuple[int, Value]]) -> Operand:
        b = self.b
        address = self.given(name, "ptr")
        for d, place in places:
            address = b.gep(address, "i8", b.mul(place, self.given(f"{name} {d}")))
        return Operand(address, self.given(f"{name} row"), self.given(f"{name} column"))

    def bring(self) -> None:
        """Brings together what is the same for all queries of the entry."""
        b, of = self.b, self.of
        for call, (kept, place) in self.once.items():
            right = of["v" if call in ("shares", "values") else "k"]
            if call in ("scores", "shares"):
                right = self.turned(right)
            terms, columns = self.rights[call]
            with b.if_(kept):
                told = {"brought": b.const("i64", -1), "panels": place}
                self._call(call, right, (b.const("i64", 0), terms, columns), told)

    def row_of(self, name: str, row: Value) -> Value:
        """The address of a row."""
        operand = self.of[name]
        return self.b.gep(operand.address, "i8", self.b.mul(row, operand.row))

    def own(self, base: Value, line: Value, row: Value) -> Value:
        """The address of a row of the thread's own."""
        return self.b.gep(base, self.element, self.b.mul(row, line))

    def multiply(
        self,
        call: str,
        left: Operand,
        right: Operand,
        sizes: tuple[Value, Value, Value],
        sums: Value,
        line: Value,
        onto: bool = False,
        first: Value | None = None,
    ) -> None:
        """sums = left @ right of (rows, terms, columns); right's rows are its columns' terms if it
        is said to be turned by who calls: `Operand.row` leads to the next term. `first` is the
        number of right's first column."""
        b = self.b
        told = {
            "left": left.address, "left step": left.row, "left term": left.column,
            "sums": sums, "line": line, "onto": b.const("i64", int(onto)),
        }  # fmt: skip
        if call in self.once:
            kept, place = self.once[call]
            if first is not None:
                place = b.add(place, b.mul(first, BLOCK * self.size))
            told["brought"] = b.select(kept, b.const("i64", 1), 0)
            told["panels"] = b.select(kept, place, 0)
        self._call(call, right, sizes, told)

    def _call(
        self, call: str, right: Operand, sizes: tuple[Value, Value, Value], told: dict[str, Value]
    ) -> None:
        rows, terms, columns = sizes
        alike = {
            "right": right.address, "right step": right.column, "right term": right.row,
            "rows": rows, "terms": terms, "columns": columns, "room": self.free,
        }  # fmt: skip
        call_product(self.b, self.job, self.given(call, "ptr"), alike | told)

    def turned(self, x: Operand) -> Operand:
        """The transpose."""
        return Operand(x.address, x.column, x.row)

    def mine(self, base: Value, line: Value) -> Operand:
        """Rows of the thread's own."""
        size = self.b.const("i64", self.size)
        return Operand(base, self.b.mul(line, self.size), size)

    # --------------------------------------------------------------------------------- shares

    def limit(self, last: Value) -> Value:
        """How many keys the queries before `last` look at, at most."""
        return self.b.smin(self.columns, last) if self.kind.causal else self.columns

    def compute_shares(self, first: Value, last: Value) -> None:
        """The exponentials of scores of these queries, and what makes shares of them."""
        b = self.b
        count, limit = b.sub(last, first), self.limit(last)
        q = self.of["q"]._replace(address=self.row_of("q", first))
        with b.loop(0, limit, CHUNK) as chunk:
            keys = self.of["k"]._replace(address=self.row_of("k", chunk.index))
            width = b.smin(b.sub(limit, chunk.index), CHUNK)
            sums = b.gep(self.shares, self.element, chunk.index)
            sizes = (count, self.features, width)
            keys = self.turned(keys)
            self.multiply("scores", q, keys, sizes, sums, self.line, first=chunk.index)
        with b.loop(0, count) as row:
            self._softmax(b.add(first, row.index), row.index, limit)

    def _softmax(self, query: Value, row: Value, limit: Value) -> None:
        b, e = self.b, self.e
        line, seen = self.own(self.shares, self.line, row), self.limit(b.add(query, 1))
        least = b.const(self.element, float("-inf"))

        def largest(span: Span, found: Value) -> Value:
            x = self._masked(e.mul(self.read(line, span), self.scale), query, span)
            self.write(x, line, span)
            return e.max(found, x if span.mask is None else b.select(span.mask, x, b.splat(least)))

        top = b.reduce_lanes(self.fold(seen, b.splat(least), largest), e.max)
        if self.kind.mask:  # a query that looks nowhere takes nothing
            top = b.select(b.fcmp("oeq", top, least), b.const(self.element, 0), top)
        wide = b.vector("double")

        def exponentials(span: Span, total: Value) -> Value:
            x = e.exp(e.sub(self.read(line, span), top))
            if span.mask is not None:
                x = b.select(span.mask, x, b.const(self.vector, 0))
            self.write(x, line, span)
            return b.fadd(total, b.fpext(x, "double"))

        total = self.fold(seen, b.const(wide, 0), exponentials)
        total = b.reduce_lanes(total, b.fadd)
        total = b.select(b.fcmp("oeq", total, 0.0), b.const("double", 1), total)
        factor = b.fdiv(b.const("double", 1), total)
        if self.element != "double":
            factor = b.fptrunc(factor, self.element)
        b.store(factor, self._factor(row))
        self.clear(line, seen, limit)

    def _factor(self, row: Value) -> Value:
        return self.b.gep(self.factors, self.element, row)

    def factor(self, row: Value) -> Value:
        """What the exponentials of a row are multiplied with."""
        return self.b.load(self.element, self._factor(row))

    def _masked(self, x: Value, query: Value, span: Span) -> Value:
        b = self.b
        if not self.kind.mask:
            return x
        line = self.row_of("mask", query)
        if self.kind.mask == "float":
            return self.e.add(x, self.read(line, span))
        e = Emitter(b, dtypes.bool_)
        looks = e.load(dtypes.bool_, b.gep(line, "i8", span.at), span.mask)
        return b.select(looks, x, b.const(self.vector, float("-inf")))

    def fold(self, count: Value, start: Value, step: Callable[[Span, Value], Value]) -> Value:
        """Folds columns, as many at a time as there are lanes; the last ones under a mask."""
        b = self.b
        whole = b.and_(count, -b.lanes)
        with b.loop(0, whole, b.lanes, [start]) as loop:
            loop.update(step(Span(loop.index, None), loop.carried[0]))
        return step(Span(whole, b.lane_mask(b.sub(count, whole))), loop.results[0])

    def clear(self, line: Value, start: Value, end: Value) -> None:
        """Zeros in columns."""
        b = self.b
        place = b.gep(line, self.element, start)
        zero = b.const(self.vector, 0)
        self.each_span(b.sub(end, start), lambda span: self.write(zero, place, span))

    def kept(self, query: Value, span: Span) -> Value:
        """What dropout multiplies shares with: 0, or the same for all others."""
        b, e = self.b, Emitter(self.b, dtypes.float32)
        before = b.mul(b.add(b.mul(self.entry, self.rows), query), self.columns)
        position = b.add(b.splat(b.add(before, span.at)), b.iota())
        emit = REGISTRY[self.kind.dropout].emit
        assert emit is not None
        draw = emit(e, position, self.given("seed"), self.given("offset"))
        p = b.fptrunc(self.given("p", "double"), "float")
        return b.select(e.ge(draw, p), b.splat(self._real("kept")), b.const(self.vector, 0))


class _Forward(_Template):
    def emit(self) -> None:
        """Some queries per work item."""
        b = self.b
        _, begin, end, _ = b.params
        with b.loop(begin, end) as item:
            self.enter(b.udiv(item.index, self.blocks))
            number = b.urem(item.index, self.blocks)
            with b.if_(b.or_(b.icmp("eq", item.index, begin), b.icmp("eq", number, 0))):
                self.bring()
            first = b.mul(number, self.block)
            last = b.smin(b.add(first, self.block), self.rows)
            self.compute_shares(first, last)
            if self.kind.dropout:
                self._drop(first, last)
            count = b.sub(last, first)
            sizes = (count, self.limit(last), self.width)
            shares = self.mine(self.shares, self.line)
            self.multiply("values", shares, self.of["v"], sizes, self.sums, self.widest)
            with b.loop(0, count) as row:
                self._store(self.row_of("out", b.add(first, row.index)), row.index)

    def _drop(self, first: Value, last: Value) -> None:
        b = self.b
        with b.loop(first, last) as query:
            line = self.own(self.shares, self.line, b.sub(query.index, first))

            def columns(span: Span) -> None:
                x = self.e.mul(self.read(line, span), self.kept(query.index, span))
                self.write(x, line, span)

            self.each_span(self.limit(b.add(query.index, 1)), columns)

    def _store(self, out: Value, row: Value) -> None:
        line, factor = self.own(self.sums, self.widest, row), self.factor(row)
        self.each_span(
            self.width,
            lambda span: self.write(self.e.mul(self.read(line, span), factor), out, span),
        )


class _Backward(_Template):
    def _lay_out(self) -> None:
        b = self.b
        super()._lay_out()
        self.slopes = self._taken(self.element, b.mul(self.block, self.line))
        self.keys = self._taken(self.element, b.mul(self.columns, self.widest))
        self.values = self._taken(self.element, b.mul(self.columns, self.widest))

    def emit(self) -> None:
        """A batch entry per work item, some queries at a time."""
        b = self.b
        _, begin, end, _ = b.params
        with b.loop(begin, end) as item:
            self.enter(item.index)
            self.bring()
            with b.loop(0, self.columns) as key:
                for base in (self.keys, self.values):
                    line = self.own(base, self.widest, key.index)
                    self.clear(line, b.const("i64", 0), self.widest)
            with b.loop(0, self.rows, self.block) as first:
                last = b.smin(b.add(first.index, self.block), self.rows)
                self._some(first.index, last)
            with b.loop(0, self.columns) as key:
                for name, base, width in (
                    ("gk", self.keys, self.features),
                    ("gv", self.values, self.width),
                ):
                    self._move(self.own(base, self.widest, key.index), name, key.index, width)

    def _move(self, line: Value, name: str, row: Value, width: Value) -> None:
        out = self.row_of(name, row)
        self.each_span(width, lambda span: self.write(self.read(line, span), out, span))

    def _some(self, first: Value, last: Value) -> None:
        """What some queries add to the gradients of keys and values, and their own."""
        b = self.b
        self.compute_shares(first, last)
        count, limit = b.sub(last, first), self.limit(last)
        g = self.of["g"]._replace(address=self.row_of("g", first))
        q = self.of["q"]._replace(address=self.row_of("q", first))
        with b.loop(0, limit, CHUNK) as chunk:
            values = self.of["v"]._replace(address=self.row_of("v", chunk.index))
            columns = b.smin(b.sub(limit, chunk.index), CHUNK)
            sums = b.gep(self.slopes, self.element, chunk.index)
            sizes = (count, self.width, columns)
            values = self.turned(values)
            self.multiply("shares", g, values, sizes, sums, self.line, first=chunk.index)
        with b.loop(0, count) as row:
            self._slopes_of_scores(b.add(first, row.index), row.index, limit)
        shares, slopes = self.mine(self.shares, self.line), self.mine(self.slopes, self.line)
        sizes = (limit, count, self.width)
        self.multiply("to values", self.turned(shares), g, sizes, self.values, self.widest, True)
        sizes = (limit, count, self.features)
        self.multiply("to keys", self.turned(slopes), q, sizes, self.keys, self.widest, True)
        sizes = (count, limit, self.features)
        self.multiply("to queries", slopes, self.of["k"], sizes, self.sums, self.widest)
        with b.loop(0, count) as row:
            line = self.own(self.sums, self.widest, row.index)
            self._move(line, "gq", b.add(first, row.index), self.features)

    def _slopes_of_scores(self, query: Value, row: Value, limit: Value) -> None:
        """From gradients of shares to those of scores; and shares as they were multiplied."""
        b, e = self.b, self.e
        shares, slopes = [self.own(x, self.line, row) for x in (self.shares, self.slopes)]
        seen, factor = self.limit(b.add(query, 1)), self.factor(row)

        def inner(span: Span, total: Value) -> Value:
            share, arriving = e.mul(self.read(shares, span), factor), self.read(slopes, span)
            if self.kind.dropout:
                arriving = e.mul(arriving, self.kept(query, span))
            self.write(share, shares, span)
            self.write(arriving, slopes, span)
            product = e.mul(share, arriving)
            if span.mask is not None:
                product = b.select(span.mask, product, b.const(self.vector, 0))
            return b.fadd(total, b.fpext(product, "double"))

        total = self.fold(seen, b.const(b.vector("double"), 0), inner)
        total = b.reduce_lanes(total, b.fadd)
        if self.element != "double":
            total = b.fptrunc(total, self.element)

        def columns(span: Span) -> None:
            share = self.read(shares, span)
            slope = e.mul(share, e.sub(self.read(slopes, span), total))
            self.write(e.mul(slope, self.scale), slopes, span)
            if self.kind.dropout:
                self.write(e.mul(share, self.kept(query, span)), shares, span)

        self.each_span(seen, columns)
        self.clear(slopes, seen, limit)
