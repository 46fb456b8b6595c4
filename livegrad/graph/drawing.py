"""Errors about shapes that do not fit: PyTorch's line first, then the shapes with marks below.

mat1 and mat2 shapes cannot be multiplied (32x64 and 32x10)
  a (32, 64) @ b (32, 10)
         ~~       ~~
matmul: inner sizes differ; …
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from livegrad.graph.meta import Shape


class Shown(NamedTuple):
    """A shape in a drawing: what it is called, and which of its dims do not fit."""

    name: str
    shape: Shape
    marked: Collection[int] = ()


def in_a_row(*parts: Shown | str) -> str:
    """Shapes side by side, with what is between them, and a line of marks."""
    text = marks = "  "
    for part in parts:
        if isinstance(part, str):
            text, marks = text + part, marks + " " * len(part)
        else:
            drawn, below = _drawn(part)
            text, marks = text + drawn, marks + below
    return f"{text}\n{marks.rstrip()}"


def below_each_other(shown: Sequence[Shown], to_the_right: bool = True) -> str:
    """Shapes one below the other, dim below dim: from the last on, as they are broadcast."""
    rank = max([len(each.shape) for each in shown])
    names = max([len(each.name) for each in shown])
    rows = [[str(size) for size in each.shape] for each in shown]
    gaps = [rank - len(row) if to_the_right else 0 for row in rows]
    rows = [[""] * gap + row for gap, row in zip(gaps, rows, strict=True)]
    rows = [row + [""] * (rank - len(row)) for row in rows]
    widths = [max([len(row[i]) for row in rows]) for i in range(rank)]
    lines = []
    for each, row in zip(shown, rows, strict=True):
        cells = "  ".join([size.rjust(width) for size, width in zip(row, widths, strict=True)])
        lines.append(f"  {each.name.ljust(names)}   {cells}".rstrip())
    marked = {i + gap for each, gap in zip(shown, gaps, strict=True) for i in each.marked}
    below = "  ".join([("~" if i in marked else " ") * width for i, width in enumerate(widths)])
    return "\n".join([*lines, f"  {' ' * names}   {below}".rstrip()])


def _drawn(shown: Shown) -> tuple[str, str]:
    text, marks = f"{shown.name} (", " " * (len(shown.name) + 2)
    for i, size in enumerate(shown.shape):
        number = str(size)
        between = ", " if i + 1 < len(shown.shape) else ("," if len(shown.shape) == 1 else "")
        text += number + between
        marks += ("~" if i in shown.marked else " ") * len(number) + " " * len(between)
    return text + ")", marks + " "


__all__ = ["Shown", "below_each_other", "in_a_row"]
