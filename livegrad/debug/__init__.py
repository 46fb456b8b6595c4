"""Finding what went wrong: see docs/debugging.md."""

from livegrad.debug.blaming import Blame as Blame, blame as blame
