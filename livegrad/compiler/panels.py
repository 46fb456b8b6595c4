"""Products of a few rows with a matrix that lies in panels of sixteen columns.

    matrix (K, N)  ──►  panels (⌈N / 16⌉, K, 16), the last one filled up with zeros
                        lowerings/panels.py

    for each panel                        a panel stays in the nearest cache
        for each tile of rows             its sums stay in registers
            for k: sums += row[k] * panel[k]

Each sum runs over k from the first to the last by fused multiply-adds, however rows and panels are
tiled: a row's result depends on nothing but the row and the matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from livegrad.compiler.builder import Builder
from livegrad.compiler.values import Value, bytes_of, lanes_of, vector

PANEL = 16
# Sums that fit into the registers of hosts with sixteen of them: in rows of a panel if there are
# several rows, else in panels.
TILE_BYTES = 256
LONE_BYTES = 256


def full(size: int) -> int:
    """The columns of all panels together."""
    return (size + PANEL - 1) // PANEL * PANEL


def tile_rows(element: str) -> int:
    """How many rows are multiplied at once; memory for rows is rounded up to that."""
    return TILE_BYTES // (PANEL * bytes_of(element))


class Matrix:
    """Rows in memory: the first one's address, and elements from one to the next."""

    def __init__(self, b: Builder, element: str, address: Value, stride: Value) -> None:
        self.b, self.element = b, element
        self.address, self.stride = address, stride

    def row(self, number: Value) -> Value:
        """The address of a row."""
        return self.b.gep(self.address, self.element, self.b.mul(number, self.stride))


class PanelProduct:
    """Writes products of rows with one matrix: `panels` panels of `depth` rows at `address`."""

    def __init__(
        self, b: Builder, element: str, address: Value, depth: Value, panels: Value
    ) -> None:
        self.b, self.element = b, element
        self.address, self.depth, self.panels = address, depth, panels

    def emit(self, rows: Matrix, count: Value, out: Matrix, onto: bool = False) -> None:
        """The first `count` rows of `out` = those of `rows` @ matrix, added to them if `onto`.

        Rows of both up to a multiple of `tile_rows`, and all columns of panels, must be memory.
        """
        b = self.b
        self.rows, self.out, self.onto = rows, out, onto
        at_once = tile_rows(self.element)
        with (
            b.if_(b.icmp("sgt", count, 1)),
            b.loop(0, self.panels) as panel,
            b.loop(0, count, at_once) as row,
        ):
            self._tile([b.add(row.index, i) for i in range(at_once)], panel.index, 1, count)
        with b.if_(b.icmp("eq", count, 1)):
            first = [b.const("i64", 0)]
            side_by_side = LONE_BYTES // (PANEL * bytes_of(self.element))
            whole = b.and_(self.panels, -side_by_side)
            with b.loop(0, whole, side_by_side) as panel:
                self._tile(first, panel.index, side_by_side, count)
            with b.loop(whole, self.panels) as panel:
                self._tile(first, panel.index, 1, count)

    def _tile(self, rows: list[Value], panel: Value, width: int, count: Value) -> None:
        """Some rows with `width` panels: sums in registers. The first row is there."""
        b = self.b
        kind = vector(self.element, PANEL)
        numbers = [b.add(panel, i) for i in range(width)]
        size = b.mul(self.depth, PANEL)
        weights = [b.gep(self.address, self.element, b.mul(number, size)) for number in numbers]
        inputs = [self.rows.row(row) for row in rows]
        results = [
            [b.gep(self.out.row(row), self.element, b.mul(number, PANEL)) for number in numbers]
            for row in rows
        ]
        zero = b.const(kind, 0)
        starts = [b.load(kind, at) if self.onto else zero for places in results for at in places]
        with b.loop(0, self.depth, 1, starts) as k:
            at = b.mul(k.index, PANEL)
            columns = [b.load(kind, b.gep(place, self.element, at)) for place in weights]
            values = [b.load(self.element, b.gep(x, self.element, k.index)) for x in inputs]
            pairs = [(b.splat(x, PANEL), column) for x in values for column in columns]
            k.update([b.fma(*pair, acc) for pair, acc in zip(pairs, k.carried, strict=True)])
        for i, (row, places) in enumerate(zip(rows, results, strict=True)):
            sums = k.results[i * width : (i + 1) * width]
            if i == 0:
                self._store(sums, places)
            else:
                with b.if_(b.icmp("slt", row, count)):
                    self._store(sums, places)

    def _store(self, sums: list[Value], places: list[Value]) -> None:
        for value, place in zip(sums, places, strict=True):
            self.b.store(value, place)


def turned_square(b: Builder, rows: list[Value]) -> list[Value]:
    """The columns of a square of four or sixteen vectors, as many as each has lanes.

    Squares of four are turned first, then quarters of vectors change places: hosts move elements
    within a quarter in less time than across.
    """
    fours = [_turned_fours(b, rows[i : i + 4]) for i in range(0, len(rows), 4)]
    if len(rows) == 4:
        return fours[0]
    columns = [_turned_quarters(b, [four[i] for four in fours]) for i in range(4)]
    return [columns[i % 4][i // 4] for i in range(len(rows))]


def _turned_fours(b: Builder, rows: list[Value]) -> list[Value]:
    """Squares of four, side by side in four vectors, turned each by itself."""
    size = lanes_of(rows[0].type)

    def both(pair: Sequence[Value], lanes: Sequence[int]) -> Value:
        """In each four, some of the first's and of the other's, which are counted from 4 on."""
        places = [lane if lane < 4 else size + lane - 4 for lane in lanes]
        chosen = [first + lane for first in range(0, size, 4) for lane in places]
        return b.shuffle(pair[0], chosen, pair[1])

    low, high = [[both(rows[i : i + 2], lanes) for i in (0, 2)] for lanes in (_LOW, _HIGH)]
    return [both(pair, lanes) for pair in (low, high) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7))]


_LOW, _HIGH = (0, 4, 1, 5), (2, 6, 3, 7)


def _turned_quarters(b: Builder, rows: list[Value]) -> list[Value]:
    """Four vectors of the quarters with the same number of four vectors."""

    def both(pair: Sequence[Value], first: int) -> Value:
        """Every other quarter of two vectors."""
        chosen = [4 * quarter + i for quarter in range(first, 8, 2) for i in range(4)]
        return b.shuffle(pair[0], chosen, pair[1])

    even, odd = [[both(rows[i : i + 2], first) for i in (0, 2)] for first in (0, 1)]
    return [both(even, 0), both(odd, 0), both(even, 1), both(odd, 1)]
