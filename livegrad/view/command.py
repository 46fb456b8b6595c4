"""`livegrad view`: a program that is watched without a line added, or a record from a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from livegrad.view.files import checked as checked, save
from livegrad.view.session import View, Watch, view


def shown(files: Sequence[str], port: int, browser: bool) -> Callable[[], None]:
    """What shows records until Ctrl-C; they have been read when this returns."""
    made = view(*files, port=port, open=False)

    def show() -> None:
        _tell(made, browser)
        made.wait()

    return show


def run_watched(
    start: Callable[[], None], port: int, file: str | None, values: bool, browser: bool
) -> None:
    """Runs a program that is watched. With a file, writes the record there instead of showing it.

    The program's error, or the code it ends with, is that of the command.
    """
    if file is not None:
        _save_run(start, Path(file), values)
        return
    try:
        made = view(port=port, open=False, values=values)
    except RuntimeError as error:  # the port is in use
        sys.exit(f"Error: {error}")
    _tell(made, browser)
    try:
        start()
    except BaseException as error:
        made.stop(None if isinstance(error, SystemExit) else error)
        if not isinstance(error, KeyboardInterrupt):
            _stay(made)
        raise
    made.stop()
    _stay(made)


def _save_run(start: Callable[[], None], file: Path, values: bool) -> None:
    watching = Watch(values=values).start()
    try:
        start()
    except BaseException as error:
        watching.recorder.stop(None if isinstance(error, SystemExit) else error)
        raise
    finally:
        watching.recorder.stop()
        save(watching.document, file)
        print(f"livegrad view: the record is in {file}{_but(watching)}", file=sys.stderr)


def _tell(made: View, browser: bool) -> None:
    if browser:
        made.open()
    else:
        print(f"livegrad view: {made.url}", file=sys.stderr)


def _stay(made: View) -> None:
    # Ctrl-C may come as soon as it is spoken of.
    with suppress(KeyboardInterrupt):
        ended = f"livegrad view: the program has ended; {made.url} stays until Ctrl-C"
        print(f"{ended}{_but(made.watch)}", file=sys.stderr)
        made.wait()


def _but(watching: Watch | None) -> str:
    """What is said of a record with nothing in it: a program may compute with something else, or in
    other processes and threads."""
    if watching is None or watching.steps:
        return ""
    return " (nothing is in it: this thread has computed nothing with livegrad)"
