"""The lines that programs are made of, by kind; each maker gives one line, or raises `Stuck`."""

from __future__ import annotations

from collections.abc import Callable

from . import arithmetic, autograd, creation, inplace, training, views
from .pen import Pen

Maker = Callable[[Pen], str]

KINDS: dict[str, tuple[int, Maker]] = {
    "creation": (10, creation.statement),
    "view": (22, views.statement),
    "write": (24, inplace.statement),
    "arithmetic": (20, arithmetic.statement),
    "autograd": (14, autograd.statement),
    "training": (4, training.statement),
}
