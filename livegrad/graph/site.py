"""The user's line: the first frame outside livegrad."""

from __future__ import annotations

import os
import sys
from types import FrameType

from livegrad.graph.node import Site
from livegrad.graph.state import LOCAL
from livegrad.native.hot import hot

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Files known to be livegrad's own, and files known not to be.
INSIDE: set[str] = set()
OUTSIDE: set[str] = set()
_getframe = sys._getframe


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
                return frame.f_code, frame.f_lasti
            INSIDE.add(name)
        frame = frame.f_back
    bottom = _getframe(1)
    return bottom.f_code, bottom.f_lasti


def is_inside(name: str) -> bool:
    # The demo is a user's program that happens to ship with the package.
    return name.startswith(_PACKAGE) and name != _PACKAGE + "demo.py"
