"""What nested tensors of equal lengths share: where each component begins, and how long it is."""

from __future__ import annotations

import itertools
from typing import Any

from livegrad.creation import tensor
from livegrad.dtypes import int64
from livegrad.ops.elementwise import arithmetic, comparison
from livegrad.ops.picking import searching
from livegrad.sequences import arange

_numbers = itertools.count(1)


class NestedInt:
    """The size of a ragged dim: `j1`, times a number. It equals only itself."""

    __slots__ = ("factor", "number")

    def __init__(self, number: int, factor: int = 1) -> None:
        self.number = number
        self.factor = factor

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NestedInt):
            return False
        return (self.number, self.factor) == (other.number, other.factor)

    def __hash__(self) -> int:
        return hash((self.number, self.factor))

    def __mul__(self, other: int) -> NestedInt:
        return NestedInt(self.number, self.factor * other)

    __rmul__ = __mul__

    def __index__(self) -> int:
        raise TypeError(f"the size of a ragged dim, {self}, is no single number")

    __int__ = __index__

    # A ragged dim is taken to have at least two elements, whatever it has.
    def __ge__(self, other: Any) -> bool:
        return bool(self == other) or (isinstance(other, int) and other <= 2)

    def __gt__(self, other: Any) -> bool:
        return isinstance(other, int) and other < 2

    def __le__(self, other: Any) -> bool:
        return bool(self == other)

    def __lt__(self, other: Any) -> bool:
        return False


class Ragged:
    """Offsets, and lengths where there are gaps between components; tensors of int64, or int32.

    What Python must know of them, such as the longest, is read when it is first asked for.
    """

    def __init__(
        self,
        offsets: Any,
        lengths: Any = None,
        counts: list[int] | None = None,
        least: int | None = None,
        most: int | None = None,
    ) -> None:
        self.offsets = offsets
        self.lengths = lengths
        self.size = NestedInt(next(_numbers))
        self._counts = counts
        self._bounds = (least, most)

    def __reduce__(self) -> tuple[Any, ...]:
        return Ragged, (self.offsets, self.lengths, self._counts, *self._bounds)

    def __deepcopy__(self, memo: Any) -> Ragged:
        return self  # nothing of it ever changes

    @property
    def batch(self) -> int:
        """Number of components."""
        return int(self.offsets.shape[0]) - 1

    @property
    def counts(self) -> list[int]:
        """Length of each component."""
        if self._counts is None:
            self._counts = self.length_of_each().tolist()
        return self._counts

    @property
    def starts(self) -> list[int]:
        """Where each component begins."""
        if self.lengths is None:
            return [0, *itertools.accumulate(self.counts)][:-1]
        return self.offsets.tolist()[:-1]  # type: ignore[no-any-return]

    @property
    def longest(self) -> int:
        """The most that a component has."""
        if self._bounds[1] is not None:
            return self._bounds[1]
        return max(self.counts, default=0)

    @property
    def shortest(self) -> int:
        """The least that a component has."""
        if self._bounds[0] is not None:
            return self._bounds[0]
        return min(self.counts, default=0)

    def length_of_each(self) -> Any:
        """Lengths as a tensor."""
        if self.lengths is not None:
            return self.lengths
        return arithmetic.sub(self.offsets[1:], self.offsets[:-1])

    def component_of_each(self, total: int) -> Any:
        """To which component each of the packed elements belongs; there are no gaps."""
        return searching.searchsorted(self.offsets[1:], arange(total), right=True)

    def place_of_each(self, total: int) -> tuple[Any, Any]:
        """The component, and the place in it, of each of the packed elements."""
        component = self.component_of_each(total)
        return component, arithmetic.sub(arange(total), self.offsets[component])

    def places(self, longest: int) -> tuple[Any, Any]:
        """(components, longest): where each element of the padded form is, and whether it is."""
        along = arange(longest)
        there = comparison.lt(along, self.length_of_each()[:, None])
        return arithmetic.add(self.offsets[:-1][:, None], along), there


def of_counts(counts: list[int]) -> Ragged:
    """Components of these lengths, one after the other."""
    return Ragged(tensor([0, *itertools.accumulate(counts)], dtype=int64), None, list(counts))
