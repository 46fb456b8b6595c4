"""`record`: the error of a main function is left where the launcher looks for it."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class ChildFailedError(Exception):
    """A process that a launcher has started ended with an error."""


def record(fn: Callable[..., T], error_handler: Any = None) -> Callable[..., T]:
    """Decorates a main function: its error is written to TORCHELASTIC_ERROR_FILE, if that is set.

    The error is raised all the same.
    """

    @wraps(fn)
    def run(*args: Any, **kwargs: Any) -> T:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            if error_handler is not None:
                error_handler.record_exception(error)
            else:
                _write(error)
            raise

    return run


def _write(error: Exception) -> None:
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    said = {
        "message": f"{type(error).__name__}: {error}",
        "extraInfo": {
            "py_callstack": "".join(traceback.format_exception(error)),
            "timestamp": str(int(time.time())),
        },
    }
    Path(path).write_text(json.dumps({"message": said}), encoding="utf-8")


__all__ = ["ChildFailedError", "record"]
