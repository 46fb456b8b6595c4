"""Classes of results with names, as PyTorch has them: `livegrad.return_types`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

RETURNED: dict[str, type] = {}


def returned(name: str) -> Callable[[type[Result]], type[Result]]:
    """Gives a class of named tuples the name that PyTorch's has, and shows it as that is shown."""

    def named(cls: Any) -> Any:
        cls.__name__ = cls.__qualname__ = name
        cls.__module__ = "livegrad.return_types"
        cls.__repr__ = _shown
        RETURNED[name] = cls
        return cls

    return named


def _shown(result: Any) -> str:
    fields = ",\n".join([f"{name}={x!r}" for name, x in zip(result._fields, result, strict=True)])
    return f"livegrad.return_types.{type(result).__name__}(\n{fields})"
