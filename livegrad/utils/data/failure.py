"""An exception on its way from a worker to the parent."""

from __future__ import annotations

import pickle
import traceback
from typing import Any


class _Verbatim(str):
    """Text whose repr is the text: KeyError shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """The class of an exception, if it can be pickled, and its traceback as text."""

    def __init__(self, error: BaseException, worker: int) -> None:
        self.name = type(error).__name__
        self.worker = worker
        self.text = "".join(traceback.format_exception(error))
        try:
            self.kind: bytes | None = pickle.dumps(type(error))
        except Exception:
            self.kind = None

    def error(self) -> Exception:
        """An exception of that class that quotes the worker's traceback."""
        message = (
            f"Caught {self.name} in DataLoader worker process {self.worker}.\nOriginal {self.text}"
        )
        try:
            kind: Any = pickle.loads(self.kind) if self.kind is not None else RuntimeError
            error: Exception = kind(_Verbatim(message) if kind is KeyError else message)
        except Exception:
            # A class that is unknown here, or wants other arguments.
            return RuntimeError(message)
        return error
