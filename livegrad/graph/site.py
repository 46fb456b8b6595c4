"""The user's line: the first frame outside livegrad."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import Any

from livegrad.graph.node import Site
from livegrad.graph.state import LOCAL
from livegrad.native.calls import quotient, remainder, untrack
from livegrad.native.hot import hot

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Files known to be livegrad's own, and files known not to be.
INSIDE: set[str] = set()
OUTSIDE: set[str] = set()
_getframe = sys._getframe


# Sites that were met lately, each at a place that its code and instruction tell. A program comes to
# the same lines again and again, and its nodes share these.
_MET: Any = [(None, -1)] * 1024


@hot
def site_at(code: CodeType, instruction: int) -> Site:
    """A place in a program."""
    place = remainder(quotient(id(code), 16) + instruction, 1024)
    site: Site = _MET[place]
    if site[0] is code and site[1] == instruction:
        return site
    site = (code, instruction)
    untrack(site)
    _MET[place] = site
    return site


@hot
def user_site(start: FrameType | None = None) -> Site:
    """The place in the user's program that is running now: the first frame outside livegrad."""
    override = LOCAL.state.site
    if override is not None:
        return override
    frame: FrameType | None = _getframe(1) if start is None else start
    while frame is not None:
        name = frame.f_code.co_filename
        if name not in INSIDE:
            if name in OUTSIDE or not is_inside(name):
                OUTSIDE.add(name)
                return site_at(frame.f_code, frame.f_lasti)
            INSIDE.add(name)
        frame = frame.f_back
    bottom = _getframe(1)
    return site_at(bottom.f_code, bottom.f_lasti)


def is_inside(name: str) -> bool:
    # The demo is a user's program that happens to ship with the package.
    return name.startswith(_PACKAGE) and name != _PACKAGE + "demo.py"
