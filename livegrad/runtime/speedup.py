"""Replaces the functions marked `hot` by native code, once a program has shown that it repeats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any, ClassVar

from livegrad.compiler import debug
from livegrad.native import hot
from livegrad.runtime.cpu import follow, jit

# Fewer flushes than this are not worth it: loading takes some milliseconds, and the very first
# time on a machine, when LLVM has to compile, about half a second.
FLUSHES_BEFORE = 32


class Speedup:
    """Whether the hot functions have been replaced, or are not going to be."""

    decided = os.environ.get("LIVEGRAD_NATIVE", "") == "off"
    made: ClassVar[dict[FunctionType, Any]] = {}


def speed_up() -> None:
    """Translates and replaces the hot functions, if this interpreter is one we know."""
    Speedup.decided = True
    if not follow.available():
        return
    # Imported when needed: the translator takes longer to import than to load what it made.
    from livegrad.native.frame import Untranslatable
    from livegrad.native.install import exchange, translate

    try:
        Speedup.made = translate(
            hot.FUNCTIONS, hot.CLASSES, partial(jit.compile_kernel, inline=True)
        )
    except (Untranslatable, OSError, RuntimeError) as error:  # no source, or no LLVM passes
        if debug.wants("native"):
            debug.out(f"hot functions stay Python's: {error}")
        return
    exchange(Speedup.made)


@contextmanager
def original_functions() -> Iterator[None]:
    """Within it, the hot functions are those of Python again."""
    from livegrad.native.install import exchange

    exchange({native: function for function, native in Speedup.made.items()})
    try:
        yield
    finally:
        exchange(Speedup.made)
