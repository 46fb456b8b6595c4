"""`torch.utils._contextlib`: blocks that are also decorators, to derive from."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from livegrad.autograd.modes import generator_in_mode


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs in a block: `ctx`, made anew for each call if it can be called."""
    make = ctx if callable(ctx) else lambda: ctx
    if inspect.isgeneratorfunction(func):
        return generator_in_mode(make, func)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return run


class _DecoratorContextManager:
    """A block that can be used as a decorator."""

    def __call__(self, orig_func: Callable[..., Any]) -> Callable[..., Any]:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *raised: object) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """Another like it; to be overridden where it takes arguments."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that may decorate without parentheses."""

    def __new__(cls, orig_func: Any = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
