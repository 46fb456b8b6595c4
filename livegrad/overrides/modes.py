"""`TorchFunctionMode`: a block within which every public function is answered by an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from livegrad.overrides.asking import install
from livegrad.overrides.protocol import STATE


class TorchFunctionMode:
    """Override `__torch_function__`, then: `with MyMode(): ...`.

    It sees functions that make tensors, too. While it answers it is switched off, so that it may
    call `func`.
    """

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The result of `func(*args, **kwargs)`."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> TorchFunctionMode:
        install()
        STATE.modes = [*STATE.modes, self]
        return self

    def __exit__(self, *exception: object) -> None:
        STATE.modes = STATE.modes[:-1]

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchFunctionMode:
        """An old name of the constructor."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""


class AfterEach(TorchFunctionMode):
    """A mode that calls a function of its own whenever a public one has returned."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then = then

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The result of `func`, after what comes then."""
        result = func(*args, **(kwargs or {}))
        self.then()
        return result


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Nothing to do: a mode calls functions from Python, where the modes around it are asked."""
    yield


__all__ = ["AfterEach", "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch"]
