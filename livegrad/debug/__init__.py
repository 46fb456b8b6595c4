"""Finding what went wrong, and where time and memory go: see docs/debugging.md."""

from livegrad.debug.blaming import Blame as Blame, blame as blame
from livegrad.debug.memory import memory_report as memory_report, predict_peak as predict_peak
from livegrad.debug.profiling import Profile as Profile, profile as profile
