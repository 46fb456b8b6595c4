"""Products of a few rows with a matrix that lies in panels of sixteen columns.

    matrix (K, N)  ──►  panels (⌈N / 16⌉, K, 16), the last one filled up with zeros

    for each panel                        a panel stays in the nearest cache
        for each tile of rows             its sums stay in registers
            for k: sums += row[k] * panel[k]

Each sum runs over k from the first to the last by fused multiply-adds, however rows and panels are
tiled: a row's result depends on nothing but the row and the matrix.
"""

from __future__ import annotations

from typing import Any

from livegrad.compiler.builder import Builder
from livegrad.compiler.values import Value, bytes_of, vector
from livegrad.graph.handle import node_of
from livegrad.graph.record import record
from livegrad.ops.shaping.joining import padded
from livegrad.ops.shaping.movement import PERMUTE, reshape_to

PANEL = 16
# Sums that fit into the registers of hosts with sixteen of them: in rows of a panel if there are
# several rows, else in panels.
TILE_BYTES = 256
LONE_BYTES = 256


def full(size: int) -> int:
    """The columns of all panels together."""
    return (size + PANEL - 1) // PANEL * PANEL


def in_panels(matrix: Any) -> Any:
    """A tensor (K, N) as (⌈N / 16⌉, K, 16)."""
    height, width = node_of(matrix).meta.shape
    wide = full(width)
    split = reshape_to(padded(matrix, 1, 0, wide), (height, wide // PANEL, PANEL))
    return record(PERMUTE, (split,), ((1, 0, 2),))


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
    """Writes products of rows with one matrix, of `depth` rows and `panels` panels, at `address`."""

    def __init__(
        self, b: Builder, element: str, address: Value, depth: Value, panels: Value
    ) -> None:
        self.b, self.element = b, element
        self.address, self.depth, self.panels = address, depth, panels

    def emit(self, rows: Matrix, count: Value, out: Matrix, onto: bool = False) -> None:
        """`out` = `rows` @ matrix, added to what is there if `onto`.

        Of both, rows up to a multiple of `tile_rows` are touched, and all columns of panels.
        """
        b = self.b
        at_once = tile_rows(self.element)
        with b.if_(b.icmp("sgt", count, 1)), b.loop(0, self.panels) as panel:
            with b.loop(0, count, at_once) as row:
                self._tile(rows, out, row.index, at_once, panel.index, 1, onto)
        with b.if_(b.icmp("eq", count, 1)):
            side_by_side = LONE_BYTES // (PANEL * bytes_of(self.element))
            whole = b.and_(self.panels, -side_by_side)
            first = b.const("i64", 0)
            with b.loop(0, whole, side_by_side) as panel:
                self._tile(rows, out, first, 1, panel.index, side_by_side, onto)
            with b.loop(whole, self.panels) as panel:
                self._tile(rows, out, first, 1, panel.index, 1, onto)

    def _tile(
        self, rows: Matrix, out: Matrix, row: Value, height: int, panel: Value, width: int,
        onto: bool,
    ) -> None:  # fmt: skip
        """The product of `height` rows with `width` panels."""
        b = self.b
        kind = vector(self.element, PANEL)
        numbers = [b.add(row, i) for i in range(height)]
        inputs = [rows.row(number) for number in numbers]
        size = b.mul(self.depth, PANEL)
        weights = [
            b.gep(self.address, self.element, b.mul(b.add(panel, i), size)) for i in range(width)
        ]
        results = [
            b.gep(out.row(number), self.element, b.mul(b.add(panel, i), PANEL))
            for number in numbers
            for i in range(width)
        ]
        zero = b.const(kind, 0)
        starts = [b.load(kind, place) if onto else zero for place in results]
        with b.loop(0, self.depth, 1, starts) as k:
            at = b.mul(k.index, PANEL)
            columns = [b.load(kind, b.gep(place, self.element, at)) for place in weights]
            values = [
                b.splat(b.load(self.element, b.gep(place, self.element, k.index)), PANEL)
                for place in inputs
            ]
            pairs = [(x, w) for x in values for w in columns]
            k.update(
                [b.fma(x, w, acc) for (x, w), acc in zip(pairs, k.carried, strict=True)]
            )
        for value, place in zip(k.results, results, strict=True):
            b.store(value, place)
