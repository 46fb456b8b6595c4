"""What a model remembers of the tokens before."""

from __future__ import annotations

from dataclasses import dataclass, field

from livegrad import Tensor, cat


@dataclass
class Cache:
    """Keys and values of positions so far, a pair per layer: (batch, heads, positions, size)."""

    pairs: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    @property
    def length(self) -> int:
        """How many positions there are."""
        return self.pairs[0][0].size(2) if self.pairs else 0

    def extended(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a layer, with those of new positions, which are remembered."""
        if layer == len(self.pairs):
            self.pairs.append((key, value))
        else:
            before = self.pairs[layer]
            self.pairs[layer] = cat([before[0], key], 2), cat([before[1], value], 2)
        return self.pairs[layer]

    def reordered(self, rows: Tensor) -> Cache:
        """The cache of other rows of the batch."""
        return Cache([(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.pairs])
