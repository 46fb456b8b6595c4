"""Nested tuples, lists and dicts of tensors: taken apart, and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

LEAF = "*"
# Classes of programs that are taken apart, too: how, into items and what else there is to know, and
# how they are put together of both.
REGISTERED: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {}
_DICTS = (dict, OrderedDict, defaultdict)


class Shape:
    """How a nested value is built: a kind of container, its keys, the shapes of its items.

    Of a registered class, `keys` has what else there is to know of it.
    """

    __slots__ = ("items", "keys", "kind")

    def __init__(self, kind: Any, keys: Sequence[Any] = (), items: Sequence[Shape] = ()):
        self.kind = kind
        self.keys = tuple(keys)
        self.items = tuple(items)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Shape)
            and self.kind == other.kind
            and self.keys == other.keys
            and self.items == other.items
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def count(self) -> int:
        """Number of leaves."""
        return 1 if self.kind == LEAF else sum([item.count for item in self.items])

    def __repr__(self) -> str:
        if self.kind == LEAF:
            return LEAF
        inner = [str(item) for item in self.items]
        if self.keys and self.kind in _DICTS:
            inner = [f"{k!r}: {v}" for k, v in zip(self.keys, inner, strict=True)]
        return f"{self.kind.__name__}({', '.join(inner)})"


_ONE = Shape(LEAF)


def _is_named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


IsLeaf = Callable[[Any], bool] | None


def flatten(value: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Shape]:
    """The leaves of a nested value in order, and how it is built; `is_leaf` says what else is."""
    leaves: list[Any] = []
    return leaves, _shape_of(value, leaves, is_leaf)


def _shape_of(value: Any, leaves: list[Any], is_leaf: IsLeaf) -> Shape:
    if (is_leaf is not None and is_leaf(value)) or not is_container(type(value)):
        leaves.append(value)
        return _ONE
    items, keys = apart(value)
    return Shape(type(value), keys, [_shape_of(x, leaves, is_leaf) for x in items])


def is_container(kind: type) -> bool:
    """Whether values of a class are taken apart."""
    return kind in REGISTERED or kind in _DICTS or kind in (tuple, list) or _is_named(kind)


def apart(value: Any) -> tuple[Sequence[Any], tuple[Any, ...]]:
    """The items of a container, and its keys, or what else there is to know of it."""
    kind = type(value)
    if kind in REGISTERED:
        items, more = REGISTERED[kind][0](value)
        return items, (more,)
    if kind in _DICTS:
        return list(value.values()), tuple(value)
    return value, ()


def unflatten(leaves: Any, shape: Shape) -> Any:
    """The nested value built like `shape` of the given leaves."""
    return _build(iter(leaves), shape)


def _build(leaves: Iterator[Any], shape: Shape) -> Any:
    if shape.kind == LEAF:
        return next(leaves)
    items = [_build(leaves, item) for item in shape.items]
    if shape.kind in REGISTERED:
        return REGISTERED[shape.kind][1](items, shape.keys[0])
    if shape.kind in _DICTS:
        pairs = zip(shape.keys, items, strict=True)
        return dict(pairs) if shape.kind is defaultdict else shape.kind(pairs)
    return shape.kind(*items) if _is_named(shape.kind) else shape.kind(items)


def flatten_up_to(value: Any, shape: Shape) -> list[Any]:
    """What stands in `value` where `shape` has its leaves; ValueError if it is built otherwise."""
    if shape.kind == LEAF:
        return [value]
    if type(value) is not shape.kind and not (type(value) in _DICTS and shape.kind in _DICTS):
        raise ValueError(f"Node type mismatch; expected {shape.kind!r}, but got {type(value)!r}.")
    items = apart(value)[0]
    if shape.kind in _DICTS:
        if set(value) != set(shape.keys):
            raise ValueError(f"Node keys mismatch; expected {[*shape.keys]}, but got {[*value]}.")
        items = [value[key] for key in shape.keys]
    if len(items) != len(shape.items):
        raise ValueError(f"Node arity mismatch; expected {len(shape.items)}, but got {len(items)}.")
    pairs = zip(items, shape.items, strict=True)
    return [leaf for item, inner in pairs for leaf in flatten_up_to(item, inner)]


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A nested value with each leaf replaced."""
    leaves, shape = flatten(value)
    return unflatten([function(x) for x in leaves], shape)


def spread(prefix: Any, shape: Shape) -> list[Any] | None:
    """A leaf of `prefix` for each leaf of `shape`; None if it is not built like its beginning."""
    kind = type(prefix)
    container = kind in _DICTS or kind in (tuple, list) or _is_named(kind)
    if not container:
        return [prefix] * shape.count
    items = list(prefix.values()) if kind in _DICTS else list(prefix)
    alike = shape.kind != LEAF and (
        (kind in _DICTS and shape.kind in _DICTS and set(prefix) == set(shape.keys))
        or (kind not in _DICTS and shape.kind not in _DICTS and issubclass(shape.kind, kind))
    )
    if not alike or len(items) != len(shape.items):
        return None
    if kind in _DICTS:
        items = [prefix[k] for k in shape.keys]
    found = []
    for item, inner in zip(items, shape.items, strict=True):
        part = spread(item, inner)
        if part is None:
            return None
        found += part
    return found
