"""Code generation: all steps of a recurrent layer, and of its gradient, in one kernel each.

A work item is a few sequences, which it takes through all steps: sequences do not need each other.
What goes from step to step is in memory of the thread's own, a row per sequence.

    for each step     state @ weight ──► gates      compiler/panels.py
                      x + gates, cell ──► state     ops/layers/recurrent_cells.py, in registers

The gradient goes through the steps the other way round. A row's bits depend on its own sequence
alone: not on the others, on how many there are, nor on the number of threads.

Argument block: 0 work items; then addresses, the result's first (`recurrent_pointers`,
`slopes_pointers`); then what `NUMBERS` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from livegrad.compiler.builder import Builder
from livegrad.compiler.emitter import Emitter
from livegrad.compiler.panels import PANEL, Matrix, PanelProduct
from livegrad.compiler.spans import Span, Spans
from livegrad.compiler.values import Operand, Value
from livegrad.dtypes import DType
from livegrad.ops.layers.recurrent import Layout

# The slots behind the addresses: sequences, steps, rows, sequences of an item, widths.
NUMBERS = ("count", "steps", "rows", "chunk", "gate width", "state width", "hidden width")


class Lanes:
    """A register with Python's operators, for the rules of cells."""

    __slots__ = ("e", "value")

    def __init__(self, e: Emitter, value: Value) -> None:
        self.e, self.value = e, value

    def _with(self, rule: Callable[..., Value], *operands: Any) -> Lanes:
        values = [x.value if isinstance(x, Lanes) else x for x in operands]
        return Lanes(self.e, rule(self.e, *values))

    def __add__(self, other: Any) -> Lanes:
        return self._with(Emitter.add, self, other)

    def __sub__(self, other: Any) -> Lanes:
        return self._with(Emitter.sub, self, other)

    def __rsub__(self, other: Any) -> Lanes:
        return self._with(Emitter.sub, other, self)

    def __mul__(self, other: Any) -> Lanes:
        return self._with(Emitter.mul, self, other)


class OfLanes:
    """The functions that steps are written with, of registers."""

    @staticmethod
    def tanh(x: Lanes) -> Lanes:
        """Hyperbolic tangent."""
        return Lanes(x.e, x.e.tanh(x.value))

    @staticmethod
    def sigmoid(x: Lanes) -> Lanes:
        """1 / (1 + exp(-x))."""
        return Lanes(x.e, x.e.sigmoid(x.value))

    @staticmethod
    def relu(x: Lanes) -> Lanes:
        """x where it is positive, else 0."""
        return Lanes(x.e, x.e.max(x.value, 0))

    @staticmethod
    def is_positive(x: Lanes) -> Lanes:
        """1 where x > 0, else 0."""
        return Lanes(x.e, x.e.select(x.e.gt(x.value, 0), x.e.splat(1), 0))


class Step(NamedTuple):
    """A step of an item's sequences."""

    row: Value  # of all rows, that of the item's first sequence
    active: Value  # how many of the item's sequences take part
    first: Value  # the row of the first sequence of all
    time: Value


