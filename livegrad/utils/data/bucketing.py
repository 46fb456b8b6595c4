"""Batches of samples of similar length, so that little is padded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from livegrad.random import Generator
from livegrad.utils.data.drawing import own_generator, permutation
from livegrad.utils.data.sampler import Sampler, check_batching

Array = np.ndarray[Any, Any]


class LengthBucketSampler(Sampler[list[int]]):
    """Lists of indices of samples whose lengths are close, for `batch_sampler` of a loader.

        all, shuffled ──► pools of `pool_size` batches ──► each sorted by length ──► batches,
                                                                                     shuffled

    A larger pool brings lengths closer together, a smaller one makes batches more random. Without
    `shuffle` all samples are one pool and batches come from the shortest to the longest.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        drop_last: bool = False,
        shuffle: bool = True,
        pool_size: int = 100,
        generator: Generator | None = None,
    ) -> None:
        check_batching(batch_size, drop_last)
        if not isinstance(pool_size, int) or pool_size <= 0:
            raise ValueError(
                f"pool_size should be a positive integer value, but got pool_size={pool_size}"
            )
        self.lengths = np.asarray(lengths)
        if self.lengths.ndim != 1:
            raise ValueError(
                f"lengths should be a 1d sequence but given lengths have shape {self.lengths.shape}"
            )
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.pool_size = pool_size
        self.generator = generator

    def __iter__(self) -> Iterator[list[int]]:
        count = len(self.lengths)
        if not self.shuffle:
            batches = self._cut(np.arange(count))
            return iter([batch.tolist() for batch in batches])
        generator = own_generator(self.generator)
        order, pool = permutation(count, generator), self.batch_size * self.pool_size
        batches = []
        for start in range(0, count, pool):
            batches += self._cut(order[start : start + pool])
        return iter([batches[i].tolist() for i in permutation(len(batches), generator).tolist()])

    def _cut(self, pool: Array) -> list[Array]:
        """Batches of a pool; only that of all the longest may be short."""
        ordered = pool[np.argsort(self.lengths[pool], kind="stable")]
        size = self.batch_size
        batches = [ordered[i : i + size] for i in range(0, len(ordered), size)]
        if self.drop_last and batches and len(batches[-1]) < size:
            batches.pop()
        return batches

    def __len__(self) -> int:
        count = len(self.lengths)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
