"""Whether gradients are recorded: `no_grad` and its relatives, per thread.

Each is a context manager and a decorator; a decorated generator runs every step in the mode.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any

from livegrad.graph.state import LOCAL


class _Mode:
    """Sets the gradient mode on entry, and puts the earlier one back on exit."""

    __slots__ = ("_before",)

    grad = True
    inference: bool | None = None  # None leaves it as it is

    def __new__(cls, function: Any = None) -> Any:
        # `@no_grad` without parentheses gives the decorated function
        return object.__new__(cls) if function is None else cls()(function)

    def __init__(self) -> None:
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        state = LOCAL.state
        self._before.append((state.grad, state.inference))
        state.grad = self.grad
        if self.inference is not None:
            state.inference = self.inference

    def __exit__(self, *exception: object) -> None:
        state = LOCAL.state
        state.grad, state.inference = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, running in this mode."""
        mode = self._again()
        if inspect.isgeneratorfunction(function):
            return generator_in_mode(mode, function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return function(*args, **kwargs)

        return run

    def _again(self) -> Callable[[], Any]:
        """A maker of modes like this one, so that threads and recursion do not share one."""
        return type(self)


def generator_in_mode(
    mode: Callable[[], Any], function: Callable[..., Any]
) -> Callable[..., Generator[Any, Any, Any]]:
    """A generator function whose body runs in `mode`, its caller between steps does not."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with mode():
            inner = function(*args, **kwargs)
            resume: Callable[[], Any] = functools.partial(next, inner)
        while True:
            try:
                with mode():
                    value = resume()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield value
                resume = functools.partial(inner.send, sent)
            except GeneratorExit:
                with mode():
                    inner.close()
                raise
            except BaseException as error:
                resume = functools.partial(inner.throw, error)

    return run


class no_grad(_Mode):
    """Nothing recorded inside can be differentiated: no gradient is asked for.

    Args:
        function: what is decorated, if it is used as a decorator: `@lg.no_grad()` or `@lg.no_grad`.

    Example:
        >>> w = lg.ones(2, requires_grad=True)
        >>> with lg.no_grad():
        ...     y = w * 2
        >>> y.requires_grad
        False
    """

    __slots__ = ()
    grad = False


class enable_grad(_Mode):
    """Gradients are recorded inside, also within `no_grad`."""

    __slots__ = ()


class set_grad_enabled(_Mode):
    """Turns recording of gradients on or off, at once; as a context manager, for the block.

    Example:
        >>> x = lg.ones(1, requires_grad=True)
        >>> with lg.set_grad_enabled(False):
        ...     print((x * 2).requires_grad)
        False
    """

    __slots__ = ("_outer", "grad")

    def __new__(cls, mode: bool) -> Any:
        return object.__new__(cls)

    def __init__(self, mode: bool) -> None:
        super().__init__()
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' must be bool, not {type(mode).__name__}"
            )
        self.grad = mode
        state = LOCAL.state
        self._outer = state.grad
        state.grad = self.grad

    def __enter__(self) -> None:
        state = LOCAL.state
        self._before.append((self._outer, state.inference))
        state.grad = self.grad

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, running in this mode; the mode outside is what it was."""
        LOCAL.state.grad = self._outer
        return super().__call__(function)

    def _again(self) -> Callable[[], Any]:
        return functools.partial(set_grad_enabled, self.grad)


class inference_mode(_Mode):
    """Like `no_grad`, for code whose results will never take part in a gradient.

    Args:
        mode: False leaves inference mode for the block.

    Example:
        >>> x = lg.ones(1, requires_grad=True)
        >>> with lg.inference_mode():
        ...     print((x * 2).requires_grad)
        False
    """

    __slots__ = ("grad", "inference")

    def __new__(cls, mode: Any = True) -> Any:
        if callable(mode):
            return inference_mode(True)(mode)
        return object.__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.inference = bool(mode)
        self.grad = not mode

    def _again(self) -> Callable[[], Any]:
        return functools.partial(inference_mode, not self.grad)


def is_grad_enabled() -> bool:
    """Whether operations are being recorded for differentiation in this thread."""
    return LOCAL.state.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return LOCAL.state.inference
