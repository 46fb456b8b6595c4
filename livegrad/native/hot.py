"""Marks the functions that every recorded operation and every flush run through.

They are written in the subset of Python that `native/translate.py` understands, and replaced by
their translations once a program has flushed a few times.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

FUNCTIONS: list[FunctionType] = []
# Classes whose slots translated functions read and write in place.
CLASSES: list[type] = []


def hot(function: F) -> F:
    """Decorates a function, or a method, to be translated."""
    assert isinstance(function, FunctionType)
    FUNCTIONS.append(function)
    return function


def hot_slots(cls: C) -> C:
    """Decorates a class with slots that translated functions use."""
    CLASSES.append(cls)
    return cls


def is_method(function: FunctionType) -> bool:
    """Whether a function belongs to a class, by its qualified name."""
    return "." in function.__qualname__.rpartition("<locals>.")[2]