class _Template(Spans):
    """What both kernels have in common: chunks of sequences, steps, rows and columns."""

    def __init__(self, b: Builder, layout: Layout, dtype: DType, pointers: Iterable[str]) -> None:
        super().__init__(b, dtype)
        self.layout, self.cell = layout, layout.cell
        names = [*pointers, *NUMBERS]
        given = {
            name: b.load("i64" if name in NUMBERS else "ptr", b.gep(b.params[0], "i64", slot))
            for slot, name in enumerate(names, 1)
        }
        self.given = given
        self.count, self.steps, self.rows, self.chunk = [given[name] for name in NUMBERS[:4]]
        self.gate_width, self.width, self.hidden = [given[name] for name in NUMBERS[4:]]
        self.cell_width = self.hidden if self.cell.has_cell else b.const("i64", 0)
        self.kept_at = b.add(self.width, self.cell_width)
        kept_width = b.add(self.kept_at, b.mul(self.hidden, self.cell.kept))
        self.kept = self.matrix("kept", kept_width)
        self._take_scratch()

    def _take_scratch(self) -> None:
        """Memory of the thread's own; the block asks for as much (`scratch_columns`)."""
        b = self.b
        self.free = b.load("ptr", b.gep(b.params[3], "i64", 3))
        self.state, self.pre = self._room(self.width), self._room(self.gate_width)
        self.memory = self._room(self.hidden) if self.cell.has_cell else None
        self.middle = self._room(self.hidden) if self.layout.projected else None

    def _room(self, width: Value) -> Matrix:
        """A row of whole panels for each sequence of an item."""
        b = self.b
        stride = b.and_(b.add(width, PANEL - 1), -PANEL)
        found = Matrix(b, self.element, self.free, stride)
        self.free = b.gep(self.free, self.element, b.mul(stride, self.chunk))
        return found

    def matrix(self, name: str, width: Value) -> Matrix:
        """An input of so many columns."""
        return Matrix(self.b, self.element, self.given[name], width)

    def product(self, name: str, depth: Value, width: Value) -> PanelProduct:
        """Products with a weight, which is (depth, width) and in panels."""
        panels = self.b.lshr(self.b.add(width, PANEL - 1), PANEL.bit_length() - 1)
        return PanelProduct(self.b, self.element, self.given[name], depth, panels)

    @contextmanager
    def items(self) -> Iterator[None]:
        """For each item: its sequences are `first` … `first` + `mine` - 1."""
        b = self.b
        _, begin, end, _ = b.params
        with b.loop(begin, end) as item:
            self.first = b.mul(item.index, self.chunk)
            self.mine = b.smin(b.sub(self.count, self.first), self.chunk)
            yield

    @contextmanager
    def each_step(self, descending: bool) -> Iterator[Step]:
        """The steps in which some of the item's sequences take part, one after the other."""
        b = self.b
        start = self.rows if descending else b.const("i64", 0)
        with b.loop(0, self.steps, 1, [start]) as loop:
            (at,) = loop.carried
            time = b.sub(b.sub(self.steps, 1), loop.index) if descending else loop.index
            # Sizes that do not fit the rows are never followed outside of them.
            size = b.smin(self.size(time), at if descending else b.sub(self.rows, at))
            row = b.sub(at, size) if descending else at
            active = b.smin(b.sub(size, self.first), self.mine)
            with b.if_(b.icmp("sgt", active, 0)):
                yield Step(b.add(row, self.first), active, row, time)
            loop.update(row if descending else b.add(at, size))

    def size(self, time: Value) -> Value:
        """How many sequences take part in a step."""
        b = self.b
        if not self.layout.packed:
            return self.count
        size = b.load("i64", b.gep(self.given["sizes"], "i64", time))
        return b.smin(b.smax(size, 0), self.count)

    def load(self, row: Value, span: Span, offset: Operand = 0) -> Lanes:
        """Columns of a row, from `offset` on."""
        return Lanes(self.e, self.read(row, span, offset))

    def store(self, x: Lanes, row: Value, span: Span, offset: Operand = 0) -> None:
        """Writes columns of a row."""
        self.write(x.value, row, span, offset)

    def load_parts(self, row: Value, span: Span, count: int, first: Operand = 0) -> list[Lanes]:
        """The columns of each of `count` parts of a row, as wide as the hidden state."""
        return [self.load(row, span, at) for at in self._parts(count, first)]

    def store_parts(self, xs: Iterable[Lanes], row: Value, span: Span, first: Operand = 0) -> None:
        """Writes columns of parts that lie side by side."""
        found = list(xs)
        for x, at in zip(found, self._parts(len(found), first), strict=True):
            self.store(x, row, span, at)

    def _parts(self, count: int, first: Operand) -> list[Value]:
        b = self.b
        return [b.add(b.mul(self.hidden, i), first) for i in range(count)]

    def move(self, source: Value, target: Value, width: Value, offset: Operand = 0) -> None:
        """Columns of one row to another, from `offset` on."""
        self.each_span(width, lambda at: self.store(self.load(source, at), target, at, offset))

    def clear(self, row: Value, width: Value, offset: Operand = 0) -> None:
        """Zeros in so many columns, from `offset` on."""
        zero = Lanes(self.e, self.e.splat(0))
        self.each_span(width, lambda at: self.store(zero, row, at, offset))

    @property
    def carried(self) -> list[tuple[str, Matrix, Value]]:
        """What goes from step to step: states, and cells if there are any."""
        found = [("h", self.state, self.width)]
        return found if self.memory is None else [*found, ("c", self.memory, self.hidden)]


