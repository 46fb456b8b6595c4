"""Line charts as SVG, drawn without any library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 44
COLOURS = ("#08519c", "#d94801", "#238b45", "#6a51a3", "#cb181d", "#636363")
MOST_POINTS = 2000  # of a line; more would not be seen

Points = Sequence[tuple[float, float]]


@dataclass
class Axis:
    """One axis: its name, its range, and whether it is logarithmic."""

    label: str
    log: bool = False
    low: float = 0.0
    high: float = 1.0

    def fit(self, values: list[float]) -> None:
        """Makes the range that of the values."""
        usable = [v for v in values if math.isfinite(v) and (v > 0 or not self.log)]
        self.low, self.high = (min(usable), max(usable)) if usable else (1.0, 2.0)
        if self.low == self.high:
            pad = abs(self.low) * 0.1 or 1.0
            self.low, self.high = self.low - pad * (not self.log), self.high + pad

    def place(self, value: float) -> float | None:
        """Where a value lies between 0 and 1; None if it cannot be drawn."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        if self.log:
            low, high = math.log10(self.low), math.log10(self.high)
            return (math.log10(value) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round numbers within the range."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            if last - first >= 1:
                every = max(1, (last - first) // 6)
                return [10.0**power for power in range(first, last + 1, every)]
            return [self.low, self.high]
        step = round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


@dataclass
class Chart:
    """Lines over a common axis, and marked points."""

    title: str
    x: Axis
    y: Axis
    lines: Mapping[str, Points] = field(default_factory=dict)
    faint: Points = ()  # behind the lines, without a name
    marks: dict[str, tuple[float, float]] = field(default_factory=dict)

    def svg(self) -> str:
        """The drawing as SVG text."""
        every = [p for points in (*self.lines.values(), self.faint) for p in points]
        self.x.fit([x for x, _ in every])
        self.y.fit([y for _, y in every])
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12" fill="#444">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            _text(WIDTH / 2, 18, self.title),
            _text(WIDTH / 2, HEIGHT - 8, self.x.label),
            *self._grid(),
            self._line(self.faint, 'stroke="#9ecae1"'),
        ]
        for number, (name, points) in enumerate(self.lines.items()):
            colour = COLOURS[number % len(COLOURS)]
            parts.append(self._line(points, f'stroke="{colour}" stroke-width="2"'))
            if len(self.lines) > 1:
                parts.append(_text(WIDTH - RIGHT, TOP + 14 * number, name, "end", colour))
        for name, point in self.marks.items():
            parts += self._mark(name, point)
        return "\n".join([*parts, "</svg>\n"])

    def _at(self, x: float, y: float) -> tuple[float, float] | None:
        across, up = self.x.place(x), self.y.place(y)
        if across is None or up is None:
            return None
        left = LEFT + (WIDTH - LEFT - RIGHT) * across
        return round(left, 1), round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up, 1)

    def _grid(self) -> list[str]:
        parts = [_text(12, TOP - 10, self.y.label, "start")]
        for value in self.y.ticks():
            at = self._at(self.x.low, value)
            if at is not None:
                parts.append(f'<path d="M{LEFT} {at[1]}H{WIDTH - RIGHT}" stroke="#ddd"/>')
                parts.append(_text(LEFT - 6, at[1] + 4, f"{value:.4g}", "end"))
        for value in self.x.ticks():
            at = self._at(value, self.y.low)
            if at is not None:
                parts.append(_text(at[0], HEIGHT - BOTTOM + 16, f"{value:.4g}"))
        return parts

    def _line(self, points: Points, style: str) -> str:
        """A line through the points; it is broken where one cannot be drawn."""
        thin = points[:: max(1, -(-len(points) // MOST_POINTS))]
        path, pen = [], "M"
        for x, y in thin:
            at = self._at(x, y)
            if at is None:
                pen = "M"
                continue
            path.append(f"{pen}{at[0]} {at[1]}")
            pen = "L"
        return f'<path d="{"".join(path)}" fill="none" {style}/>' if path else ""

    def _mark(self, name: str, point: tuple[float, float]) -> list[str]:
        at = self._at(*point)
        if at is None:
            return []
        colour = COLOURS[1]
        return [
            f'<circle cx="{at[0]}" cy="{at[1]}" r="4" fill="{colour}"/>',
            _text(at[0], at[1] - 10, name, colour=colour),
        ]

    def save(self, path: Any) -> None:
        """Writes the chart: SVG by ourselves, other formats with matplotlib."""
        path = Path(path)
        if path.suffix.lower() == ".svg":
            path.write_text(self.svg(), encoding="utf-8")
        else:
            self._save_with_matplotlib(path)

    def _save_with_matplotlib(self, path: Path) -> None:
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError(
                f"plot: {path.name} needs matplotlib, which is not installed. Save as .svg instead"
            ) from None
        figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100))
        axes = figure.subplots()
        if self.faint:
            axes.plot(*zip(*self.faint, strict=True), color="#9ecae1")
        for number, (name, points) in enumerate(self.lines.items()):
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(*zip(*points, strict=True), color=colour, label=name)
        for name, point in self.marks.items():
            axes.plot(*point, "o", color=COLOURS[1])
            axes.annotate(name, point)
        axes.set(title=self.title, xlabel=self.x.label, ylabel=self.y.label)
        axes.set_xscale("log" if self.x.log else "linear")
        axes.set_yscale("log" if self.y.log else "linear")
        if len(self.lines) > 1:
            axes.legend()
        figure.tight_layout()
        figure.savefig(path)


def _text(x: float, y: float, words: str, anchor: str = "middle", colour: str = "") -> str:
    fill = f' fill="{colour}"' if colour else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{fill}>{escape(words)}</text>'


def round_step(least: float) -> float:
    """The least of …, 0.1, 0.2, 0.5, 1, 2, 5, 10, … that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= least)
