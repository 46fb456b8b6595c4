"""Where a page may stop a program: between two steps, in the thread that trains.

What the page asks for is done there too, so that nothing looks at a tensor while it changes.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from livegrad.view.calls import NAMES
from livegrad.view.statistics import statistics_of

# Seconds that a page waits for a program to come to the end of a step.
PATIENCE = 10.0


class Gate:
    """Open, or closed until the page says otherwise; a number of steps may pass."""

    def __init__(
        self,
        tell_paused: Callable[[bool], None],
        ask_for: Callable[[int], None],
        follow_code: Callable[[bool], dict[str, Any]],
    ) -> None:
        self._tell_paused = tell_paused
        self._follow_code = follow_code
        self._ask_for = ask_for  # the next steps are looked at one by one
        self._changed = threading.Condition()
        self._closed = False
        self._may_pass = 0
        self._asked: queue.Queue[Callable[[], None]] = queue.Queue()

    def pass_through(self) -> None:
        """Called at the end of each step: waits while the gate is closed."""
        self._do_asked()
        if not self._closed:
            return
        with self._changed:
            if self._may_pass > 0:
                self._may_pass -= 1
            while self._closed and not self._may_pass:
                self._tell_paused(True)
                self._changed.wait(0.05)
                self._do_asked()
        self._tell_paused(self._closed)

    def _do_asked(self) -> None:
        while not self._asked.empty():
            self._asked.get()()

    def open(self) -> None:
        """Lets everything pass."""
        with self._changed:
            self._closed, self._may_pass = False, 0
            self._changed.notify_all()
        self._tell_paused(False)

    def ask(self, what: str, options: dict[str, str]) -> dict[str, Any]:
        """What a button of the page asks for."""
        if what == "pause":
            self._ask_for(2)
            self._closed = True
        elif what == "resume":
            self.open()
        elif what == "step":
            self._ask_for(2)
            with self._changed:
                self._closed, self._may_pass = True, self._may_pass + 1
                self._changed.notify_all()
        elif what == "live":
            return self._later(lambda: self._follow_code(options.get("on") == "1"))
        elif what == "inspect":
            return self._later(lambda: inspect(options.get("name", "")))
        else:
            raise LookupError(f"there is no control {what!r}")
        return {"closed": self._closed}

    def _later(self, function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of a function that the thread of the program calls between two steps."""
        done: queue.Queue[Any] = queue.Queue()

        def call() -> None:
            try:
                done.put(function())
            except LookupError as error:
                done.put({"problem": str(error)})

        self._asked.put(call)
        try:
            found: dict[str, Any] = done.get(timeout=PATIENCE)
        except queue.Empty:
            return {"problem": "the program has not come to the end of a step yet"}
        return found


def inspect(name: str) -> dict[str, Any]:
    """A parameter or buffer by its path: statistics, and its first values."""
    for path, tensor in NAMES.parameters():
        if path == name:
            node = tensor._node
            if node.buffer is None:
                raise LookupError(f"{name} has no value yet")
            first = tensor.detach().reshape(-1)[:64].tolist()
            return {
                "name": name,
                "shape": list(node.meta.shape),
                "dtype": node.meta.dtype.name,
                "stats": statistics_of(node),
                "first": [x if isinstance(x, (int, float, bool)) else str(x) for x in first],
            }
    raise LookupError(f"there is no parameter {name!r}")