# --------------------------------------------------------------------------------------- forward


def recurrent_pointers(layout: Layout) -> list[str]:
    """The addresses in the block of the kernel, the result's first."""
    return ["kept", *layout.names]


def generate_recurrent(b: Builder, layout: tuple[Any, ...], dtype: DType) -> None:
    """Writes the kernel that takes sequences through all steps."""
    _Forward(b, Layout(*layout), dtype, recurrent_pointers(Layout(*layout))).emit()


class _Forward(_Template):
    def emit(self) -> None:
        """First states to the thread's memory, then step by step."""
        b = self.b
        gates = self.product("weight", self.width, self.gate_width)
        with self.items():
            with b.loop(0, self.mine) as row:
                for name, target, width in self.carried:
                    first = self.matrix(name, width).row(b.add(self.first, row.index))
                    self.move(first, target.row(row.index), width)
            with self.each_step(self.layout.reverse) as step:
                gates.emit(self.state, step.active, self.pre)
                with b.loop(0, step.active) as row:
                    self._row(b.add(step.row, row.index), row.index)
                if self.layout.projected:
                    self._project(step)

    def _row(self, place: Value, row: Value) -> None:
        """One step of one sequence, whose gates are there."""
        x_row = self.matrix("gates", self.gate_width).row(place)
        out, pre, state = self.kept.row(place), self.pre.row(row), self.state.row(row)
        memory = None if self.memory is None else self.memory.row(row)
        middle = None if self.middle is None else self.middle.row(row)

        def columns(span: Span) -> None:
            count = self.cell.gates
            x, s = self.load_parts(x_row, span, count), self.load_parts(pre, span, count)
            if self.layout.biased:
                bias = self.load_parts(self.given["bias"], span, count)
                s = [value + own for value, own in zip(s, bias, strict=True)]
            c = None if memory is None else self.load(memory, span)
            h = None if middle is not None else self.load(state, span)
            stepped = self.cell.step(OfLanes, x, s, h, c)
            self.store_parts(stepped.kept, out, span, self.kept_at)
            if memory is not None:
                self.store(stepped.c, memory, span)
                self.store(stepped.c, out, span, self.width)
            self.store(stepped.m, state if middle is None else middle, span)
            if middle is None:
                self.store(stepped.m, out, span)

        self.each_span(self.hidden, columns)

    def _project(self, step: Step) -> None:
        """The states of a step, from what its cells show."""
        assert self.middle is not None
        b = self.b
        product = self.product("projection", self.hidden, self.width)
        product.emit(self.middle, step.active, self.state)
        with b.loop(0, step.active) as row:
            out = self.kept.row(b.add(step.row, row.index))
            self.move(self.state.row(row.index), out, self.width)


# -------------------------------------------------------------------------------------- gradient


def slopes_pointers(layout: Layout) -> list[str]:
    """The addresses in the block of the gradient's kernel, the result's first."""
    read = [name for name in layout.names if name not in ("gates", "bias")]
    return ["slopes", "g", "kept", *read]


def generate_slopes(b: Builder, layout: tuple[Any, ...], dtype: DType) -> None:
    """Writes the kernel of the gradient."""
    _Backward(b, Layout(*layout), dtype, slopes_pointers(Layout(*layout))).emit()


