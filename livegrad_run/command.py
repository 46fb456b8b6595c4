"""The command `livegrad`: `livegrad run` at once, all else by `livegrad.cli`."""

from __future__ import annotations

import sys
from importlib import import_module

from livegrad_run import running

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    Start: TypeAlias = Callable[[str, Sequence[str]], None]


def main() -> None:
    """Does what the command line says."""
    program = program_of(sys.argv[1:])
    if program is None:
        import_module("livegrad.cli").main()
    else:
        start, name, arguments = program
        start(name, arguments)


def program_of(arguments: Sequence[str]) -> tuple[Start, str, Sequence[str]] | None:
    """How to run which program, if that is all that is asked for: `run`, and one option at most."""
    match arguments:
        case ["run", "-m", name, *rest] if name[:1] != "-":
            return running.run_module, name, rest
        case ["run", "-c", text, *rest] if text[:1] != "-":
            return running.run_text, text, rest
        case ["run", path, *rest] if path == "-" or path[:1] != "-":
            return running.run_script, path, rest
    return None
