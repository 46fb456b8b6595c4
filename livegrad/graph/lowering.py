"""How an op names its lowering: the rules by which the compiler treats its nodes.

The rules are classes in compiler/lowerings, one file per kind of op. They know all of the compiler,
which is imported when the first plan is made; so an op only names file and class, and what the
class is to be told.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

_FOLDER = "livegrad.compiler.lowerings"


class Lowered(NamedTuple):
    """The name of a lowering, such as `scatter.Scatter`, and what it is told."""

    name: str
    told: dict[str, Any]

    def load(self) -> Any:
        """The lowering itself."""
        file, kind = self.name.split(".")
        return getattr(import_module(f"{_FOLDER}.{file}"), kind)(**self.told)


def lowered_by(name: str, **told: Any) -> Any:
    """For an op's `lower`: the class `name` in compiler/lowerings, made with these arguments.

    A `Lowered` stands for it, until the op is asked.
    """
    return Lowered(name, told)


def lowered_as(kind: str) -> Lowered:
    """The lowering of ops of a kind that name none."""
    plain = {"host": "base.Kernel", "leaf": "base.Lowering"}
    return Lowered(plain.get(kind, f"{kind}.{kind.capitalize()}"), {})
