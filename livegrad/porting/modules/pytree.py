"""`torch.utils._pytree`: nested tuples, lists and dicts, taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from livegrad.func.tree import (
    REGISTERED,
    IsLeaf,
    Shape as TreeSpec,
    flatten as tree_flatten,
    flatten_up_to,
    unflatten as tree_unflatten,
)

PyTree = Any

__all__ = [
    "PyTree",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], Any],
    unflatten_fn: Callable[[Any, Any], Any],
    *unused: Any,
    **options: Any,
) -> None:
    """Has objects of a class taken apart: `flatten_fn` gives their items and a context."""
    if cls in REGISTERED:
        raise ValueError(f"{cls} is already registered as pytree node.")
    REGISTERED[cls] = (flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """The items of a dict with their keys, and the keys."""
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


@dataclass(frozen=True)
class MappingKey:
    """A place in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """A nested value with each leaf replaced, together with those at the same place in others."""
    leaves, shape = tree_flatten(tree, is_leaf)
    others = [flatten_up_to(rest, shape) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], shape)


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A nested value with each leaf of a type replaced."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, is_leaf=is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """How a nested value is built."""
    return tree_flatten(tree, is_leaf)[1]


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves satisfy a predicate."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether some leaf satisfies a predicate."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf))
