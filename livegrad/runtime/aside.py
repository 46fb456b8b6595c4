"""Plans for any size are made by another process, while the program goes on listing.

sizes of a structure that have cost enough ──► some of them as text ──► another process:
                                                                       planned, an outline learnt
program, or the next one ◄── found on disk ◄── plan and mould ◄──────── and compared (resizing.py)
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from livegrad.compiler.expand import Recorded
from livegrad.runtime.cpu.background import Task, is_possible
from livegrad.runtime.cpu.fitting import native_fit
from livegrad.runtime.cpu.known import is_on
from livegrad.runtime.resizing import store_from
from livegrad.runtime.structure import Structure, read_structure

# So many sizes show that an outline is right: see compiler/sizes.py.
EXAMPLES = 5
# Structures in which other sizes are equal: one of them has its examples first.
_MOST_WAYS = 8
# At a time, and in the life of a program: one of thousands of structures lists most of them.
_MOST_RUNNING, _MOST_BEGUN = 4, 64


def is_to_be_had() -> bool:
    """Whether another process can make plans that this one finds."""
    return is_on() and is_possible()


class Aside:
    """How far a plan for any size of one structure is: examples are gathered, it is being made, or
    there is nothing more to come of it."""

    def __init__(self) -> None:
        self._examples: dict[str, list[Any]] = {}
        self._task: Task | None = None
        self._made: str | None = None  # of which sizes are equal

    def is_there(self, recorded: Recorded) -> bool:
        """Whether it has been made, for sizes that are equal where these are; if nothing has been
        begun, this is an example."""
        if self._task is not None:
            if not self._task.is_over():
                return False
            self._task = None
        elif self._made is None and not _may_begin():
            return False
        structure = Structure(recorded)
        text = structure.text_without_sizes()
        if text is None:
            return False
        if self._made is not None:
            return text == self._made
        self._note(text, structure)
        return False

    def _note(self, text: str, structure: Structure) -> None:
        if len(self._examples) >= _MOST_WAYS and text not in self._examples:
            self._examples.clear()
        examples = self._examples.setdefault(text, [])
        examples.append(structure.plain())
        if len(examples) == EXAMPLES:
            self._made = text
            self._examples.clear()
            with contextlib.suppress(OSError):  # then nothing comes of it
                self._task = Task(_source(), json.dumps(examples).encode())
                _BEGUN.append(self._task)


# What other processes are at, or were, for all structures.
_BEGUN: list[Task] = []


def _may_begin() -> bool:
    if len(_BEGUN) < _MOST_RUNNING:
        return True
    return len(_BEGUN) < _MOST_BEGUN and sum([not x.is_over() for x in _BEGUN]) < _MOST_RUNNING


def _source() -> str:
    """What the other process runs: operations are known by name once their modules, those that are
    imported here, are imported there."""
    package = __name__.partition(".")[0]
    modules = [name for name in list(sys.modules) if name.partition(".")[0] == package]
    return f"import {', '.join(modules)}; from {__name__} import main; main()"


def main() -> None:
    """The other process: makes a plan for any size of what stands on standard input, and the native
    code that fits it, if that is on no disk."""
    native_fit()
    store_from([read_structure(told).recorded() for told in json.load(sys.stdin)])
