"""Is what a pickle made plain: known types, no cycles, neither too deep nor too large?"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from livegrad.device import Device
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle
from livegrad.graph.meta import Size
from livegrad.serialization.errors import MOST_DEPTH, MOST_OBJECTS
from livegrad.serialization.files import Source

_LEAVES = frozenset(
    (str, bytes, bytearray, int, float, bool, complex, type(None), DType, Device, Size)
)
_SEQUENCES = (list, tuple, set, frozenset)
_DICTS = (dict, Counter, OrderedDict)


def check_plain(source: Source, value: Any) -> None:
    """Raises unless `value` can be walked through safely.

    What is shared counts as often as it is met: forty lists, each holding the next one twice, would
    take for ever to walk through.
    """
    if _is_leaf(value):
        return
    done: dict[int, tuple[int, int]] = {}  # by identity: depth, and number of values within
    entered: set[int] = set()
    todo = [value]
    while todo:
        x = todo[-1]
        if id(x) in done:
            todo.pop()
            continue
        inner, leaves = _parts(source, x)
        if id(x) not in entered:
            entered.add(id(x))
            waiting = [p for p in inner if id(p) not in done]
            if any([id(p) in entered for p in waiting]):
                raise source.error("its data.pkl contains itself; expected no cycles")
            todo += waiting
            if waiting:
                continue
        todo.pop()
        depth = 1 + max([done[id(p)][0] for p in inner], default=0)
        count = leaves + 1 + sum([done[id(p)][1] for p in inner])
        if depth > MOST_DEPTH or count > MOST_OBJECTS:
            raise source.error(
                f"its data.pkl nests deeper than {MOST_DEPTH} containers, or comes to more than "
                f"{MOST_OBJECTS} values"
            )
        done[id(x)] = (depth, count)


def _is_leaf(x: Any) -> bool:
    return type(x) in _LEAVES or isinstance(x, Handle)


def _parts(source: Source, x: Any) -> tuple[list[Any], int]:
    """The containers directly within `x`, and how many other values are."""
    kind = type(x)
    if kind in _SEQUENCES:
        items: list[Any] = list(x)
    elif kind in _DICTS:
        items = [*x, *x.values()]
        if kind is OrderedDict:
            items += vars(x).values()
    else:
        name = getattr(x, "name", kind.__name__.lstrip("_"))
        raise source.error(
            f"its data.pkl holds a bare {name}; expected tensors and plain containers"
        )
    inner = [item for item in items if not _is_leaf(item)]
    return inner, len(items) - len(inner)
