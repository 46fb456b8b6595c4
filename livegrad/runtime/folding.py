"""Tracebacks of errors that a flush finds: the user's lines, not what lies between them.

    Traceback (most recent call last):
      File "train.py", line 80, in <module>        where a value was read
        print(loss.item())
      File "train.py", line 12, in forward         where the operation was recorded
        return self.embedding(words)
    IndexError: index 9 is out of bounds …

LIVEGRAD_TRACEBACK=full leaves them as they are.
"""

from __future__ import annotations

import sys
from types import CodeType, TracebackType
from typing import Any

from livegrad.environment import words
from livegrad.graph.node import Site, site_location
from livegrad.graph.site import is_inside

FULL = "full" in words("LIVEGRAD_TRACEBACK", "full")


def fold(error: Exception) -> None:
    """Takes the frames of the flush that found it from an error with a line of the user's."""
    site: Site | None = getattr(error, "recorded_at", None)
    if FULL or site is None or not site_location(site)[1]:
        return
    if sys.excepthook is sys.__excepthook__:  # nobody else's
        sys.excepthook = _show
    error.__traceback__ = _traceback_at(site)


def _traceback_at(site: Site) -> TracebackType:
    """A traceback that says that the error comes from a line which ran some time ago."""
    name, line = site_location(site)
    code: CodeType = compile("frame = getframe()", name, "exec")
    scope: dict[str, Any] = {"getframe": sys._getframe}
    exec(code.replace(co_name=site[0].co_name, co_qualname=site[0].co_qualname), scope)
    frame = scope["frame"]
    scope.clear()  # it would refer to the frame, which refers to it
    return TracebackType(None, frame, -1, line)


def _show(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
    """An uncaught error: the frames on the way from the user's line to the flush are left out."""
    if getattr(error, "recorded_at", None) is None:
        sys.__excepthook__(kind, error, tb)
        return
    entries = []
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    short: TracebackType | None = None
    for entry in reversed(entries):
        if not is_inside(entry.tb_frame.f_code.co_filename):
            short = TracebackType(short, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    import traceback  # for errors only

    traceback.print_exception(kind, error, short)
