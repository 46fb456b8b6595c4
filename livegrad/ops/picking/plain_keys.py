"""Keys of ints and slices without a step, the commonest, on a short way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad.graph.meta import Shape
from livegrad.native.hot import hot, hot_slots

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

_new = object.__new__

ALL = ("all",)
INT = ("int",)
RUN = ("slice", 1)
REST = ...
SECOND = -2  # after one `...` there may be no other

Items = tuple[tuple[Any, ...], ...]


@hot_slots
class Parsed:
    """A key split up: what one INDEX node does, then index tensors at dims of its result.

    `turned` are dims of that result which negative steps turn round, before the index tensors.
    """

    __slots__ = ("advanced", "args", "items", "shape", "turned")

    def __init__(
        self,
        items: Items,
        args: tuple[int, ...],
        shape: Shape,
        advanced: list[tuple[int, Tensor]],
        turned: tuple[int, ...],
    ) -> None:
        self.items = items
        self.args = args
        self.shape = shape
        self.advanced = advanced
        self.turned = turned


@hot_slots
class _Latest:
    """The key that was parsed last: `x[key] += 1`, and a write by itself, ask more than once."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: tuple[Any, Shape, Parsed] | None = None


_LATEST = _Latest()


@hot
def parse_plainly(shape: Shape, key: Any) -> Parsed | None:
    """A key of ints in range, slices without a step, and one `...`; None of any other."""
    latest = _LATEST.found
    if latest is not None and latest[0] is key and latest[1] is shape:
        return latest[2]
    parts = key if type(key) is tuple else (key,)
    rest = len(shape) - len(parts)  # how many dims the key does not name; `...` is none of them
    if rest < -1 or not shape:
        return None
    items: list[tuple[Any, ...]] = []
    args = []
    sizes = []
    taken = 0
    for part in parts:
        if part is REST:
            if rest == SECOND:
                return None
            named = taken + rest + 1
            rest = SECOND
            while taken < named:
                items.append(ALL)
                sizes.append(shape[taken])
                taken += 1
            continue
        if taken == len(shape):
            return None
        size = shape[taken]
        taken += 1
        if type(part) is int:
            if part < 0:
                part = part + size
            if not 0 <= part < size:
                return None
            items.append(INT)
            args.append(part)
        elif type(part) is slice:
            start = part.start
            stop = part.stop
            if part.step is not None:
                return None
            if start is None and stop is None:
                items.append(ALL)
                sizes.append(size)
            else:
                first = _bound(start, size, 0)
                end = _bound(stop, size, size)
                if first is None or end is None:
                    return None
                items.append(RUN)
                args.append(first)
                sizes.append(end - first if end > first else 0)
        else:
            return None
    while taken < len(shape):
        items.append(ALL)
        sizes.append(shape[taken])
        taken += 1
    found = _new(Parsed)
    found.items = tuple(items)
    found.args = tuple(args)
    found.shape = tuple(sizes)
    found.advanced = []
    found.turned = ()
    _LATEST.found = (key, shape, found)
    return found


@hot
def _bound(bound: Any, size: Any, default: Any) -> Any:
    """A bound of a slice as a place from 0 to `size`; None if it is no int."""
    if bound is None:
        return default
    if type(bound) is not int:
        return None
    if bound < 0:
        bound = bound + size
        if bound < 0:
            return 0
    return size if bound > size else bound
