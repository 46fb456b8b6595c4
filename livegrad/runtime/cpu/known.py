"""What an earlier process of this package has found out, on disk: kernels, pieces, plans.

An entry is found by a text that says the same in every process (graph/written.py), together with
all else that it depends on: a changed file of the package makes all of them unknown.
"""

from __future__ import annotations

from livegrad.compiler import debug
from livegrad.dtypes import get_default_dtype
from livegrad.native.stored import sources
from livegrad.runtime.cpu import jit


class Known:
    """Whether plans and pieces are looked for and stored: not by tests that change how they are
    made."""

    plans = not debug.wants("plan")  # which is to print the passes


def key_of(kind: str, text: str) -> str:
    """The key of what `text` says for the disk cache, which adds the processor."""
    # Rules make numbers of the default dtype.
    return f"{kind} {sources()} {get_default_dtype().name} {text}"


def is_on() -> bool:
    """Whether plans and pieces are stored."""
    return Known.plans and jit.disk_cache().directory is not None


def look_up(kind: str, text: str) -> bytes | None:
    """What is stored under a text."""
    return jit.stored_bytes(key_of(kind, text))


def keep(kind: str, text: str, data: bytes) -> None:
    """Stores something under a text, in place of what was."""
    jit.store_bytes(key_of(kind, text), data)
