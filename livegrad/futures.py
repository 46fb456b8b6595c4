"""Future: a value that is there later; what asynchronous functions give."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that another thread, or a later line, sets.

    `then(f)` is the future of what `f` makes of it; an error that was set, or that `f` raised, is
    raised where somebody waits.
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        self._changed = threading.Condition()
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether the value, or an error, is there."""
        return self._done

    def wait(self) -> T:
        """The value, as soon as it is there."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> T:
        """The value, which is there already; RuntimeError if it is not."""
        if not self._done:
            raise RuntimeError("value: the future has no value yet. Use wait()")
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[no-any-return]

    def set_result(self, result: T) -> None:
        """Says the value, once."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Says that there is an error instead of a value."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, result: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Future can only be marked completed once: it has a result already"
                )
            self._result, self._error, self._done = result, error, True
            waiting, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in waiting:
            callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The future of `callback(self)`, which is called when the value is there."""
        following: Future[S] = Future()

        def run(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        self._when_done(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Has `callback(self)` called when the value is there; its errors are only printed."""

        def run(done: Future[T]) -> None:
            try:
                callback(done)
            except Exception:
                import traceback

                traceback.print_exc()

        self._when_done(run)

    def _when_done(self, callback: Callable[[Future[T]], Any]) -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """The future of all of these, when all are done; the first error that occurs is its error."""
    together: Future[list[Future[Any]]] = Future()
    lock = threading.Lock()
    left = len(futures)
    if not futures:
        together.set_result([])

    def note(done: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            together.set_result(list(futures))

    for future in futures:
        future._when_done(note)
    return together


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The values of all of these; raises the first error, when all are done."""
    return [future.wait() for future in collect_all(futures).wait()]


__all__ = ["Future", "collect_all", "wait_all"]
