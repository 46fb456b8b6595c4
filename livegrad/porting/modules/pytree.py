"""`torch.utils._pytree`: nested tuples, lists and dicts, taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.func.tree import (
    Shape as TreeSpec,
    flatten as tree_flatten,
    mapped as tree_map_leaves,
    unflatten as tree_unflatten,
)

PyTree = Any

__all__ = [
    "PyTree",
    "TreeSpec",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """A nested value with each leaf replaced, together with those at the same place in others."""
    if not rests:
        return tree_map_leaves(func, tree)
    leaves, shape = tree_flatten(tree)
    others = [tree_leaves(rest) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], shape)


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """A nested value with each leaf of a type replaced."""
    return tree_map_leaves(lambda x: func(x) if isinstance(x, kind) else x, tree)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree)[0]


def tree_structure(tree: Any) -> TreeSpec:
    """How a nested value is built."""
    return tree_flatten(tree)[1]


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether all leaves satisfy a predicate."""
    return all(pred(x) for x in tree_leaves(tree))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether some leaf satisfies a predicate."""
    return any(pred(x) for x in tree_leaves(tree))
