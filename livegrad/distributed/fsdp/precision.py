"""Parameters of a module cast to another type while it is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from livegrad.dtypes import DType
from livegrad.nn.module import Module
from livegrad.tensor import Tensor


def cast_parameters(modules: list[Module], dtype: DType) -> list[tuple[Module, str, Any]]:
    """Puts casts in the place of parameters, and says what was there; gradients go through."""
    before = []
    for module in modules:
        for name, p in list(module._parameters.items()):
            if p is not None and p.is_floating_point() and p.dtype is not dtype:
                before.append((module, name, p))
                module._parameters[name] = p.to(dtype)
    return before


def put_back(before: list[tuple[Module, str, Any]]) -> None:
    """Undoes it."""
    for module, name, p in before:
        module._parameters[name] = p


@contextmanager
def cast_within(modules: list[Module], dtype: DType | None) -> Iterator[None]:
    """Within it, the parameters of `modules` are of a type; None leaves them."""
    before = [] if dtype is None else cast_parameters(modules, dtype)
    try:
        yield
    finally:
        put_back(before)


def cast_floats(x: Any, dtype: DType | None) -> Any:
    """Floating tensors in tuples, lists and dicts as another type; None leaves them."""
    if dtype is None:
        return x
    if isinstance(x, Tensor):
        return x.to(dtype) if x.is_floating_point() else x
    if isinstance(x, dict):
        return {k: cast_floats(v, dtype) for k, v in x.items()}
    if isinstance(x, tuple | list):
        items = [cast_floats(v, dtype) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    return x
