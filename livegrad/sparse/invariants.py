"""Whether the indices of new sparse tensors are checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


class _Checking:
    enabled = False


def is_checking(wanted: bool | None) -> bool:
    """Whether to check: as a call says, or else as is set."""
    return _Checking.enabled if wanted is None else bool(wanted)


class check_sparse_tensor_invariants:
    """Whether indices are checked, until `disable()`, or within a block or a decorated function.

    Unchecked ones that mean nothing are an error only when they are used.
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether indices are checked."""
        return _Checking.enabled

    @staticmethod
    def enable() -> None:
        """Has indices checked from now on."""
        _Checking.enabled = True

    @staticmethod
    def disable() -> None:
        """Has indices not checked from now on."""
        _Checking.enabled = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        self.saved_state, _Checking.enabled = _Checking.enabled, self.state

    def __exit__(self, *exception: object) -> None:
        assert self.saved_state is not None
        _Checking.enabled, self.saved_state = self.saved_state, None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return run
