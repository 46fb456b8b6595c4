"""Where bars are drawn: a terminal, a notebook, or a file that takes lines."""

from __future__ import annotations

import os
import sys
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from livegrad.train.progress import Progress

LEAST_GAP = 1.0  # seconds between two plain lines of a bar
MOST_GAP = 30.0  # and after this many there is one in any case


class Screen:
    """Draws the bars that are open; the first that was opened is the outermost."""

    def __init__(self) -> None:
        self.bars: list[Progress[Any]] = []

    def open(self, bar: Progress[Any]) -> None:
        """Shows a new bar."""
        bar.nested = bool(self.bars)
        self.bars.append(bar)
        self.start(bar)

    def close(self, bar: Progress[Any]) -> None:
        """Shows a bar for the last time; bars that an error left open within it go too."""
        place = self.bars.index(bar)
        inner, self.bars = self.bars[place:], self.bars[:place]
        for left in reversed(inner):
            self.finish(left)

    def start(self, bar: Progress[Any]) -> None:
        """A bar is new."""

    def draw(self, bar: Progress[Any]) -> None:
        """A bar has moved."""
        raise NotImplementedError

    def finish(self, bar: Progress[Any]) -> None:
        """A bar is done."""
        raise NotImplementedError

    def write(self, text: str) -> None:
        """Prints a line that stays."""
        raise NotImplementedError


class Lines(Screen):
    """Plain lines, for logs: one per tenth of a loop, and one at its end."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self.file = file
        self._last: dict[int, tuple[float, int]] = {}  # by bar: when, and at which tenth

    def start(self, bar: Progress[Any]) -> None:
        """Nothing is printed until there is something to say."""
        self._last[id(bar)] = (0.0, int(10 * (bar.share or 0)))

    def draw(self, bar: Progress[Any]) -> None:
        """Prints a line if a tenth is done, or much time has passed."""
        when, tenth = self._last[id(bar)]
        gap, now = bar.elapsed - when, int(10 * (bar.share or 0))
        if gap >= MOST_GAP or (gap >= LEAST_GAP and now > tenth):
            self._last[id(bar)] = (bar.elapsed, now)
            self.write(line(bar))

    def finish(self, bar: Progress[Any]) -> None:
        """Prints the last line."""
        del self._last[id(bar)]
        self.write(line(bar))

    def write(self, text: str) -> None:
        """Prints a line."""
        print(text, file=self.file, flush=True)


def line(bar: Progress[Any]) -> str:
    """`epoch 1  120/469  26%  loss 0.4312  431 it/s  0:00:12 ETA 0:01:05`."""
    share = "" if bar.share is None else f"{bar.share:.0%}"
    parts = [bar.description, bar.counted(), share, bar.figures(), bar.rate(), bar.times()]
    return "  ".join(part for part in parts if part)


class Terminal(Screen):
    """Bars by rich, redrawn in place. What the program prints meanwhile appears above them."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self.file = file
        self._live: Any = None
        self._tasks: dict[int, Any] = {}

    def start(self, bar: Progress[Any]) -> None:
        """Adds a bar below the others."""
        if self._live is None:
            self._live = self._begin()
        total = bar.total if bar.total else None
        task = self._live.add_task(bar.description, total=total, words="", counted="")
        self._tasks[id(bar)] = task
        self.draw(bar)

    def _begin(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress as Live, TextColumn

        console = Console(file=self.file)
        live = Live(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[counted]}", markup=False),
            TextColumn("{task.fields[words]}", markup=False),
            console=console,
            # No thread that redraws: workers of a DataLoader are forked from this process, and
            # values are only read where the program waits for them.
            auto_refresh=False,
            # What the program prints to a file still goes there.
            redirect_stdout=is_terminal(sys.stdout),
            redirect_stderr=is_terminal(sys.stderr),
        )
        live.start()
        return live

    def draw(self, bar: Progress[Any]) -> None:
        """Redraws all bars."""
        words = "  ".join(filter(None, [bar.figures(), bar.rate(), bar.times()]))
        self._live.update(
            self._tasks[id(bar)],
            completed=bar.count,
            description=bar.description,
            counted=bar.counted(),
            words=words,
        )
        self._live.refresh()

    def finish(self, bar: Progress[Any]) -> None:
        """An inner bar goes; the outermost stays, and ends the drawing."""
        self.draw(bar)
        task = self._tasks.pop(id(bar))
        if bar.nested:
            self._live.remove_task(task)
            self._live.refresh()
        else:
            self._live.stop()
            self._live = None

    def write(self, text: str) -> None:
        """Prints a line above the bars."""
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Notebook(Screen):
    """One output of a cell, which is replaced; needs IPython, and no widgets."""

    def __init__(self) -> None:
        super().__init__()
        self._handle: Any = None
        self._done: list[str] = []

    def _show(self) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found]

        rows = [*self._done, *map(row, self.bars)]
        content = HTML("<div>" + "".join(rows) + "</div>")
        if self._handle is None:
            self._handle = display(content, display_id=True)
        else:
            self._handle.update(content)

    def start(self, bar: Progress[Any]) -> None:
        """Adds a bar below the others."""
        self._show()

    def draw(self, bar: Progress[Any]) -> None:
        """Replaces the output."""
        self._show()

    def finish(self, bar: Progress[Any]) -> None:
        """An inner bar goes; the outermost stays."""
        if bar.nested:
            self._show()
            return
        self._done = [row(bar)]
        self._show()
        self._handle, self._done = None, []

    def write(self, text: str) -> None:
        """Prints a line."""
        print(text)


def row(bar: Progress[Any]) -> str:
    """A bar as HTML."""
    value = "" if bar.share is None else f'value="{bar.share:.4f}"'
    words = [bar.counted(), bar.figures(), bar.rate(), bar.times()]
    text = escape("  ".join(word for word in words if word))
    return (
        f'<div style="font-family:monospace">{escape(bar.description)} '
        f'<progress max="1" {value}></progress> {text}</div>'
    )


# --------------------------------------------------------------------------------- which of them

# Bars that are open at the same time share their screen.
_screens: dict[Any, Screen] = {}


def in_notebook() -> bool:
    """Whether the program runs in a notebook, whose output is not a terminal."""
    shell = sys.modules.get("IPython")
    find: Any = getattr(shell, "get_ipython", None)
    current = None if find is None else find()
    return current is not None and "IPKernelApp" in getattr(current, "config", {})


def is_terminal(file: Any) -> bool:
    """Whether a file is a terminal."""
    return bool(getattr(file, "isatty", lambda: False)())


def screen_for(file: Any) -> Screen:
    """The screen for bars that are drawn to `file`."""
    file = getattr(file, "rich_proxied_file", file)  # what rich puts in place of stderr meanwhile
    dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    notebook = file in (sys.stderr, sys.stdout) and in_notebook()
    key = None if notebook else file
    screen = _screens.get(key)
    if screen is not None and screen.bars:
        return screen
    for old in [k for k, s in _screens.items() if not s.bars]:
        del _screens[old]  # done with; files need not be kept for their sake
    if notebook:
        screen = Notebook()
    elif is_terminal(file) and not dumb:
        screen = Terminal(file)
    else:
        screen = Lines(file)
    _screens[key] = screen
    return screen
