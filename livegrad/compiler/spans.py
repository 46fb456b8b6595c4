"""Rows of memory, sixteen columns at a time: for templates that walk them by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from livegrad.compiler.builder import Builder
from livegrad.compiler.emitter import Emitter, memory_element
from livegrad.compiler.values import Operand, Value
from livegrad.dtypes import DType


class Span(NamedTuple):
    """Sixteen columns: the first one's number, and which of them there are if not all."""

    at: Value
    mask: Value | None


class Spans:
    """Loads and stores of one dtype."""

    def __init__(self, b: Builder, dtype: DType) -> None:
        self.b, self.dtype = b, dtype
        self.e, self.element = Emitter(b, dtype), memory_element(dtype)

    def each_span(self, width: Value, body: Callable[[Span], None]) -> None:
        """`body` for all columns of a row, sixteen at a time."""
        b = self.b
        whole = b.and_(width, -b.lanes)
        with b.loop(0, whole, b.lanes) as loop:
            body(Span(loop.index, None))
        with b.if_(b.icmp("ne", whole, width)):
            body(Span(whole, b.lane_mask(b.sub(width, whole))))

    def read(self, row: Value, span: Span, offset: Operand = 0) -> Value:
        """Columns of a row, from `offset` on."""
        place = self.b.gep(row, self.element, self.b.add(span.at, offset))
        return self.e.load(self.dtype, place, span.mask)

    def write(self, x: Value, row: Value, span: Span, offset: Operand = 0) -> None:
        """Writes columns of a row."""
        place = self.b.gep(row, self.element, self.b.add(span.at, offset))
        self.e.store(self.dtype, x, place, span.mask)
