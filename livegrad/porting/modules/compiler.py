"""`torch.compiler`: what programs say to a compiler that has to be called.

livegrad compiles what runs, without being asked; so there is nothing to switch off or to reset,
and no code is ever "being compiled".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from livegrad import from_numpy
from livegrad.porting.modules.switches import switches
from livegrad.settings import compile as compile

F = TypeVar("F")

__path__: list[str] = []
config = switches(f"{__name__}.config")


def is_compiling() -> bool:
    """False: Python runs."""
    return False


def is_dynamo_compiling() -> bool:
    """False: Python runs."""
    return False


def is_exporting() -> bool:
    """False: Python runs."""
    return False


def reset() -> None:
    """Nothing: what was compiled stays right."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """["livegrad"]: whatever `torch.compile` is told, this is what compiles."""
    return ["livegrad"]


def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """The function; also as a decorator with options."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: F) -> F:
    """The function."""
    return fn


assume_constant_result = nested_compile_region = allow_in_graph


def substitute_in_graph(original: Any, **options: Any) -> Callable[[F], F]:
    """A decorator that changes nothing."""
    return lambda function: function


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function on NumPy arrays as one on tensors."""

    @functools.wraps(fn)
    def on_tensors(*args: Any) -> Any:
        return from_numpy(fn(*(getattr(x, "numpy", lambda x=x: x)() for x in args)))

    return on_tensors


def cudagraph_mark_step_begin() -> None:
    """Nothing: there is no GPU."""


@contextmanager
def set_stance(stance: str = "default", **options: Any) -> Iterator[None]:
    """Nothing, around a block."""
    yield