class _Backward(_Template):
    def emit(self) -> None:
        """Gradients of states in the thread's memory, step by step from the last one taken."""
        b = self.b
        self._lay_out()
        handed = self.product("weight", self.gate_width, self.width)
        with self.items():
            with b.loop(0, self.mine) as row:
                for _, target, width in self.carried:
                    self.clear(target.row(row.index), width)
            with self.each_step(not self.layout.reverse) as step:
                if self.layout.projected:
                    self._unproject(step)
                with b.loop(0, step.active) as row:
                    self._row(step, row.index)
                # What goes to the state directly is there already.
                handed.emit(self.pre, step.active, self.state, onto=self.cell.apart)
            self._finish()

    def _lay_out(self) -> None:
        """Where the parts of the result's rows begin; see `Widths.slopes`."""
        b = self.b
        own = self.gate_width if self.cell.apart else b.const("i64", 0)
        self.before_at = b.add(self.gate_width, own)
        self.handed_at = b.add(self.before_at, self.width)
        self.shown_at = b.add(self.handed_at, self.width)
        projected = b.add(self.shown_at, self.hidden)
        width = projected if self.layout.projected else self.handed_at
        self.out, self.out_width = self.matrix("slopes", width), width
        self.g = self.matrix("g", self.kept_at)

    def _unproject(self, step: Step) -> None:
        """The gradient of what cells show, from that of the states."""
        assert self.middle is not None
        b = self.b
        with b.loop(0, step.active) as row:
            place = b.add(step.row, row.index)
            g, state, out = self.g.row(place), self.state.row(row.index), self.out.row(place)

            def columns(span: Span) -> None:
                arriving = self.load(g, span) + self.load(state, span)
                self.store(arriving, state, span)
                self.store(arriving, out, span, self.handed_at)

            self.each_span(self.width, columns)
        product = self.product("projection", self.width, self.hidden)
        product.emit(self.state, step.active, self.middle)

    def _row(self, step: Step, row: Value) -> None:
        """The slopes of one step of one sequence."""
        b = self.b
        place = b.add(step.row, row)
        g, kept, out = self.g.row(place), self.kept.row(place), self.out.row(place)
        pre, state = self.pre.row(row), self.state.row(row)
        memory = None if self.memory is None else self.memory.row(row)
        middle = None if self.middle is None else self.middle.row(row)
        h_row, c_row = self._before(step, row)

        def columns(span: Span) -> None:
            h = self.load(h_row, span) if middle is None else None
            m = self.load(kept, span) if middle is None else None
            gm = (
                self.load(g, span) + self.load(state, span)
                if middle is None
                else self.load(middle, span)
            )
            c = gc = None
            if memory is not None:
                c = self.load(c_row, span)
                gc = self.load(g, span, self.width) + self.load(memory, span)
            own = self.load_parts(kept, span, self.cell.kept, self.kept_at)
            slopes = self.cell.slopes(OfLanes, own, m, h, c, gm, gc)
            self.store_parts(slopes.x, out, span)
            self.store_parts(slopes.s, pre, span)
            if self.cell.apart:
                self.store_parts(slopes.s, out, span, self.gate_width)
                self.store(slopes.h, state, span)
            if memory is not None:
                self.store(slopes.c, memory, span)
            if middle is not None:
                self.store(slopes.m, out, span, self.shown_at)

        self.each_span(self.hidden, columns)
        self.move(h_row, out, self.width, self.before_at)

    def _before(self, step: Step, row: Value) -> tuple[Value, Value]:
        """Where a sequence's state and cell before a step are: in its last row, or the first."""
        b = self.b
        sequence = b.add(self.first, row)
        if self.layout.reverse:
            time = b.add(step.time, 1)
            there = b.icmp("slt", time, self.steps)
            size = self.size(b.smin(time, b.sub(self.steps, 1)))
            start = b.add(step.first, self.size(step.time))
            continued = b.and_(there, b.icmp("slt", sequence, size))
        else:
            continued = b.icmp("sgt", step.time, 0)
            start = b.sub(step.first, self.size(b.smax(b.sub(step.time, 1), 0)))
        # As in `each_step`: a row there is, whatever the sizes say.
        number = b.smax(b.smin(b.add(start, sequence), b.sub(self.rows, 1)), 0)
        last = self.kept.row(number)
        h = b.select(continued, last, self.matrix("h", self.width).row(sequence))
        if self.memory is None:
            return h, h
        first = self.matrix("c", self.hidden).row(sequence)
        return h, b.select(continued, b.gep(last, self.element, self.width), first)

    def _finish(self) -> None:
        """The gradients of first states and cells side by side, and zeros behind them."""
        b = self.b
        with b.loop(0, self.mine) as row:
            out = self.out.row(b.add(self.rows, b.add(self.first, row.index)))
            at = b.const("i64", 0)
            for _, source, width in self.carried:
                self.move(source.row(row.index), out, width, at)
                at = b.add(at, width)
            self.clear(out, b.sub(self.out_width, at), at)
