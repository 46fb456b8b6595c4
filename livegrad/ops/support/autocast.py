"""What happens to the inputs of operations inside `livegrad.autocast`.

Most operations say it on their record (`Op.autocast`), and `record` asks the `Caster` of the
thread. Functions that are made of several operations, or look at dtypes before they record, do it
themselves with what is here. Outside of autocast all of this is one test of a slot.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.state import LOCAL
from livegrad.ops.elementwise.arithmetic import cast

F = TypeVar("F", bound=Callable[..., Any])


class Caster:
    """Casts the inputs of operations as their rule says; float64 is never touched."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __call__(self, rule: str, inputs: Any) -> list[Any]:
        """`inputs`, those that are not floating tensors as they are."""
        inputs = list(inputs)
        if rule == "low":
            wanted = self.dtype
        elif rule == "float32" or any(_dtype(x) is dtypes.float32 for x in inputs):
            wanted = dtypes.float32
        else:
            wanted = self.dtype
        return [cast(x, wanted) if _may_change(x) else x for x in inputs]


def _dtype(x: Any) -> DType | None:
    return node_of(x).meta.dtype if isinstance(x, Handle) else None


def _may_change(x: Any) -> bool:
    dtype = _dtype(x)
    return dtype is not None and dtype.is_floating_point and dtype is not dtypes.float64


def is_on() -> bool:
    """Whether the thread is inside of autocast."""
    return LOCAL.state.caster is not None


def casted(rule: str, *inputs: Any) -> tuple[Any, ...]:
    """`inputs` as an operation with this rule would see them."""
    caster = LOCAL.state.caster
    return inputs if caster is None else tuple(caster(rule, inputs))


def in_float32(function: F) -> F:
    """Decorates a function whose floating arguments are float32 inside of autocast."""
    return _decorated(function, "float32")  # type: ignore[no-any-return]


def in_low(function: F) -> F:
    """Decorates a function whose floating arguments have autocast's dtype inside of it."""
    return _decorated(function, "low")  # type: ignore[no-any-return]


def _decorated(function: Any, rule: str) -> Any:
    inner = without_autocast(function)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        caster = LOCAL.state.caster
        if caster is None:
            return function(*args, **kwargs)
        named = caster(rule, kwargs.values())
        return inner(*caster(rule, args), **dict(zip(kwargs, named, strict=True)))

    return run


def without_autocast(function: F) -> F:
    """Decorates a function that autocast leaves alone, although it is made of what it casts."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        state = LOCAL.state
        caster = state.caster
        if caster is None:
            return function(*args, **kwargs)
        state.caster = None
        try:
            return function(*args, **kwargs)
        finally:
            state.caster = caster

    return run  # type: ignore[return-value]
