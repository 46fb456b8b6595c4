"""An error that ended a run: the line, the module, and the shapes that met there."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Any

from livegrad.graph.handle import Handle
from livegrad.graph.site import is_inside
from livegrad.nn.module import Module
from livegrad.view.calls import NAMES


def failure_of(error: BaseException, module: str) -> dict[str, Any]:
    """What is told of an error."""
    last = _user_frame(error.__traceback__)
    found: dict[str, Any] = {
        "type": type(error).__name__,
        "text": str(error)[:4000],
        "module": module or _module_of(error.__traceback__),
        "traceback": "".join(traceback.format_exception(error))[-8000:],
        "file": "",
        "line": 0,
        "function": "",
        "shapes": {},
    }
    if last is not None:
        code = last.tb_frame.f_code
        found |= {"file": code.co_filename, "line": last.tb_lineno, "function": code.co_qualname}
        found["shapes"] = _shapes(last.tb_frame.f_locals)
    return found


def _module_of(trace: TracebackType | None) -> str:
    """The innermost module whose call is under way, if calls were not being noted."""
    found = ""
    while trace is not None:
        if trace.tb_frame.f_code is Module._called.__code__:
            found = NAMES.of(trace.tb_frame.f_locals["self"])
        trace = trace.tb_next
    return found


def _user_frame(trace: TracebackType | None) -> TracebackType | None:
    """The innermost frame of the user's program."""
    found = None
    while trace is not None:
        if not is_inside(trace.tb_frame.f_code.co_filename):
            found = trace
        trace = trace.tb_next
    return found


def _shapes(names: dict[str, Any]) -> dict[str, str]:
    """Shapes of the tensors that were at hand, by their names."""
    return {
        name: f"{list(x._node.meta.shape)} {x._node.meta.dtype.name}"
        for name, x in names.items()
        if isinstance(x, Handle)
    }
