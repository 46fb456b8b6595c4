"""Finding what went wrong, and where time and memory go: see docs/debugging.md."""

from livegrad.debug.annotations import (
    Bool as Bool,
    Complex as Complex,
    Float as Float,
    Int as Int,
    Shaped as Shaped,
    ShapeError as ShapeError,
    shapes as shapes,
)
from livegrad.debug.blaming import Blame as Blame, blame as blame
from livegrad.debug.breaking import Hit as Hit, breakpoint_on as breakpoint_on
from livegrad.debug.memory import memory_report as memory_report, predict_peak as predict_peak
from livegrad.debug.profiling import Profile as Profile, profile as profile
from livegrad.debug.reloading import Change as Change, Live as Live, live as live
from livegrad.ops.bookkeeping.ensuring import EnsureError as EnsureError, ensure as ensure
