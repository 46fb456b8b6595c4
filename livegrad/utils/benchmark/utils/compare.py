"""Compare: measurements in a table, a row for each task and a column for each description."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import numpy as np

from livegrad.utils.benchmark.utils.common import (
    Measurement,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

_BEST, _GOOD = "\033[92m\033[1m", "\033[34m\033[1m"
_BAD, _WORST = "\033[2m\033[91m", "\033[31m\033[1m"
_END = "\033[0m\033[0m"


# The width of a note about a time that varies much.
_NOTE = len(" (! 100%)")


class Colorize(enum.Enum):
    """Among which times the best and the worst are shown."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """A table of measurements: one for each label, times in the unit of the smallest."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = False
        self._colorize = Colorize.NONE
        self._highlight = False

    def extend_results(self, results: list[Measurement]) -> None:
        """Adds measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(result)} instead."
                )
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Shows only the figures that can be trusted."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours the best and the worst of each column, or of each row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Marks times that vary much."""
        self._highlight = True

    def __str__(self) -> str:
        return "\n".join(self._render())

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def _render(self) -> list[str]:
        merged = Measurement.merge(self._results)
        labels = ordered_unique([m.label for m in merged])
        return [self._layout([m for m in merged if m.label == label]) for label in labels]

    def _layout(self, results: list[Measurement]) -> str:
        table = _Table(results, self._colorize, self._trim, self._highlight)
        return table.render()


class _Table:
    """The measurements of one label."""

    def __init__(
        self, results: list[Measurement], colorize: Colorize, trim: bool, highlight: bool
    ) -> None:
        self.results, self.colorize = results, colorize
        self.trim, self.highlight = trim, highlight
        self.label = str(results[0].label or results[0].stmt)
        self.unit, self.scale = select_unit(min([r.median for r in results]))
        self.columns = ordered_unique([r.description for r in results])
        environments = ordered_unique([r.env for r in results])
        self.rows = [
            (threads, env if len(environments) > 1 else None, name)
            for threads in sorted({r.num_threads for r in results})
            for env in environments
            for name in ordered_unique([r.as_row_name for r in results])
        ]
        self.cells = {self._place(r): r for r in results}
        self.rows = [
            row for row in self.rows if any([(row, c) in self.cells for c in self.columns])
        ]

    def _place(self, r: Measurement) -> Any:
        many = len({x.env for x in self.results}) > 1
        return (r.num_threads, r.env if many else None, r.as_row_name), r.description

    def render(self) -> str:
        names = [f"{env + ': ' if env else ''}{name}" for _, env, name in self.rows]
        texts = [[self._text(row, column) for column in self.columns] for row in self.rows]
        heads = [str(column or "") for column in self.columns]
        widths = [
            max([len(heads[i]), *[len(row[i]) for row in texts]]) for i in range(len(self.columns))
        ]
        margin = max([len(name) for name in names]) + 6
        lines = self._body(names, texts, widths, margin)
        head = " " * margin + "".join(
            [f"  |  {text.center(width)}" for text, width in zip(heads, widths, strict=True)]
        )
        title = f" {self.label} ".center(len(head) - 2, "-")
        end = f"Times are in {unit_to_english(self.unit)}s ({self.unit})."
        if self.highlight and any([r.has_warnings for r in self.results]):
            end += "\n(! XX%) Measurement has high variance, where XX is the IQR / median * 100."
        return "\n".join([f"[{title}]", head, *lines, "", end, ""])

    def _body(
        self, names: list[str], texts: list[list[str]], widths: list[int], margin: int
    ) -> list[str]:
        lines: list[str] = []
        total = margin + sum([width + 5 for width in widths])
        threads = None
        for row, name, cells in zip(self.rows, names, texts, strict=True):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(total, "-"))
            shown = [
                self._coloured(row, column, text.rjust(width))
                for column, text, width in zip(self.columns, cells, widths, strict=True)
            ]
            lines.append(
                f"      {name}".ljust(margin) + "".join([f"  |  {text}" for text in shown])
            )
        return lines

    def _text(self, row: Any, column: Any) -> str:
        if (row, column) not in self.cells:
            return ""
        m = self.cells[row, column]
        value = m.median / self.scale
        if self.trim:
            value = trim_sigfig(value, m.significant_figures)
            places = m.significant_figures - 1 - int(np.floor(np.log10(abs(value) or 1)))
            text = f"{value:.{max(0, places)}f}"
        else:
            text = f"{value:.1f}"
        beside = [r for r in self.results if r.description == column]
        if not self.highlight or not any([r.has_warnings for r in beside]):
            return text
        note = f" (! {m.iqr / m.median * 100:.0f}%)" if m.has_warnings else ""
        return text + note.ljust(_NOTE)

    def _compared(self, row: Any, column: Any) -> Iterable[Measurement]:
        """The measurements among which one is good or bad."""
        for (place, description), m in self.cells.items():
            if self.colorize is Colorize.ROWWISE and place == row:
                yield m
            elif self.colorize is not Colorize.COLUMNWISE:
                continue
            elif description == column and place[0] == row[0]:
                yield m

    def _coloured(self, row: Any, column: Any, text: str) -> str:
        if self.colorize is Colorize.NONE or (row, column) not in self.cells:
            return text
        medians = [m.median for m in self._compared(row, column)]
        here, best = self.cells[row, column].median, min(medians)
        if here <= max(best * 1.01, best + 100e-9):  # nobody can tell them apart
            return f"{_BEST}{text}{_END}"
        for factor, colour in ((5, _WORST), (2, _BAD)):
            if here >= best * factor:
                return f"{colour}{text}{_END}"
        return f"{_GOOD}{text}{_END}" if here <= best * 1.1 else text


__all__ = ["Colorize", "Compare"]
