"""Replaces the functions marked `hot` by native code, once a program has shown that it repeats.

The program does not stop for it. Another process does the work, the very first time on a machine,
and puts it on disk; at some flush later on the functions are exchanged, all at once. Without a disk
cache, functions are translated in slices, a few per flush, and only what LLVM has to compile is
left to another process.

While a tracer, a profiler or a measurement of coverage is on, nothing is exchanged; one that is
switched on later sees built-in functions, with the names of their modules. While a global name
that the functions refer to is patched, the originals are in place.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, ClassVar

from livegrad.compiler import debug
from livegrad.native import hot
from livegrad.native.collector import lasting
from livegrad.native.install import exchange
from livegrad.native.subset import Untranslatable
from livegrad.native.watch import Watch
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import jit, translations
from livegrad.runtime.cpu.background import Compilation, Making, is_possible

# Fewer flushes than this are not worth it.
FLUSHES_BEFORE = 32
# Seconds of work in one flush.
_SLICE = 0.004

# What there is to do, in pieces. True: nothing but to wait, until the next flush.
Work = Generator[bool, None, None]


class Speedup:
    """Whether the hot functions have been replaced, or are not going to be.

    nn       on disk? ─► loaded ─► exchanged
    flush    1 ······ 32 ─► translated and compiled elsewhere ─► loaded ─► exchanged
    a call   Python's ························································ native
                                                      while a name is patched: Python's
    """

    decided = os.environ.get("LIVEGRAD_NATIVE", "") == "off"
    made: ClassVar[dict[FunctionType, Any]] = {}
    # The functions by the ids of all that were ever made, which stay alive.
    originals: ClassVar[dict[int, FunctionType]] = {}
    alive: ClassVar[list[Any]] = []
    # What they took for constants: while that has been patched, the originals are used.
    watch: Watch | None = None
    # Who wants the originals for a while.
    suspended = 0
    # How many there were when the disk was last looked at.
    looked = 0
    work: Work | None = None
    making: Making | None = None
    compilation: Compilation | None = None


@hot.hot_slots
class _Decided:
    """The hot functions that there were when it was decided; modules imported later have more."""

    __slots__ = ("functions",)

    def __init__(self) -> None:
        self.functions = 1 << 62 if Speedup.decided else 0


DECIDED = _Decided()


def load_stored() -> None:
    """Puts native functions in place that are on disk: when `livegrad.nn` is imported, so that the
    first steps of a program need not wait for it."""
    if len(hot.FUNCTIONS) > DECIDED.functions and is_time():
        go_on()


def is_time() -> bool:
    """Whether a flush is to do some of the work: often enough flushed, or the work is done already
    and on disk, which is looked for once per set of functions."""
    if counters.flushes >= FLUSHES_BEFORE:
        return True
    count = len(hot.FUNCTIONS)
    if Speedup.looked == count:
        return False
    Speedup.looked = count
    return _is_stored()


def _is_stored() -> bool:
    return not is_observed() and bool(translations.are_stored(_functions()))


def _functions() -> list[FunctionType]:
    """In one order whatever was imported first: the code is found on disk by their names."""
    return sorted(hot.FUNCTIONS, key=lambda f: (f.__module__, f.__qualname__))


def go_on() -> None:
    """Does a slice of the work."""
    end = time.thread_time() + _SLICE
    if Speedup.work is None:
        Speedup.work = _work(in_background=True)
    for waits in Speedup.work:
        if waits or time.thread_time() > end:
            return
    Speedup.work = None


def speed_up() -> None:
    """Does all of the work at once."""
    Speedup.work = None
    for _ in _work(in_background=False):
        pass


def _work(in_background: bool) -> Work:
    """Translates and replaces the hot functions, if this interpreter is one we know."""
    functions = _functions()
    if in_background:
        yield from _made_elsewhere(functions)
    try:
        made, watch = yield from translations.hot_functions(
            functions, Speedup.made, Speedup.originals, lambda ir: _compiled(ir, in_background)
        )
        Speedup.alive += made.values()
    except (Untranslatable, OSError, RuntimeError) as error:  # no source, or no LLVM passes
        if debug.wants("native"):
            debug.out(f"hot functions stay Python's: {error}")
        DECIDED.functions = 1 << 62
    else:
        while is_observed():
            if not in_background:
                return
            yield True
        _install(made, watch)
        DECIDED.functions = len(functions)
    Speedup.decided = True


def _made_elsewhere(functions: list[FunctionType]) -> Work:
    """Waits while another process translates and compiles functions, and puts them on disk.

    One that this process only translated would be gone with it, and short programs are many.
    """
    if not translations.can_store() or not is_possible() or translations.are_stored(functions):
        return
    if Speedup.making is None:  # else it was begun before an interrupt
        modules = ", ".join(sorted({x.__module__ for x in (*functions, *hot.CLASSES)}))
        Speedup.making = Making(f"import {modules}; from {__name__} import speed_up; speed_up()")
    while not Speedup.making.is_over():
        yield True
    Speedup.making = None


def is_observed() -> bool:
    """Whether a tracer, a profiler or a measurement of coverage is on: it is to see functions."""
    monitoring = getattr(sys, "monitoring", None)
    tools = [monitoring.get_tool(number) for number in range(6)] if monitoring else []
    return any([x is not None for x in (sys.gettrace(), sys.getprofile(), *tools)])


def _compiled(ir: str, in_background: bool) -> Generator[bool, None, bytes]:
    if not in_background or not is_possible():
        return jit.object_code(ir, inline=True)
    running = Speedup.compilation  # since before an interrupt, perhaps
    if running is None or running.ir != ir:
        running = Speedup.compilation = Compilation(ir)
    code = running.result()
    while code is None:
        yield True
        code = running.result()
    Speedup.compilation = None
    return code


def _install(made: dict[FunctionType, Any], watch: Watch) -> None:
    _put_originals_back()
    Speedup.made, Speedup.watch = made, watch
    with lasting():
        watch.begin(_choose)
        _choose()


def _choose(again: bool = False) -> None:
    """Puts the native functions in place, or the originals: if constants have been patched, or
    somebody wants them."""
    if not Speedup.made:
        return
    patched = Speedup.watch.changed if Speedup.watch is not None else ()
    if patched and debug.wants("native"):
        names = ", ".join([name for _, name in patched])
        debug.out(f"hot functions are Python's while {names} are patched")
    if Speedup.suspended or patched:
        _put_originals_back(again)
    else:
        exchange(Speedup.made, again)


def _put_originals_back(again: bool = False) -> None:
    if not Speedup.made:
        return
    exchange({native: function for function, native in Speedup.made.items()}, again)


@contextmanager
def original_functions() -> Iterator[None]:
    """Within it, the hot functions are those of Python again."""
    Speedup.suspended += 1
    _choose(again=True)
    try:
        yield
    finally:
        Speedup.suspended -= 1
        _choose(again=True)


def _forget_work() -> None:
    """In a forked child: what another process compiles is the parent's."""
    Speedup.work = Speedup.making = Speedup.compilation = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_work)
