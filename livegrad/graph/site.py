"""The user's line: the first frame outside livegrad."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from types import FrameType
from typing import Any

from livegrad.graph.node import Site
from livegrad.graph.state import LOCAL
from livegrad.native.calls import quotient, remainder, untrack
from livegrad.native.hot import hot

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Functions of Python's that only call others, ours or the user's: nobody's line is there.
_BETWEEN = {
    contextlib.contextmanager.__code__.co_filename,
    functools.wraps.__code__.co_filename,
}
# Files known to be livegrad's own, and files known not to be.
INSIDE: set[str] = set()
OUTSIDE: set[str] = set()
_getframe = sys._getframe


# Sites that were met lately, each at a place that its code and instruction tell. A program comes to
# the same lines again and again, and its nodes share these.
_MET: Any = [(None, -1)] * 1024
# Code of livegrad's own that was met lately, in the same way.
_INNER: Any = [None] * 256


@hot
def site_above(start: FrameType) -> Site:
    """The first place outside livegrad, from a frame on.

    What was met before is known by its code, without a look at the name of its file.
    """
    frame: FrameType | None = start
    while frame is not None:
        code = frame.f_code
        number = quotient(id(code), 16)
        if _INNER[remainder(number, 256)] is not code:
            instruction = frame.f_lasti + 0  # a number in a register
            site: Site = _MET[remainder(number + instruction, 1024)]
            if site[0] is code and site[1] == instruction:
                return site
            if _is_outside(code.co_filename):
                site = (code, instruction)
                untrack(site)
                _MET[remainder(number + instruction, 1024)] = site
                return site
            _INNER[remainder(number, 256)] = code
        frame = frame.f_back
    return start.f_code, start.f_lasti


@hot
def _is_outside(name: str) -> bool:
    if name in INSIDE:
        return False
    if name in OUTSIDE or not is_inside(name):
        OUTSIDE.add(name)
        return True
    INSIDE.add(name)
    return False


@hot
def user_site(start: FrameType | None = None) -> Site:
    """The place in the user's program that is running now: the first frame outside livegrad."""
    override = LOCAL.state.site
    if override is not None:
        return override
    return site_above(_getframe(1) if start is None else start)


def is_inside(name: str) -> bool:
    """Whether a file is livegrad's own, or one of Python's that nobody looks for a line in."""
    if name in _BETWEEN:
        return True
    # The demo is a user's program that happens to ship with the package.
    return name.startswith(_PACKAGE) and name != _PACKAGE + "demo.py"
