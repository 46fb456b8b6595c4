"""Fetching: from the indices of a batch to the batch, in the main process or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.utils.data.collate import collates_tensors_as_usual, default_collate
from livegrad.utils.data.dataset import IterableDataset


class Fetcher:
    """Makes batches of a dataset by key."""

    def __init__(
        self, dataset: Any, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, index: Any) -> Any:
        """The batch of a list of indices, or without batching one sample."""
        return self._gathered(index) or self.collate_fn(self._samples(index))

    def _samples(self, index: Any) -> Any:
        dataset = self.dataset
        if not self.batched:
            return dataset[index]
        if getattr(dataset, "__getitems__", None):
            return dataset.__getitems__(index)
        return [dataset[i] for i in index]

    def _gathered(self, index: Any) -> Any:
        """The batch from a dataset that can give it collated, if it is collated as usual."""
        gather = getattr(self.dataset, "__getbatch__", None)
        usual = self.batched and self.collate_fn is default_collate and collates_tensors_as_usual()
        return gather(index) if usual and gather is not None else None


class StreamFetcher(Fetcher):
    """Makes batches of the next samples of a stream; StopIteration at its end."""

    def __init__(
        self, dataset: Any, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        super().__init__(dataset, batched, collate_fn, drop_last)
        self.stream = iter(dataset)
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """The batch of the next samples, as many as `index` is long."""
        return self.collate_fn(self._samples(index))

    def skip(self, index: Any) -> None:
        """Moves past a batch, as `fetch` does, without collating it."""
        self._samples(index)

    def _samples(self, index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.batched:
            return next(self.stream)
        samples = []
        for _ in index:
            try:
                samples.append(next(self.stream))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and self.ended):
            raise StopIteration
        return samples


def fetcher_for(
    dataset: Any, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
) -> Fetcher:
    """The fetcher for a dataset of this kind; a stream starts here."""
    kind = StreamFetcher if isinstance(dataset, IterableDataset) else Fetcher
    return kind(dataset, batched, collate_fn, drop_last)
