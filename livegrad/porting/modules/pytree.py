"""`torch.utils._pytree`: nested tuples, lists and dicts, taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from livegrad.func.tree import (
    LEAF,
    REGISTERED,
    IsLeaf,
    Shape as TreeSpec,
    apart,
    flatten as tree_flatten,
    flatten_up_to,
    is_container,
    unflatten as tree_unflatten,
)

PyTree = Context = Any

__all__ = [
    "SUPPORTED_NODES",
    "Context",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_only",
    "tree_map_with_path",
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


def _list_flatten(d: Iterable[Any]) -> tuple[list[Any], None]:
    """The items of a list; no context."""
    return list(d), None


def _list_unflatten(values: Iterable[Any], context: None) -> list[Any]:
    """The list of the items."""
    return list(values)


def _list_flatten_with_keys(d: Iterable[Any]) -> tuple[list[tuple[Any, Any]], None]:
    """The items of a list with their places; no context."""
    return [(SequenceKey(i), v) for i, v in enumerate(d)], None


def is_structseq_instance(obj: Any) -> bool:
    """Whether `obj` is a tuple with names that C made, such as what `torch.max` gives there."""
    return isinstance(obj, tuple) and hasattr(type(obj), "n_sequence_fields")


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """The items of a dict with their keys, and the keys."""
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """The values of a dict, and its keys."""
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Iterable[Any]) -> dict[Any, Any]:
    """The dict of values and keys."""
    return dict(zip(context, values, strict=True))


@dataclass(frozen=True)
class MappingKey:
    """A place in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class SequenceKey:
    """A place in a tuple or list."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


KeyPath = tuple[Any, ...]


def keystr(kp: KeyPath) -> str:
    """A place in a nested value, as it is written in Python."""
    return "".join(map(str, kp))


def LeafSpec() -> TreeSpec:
    """How a leaf is built: it is not."""
    return TreeSpec(LEAF)


class NodeDef:
    """How values of a class are taken apart."""

    flatten_fn = staticmethod(apart)


class _Nodes:
    """What is taken apart, by class."""

    def __contains__(self, kind: Any) -> bool:
        return isinstance(kind, type) and is_container(kind)

    def __getitem__(self, kind: type) -> NodeDef:
        if kind not in self:
            raise KeyError(kind)
        return NodeDef()


SUPPORTED_NODES = _Nodes()


def _get_node_type(tree: Any) -> type:
    return type(tree)


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is not taken apart."""
    return (is_leaf is not None and is_leaf(tree)) or not is_container(type(tree))


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves with their places, and how the value is built."""
    leaves, shape = tree_flatten(tree, is_leaf)
    return list(zip(_places(shape, ()), leaves, strict=True)), shape


def _places(shape: TreeSpec, before: KeyPath) -> list[KeyPath]:
    """The places of the leaves, in order."""
    if shape.kind == LEAF:
        return [before]
    named = len(shape.keys) == len(shape.items) and issubclass(shape.kind, dict)
    keys = map(MappingKey, shape.keys) if named else map(SequenceKey, range(len(shape.items)))
    return [
        place
        for key, item in zip(keys, shape.items, strict=True)
        for place in _places(item, (*before, key))
    ]


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves with their places."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """A nested value with each leaf replaced by what `func` makes of its place and it."""
    leaves, shape = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    each = zip(_places(shape, ()), leaves, *others, strict=True)
    return tree_unflatten([func(*one) for one in each], shape)


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
