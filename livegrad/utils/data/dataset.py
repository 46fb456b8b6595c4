"""Datasets: by key, as a stream, and made of one another."""

from __future__ import annotations

import itertools
import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.random import Generator, default_generator
from livegrad.utils.data.drawing import permutation
from livegrad.utils.data.memory import leaf_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """A map from keys to samples.

    A subclass defines `__getitem__`, usually `__len__`, and `__getitems__(indices)` if it can get
    a list of samples quicker than one by one.

    Example:
        >>> from livegrad.utils.data import DataLoader, Dataset
        >>> class Squares(Dataset):
        ...     def __len__(self):
        ...         return 4
        ...
        ...     def __getitem__(self, i):
        ...         return i, i * i
        >>> next(iter(DataLoader(Squares(), batch_size=4)))
        [tensor([0, 1, 2, 3]), tensor([0, 1, 4, 9])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """A stream of samples.

    Each worker of a loader iterates over its own copy: `__iter__` asks `get_worker_info()` which
    part of the stream it is to give.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Rows of tensors that have as many rows each.

    Args:
        tensors: all with as many rows.

    Example:
        >>> from livegrad.utils.data import TensorDataset
        >>> TensorDataset(lg.arange(3), lg.arange(3) * 10)[1]
        (tensor(1), tensor(10))
    """

    tensors: tuple[Any, ...]

    def __init__(self, *tensors: Any) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))

    def __getbatch__(self, indices: Any) -> list[Any] | None:
        """What `default_collate` makes of these rows, gathered at once; None if it cannot be."""
        if type(self).__getitem__ is not TensorDataset.__getitem__ or hasattr(self, "__getitems__"):
            return None
        if any(node_of(tensor).grad_to is not None for tensor in self.tensors):
            return None
        rows = np.asarray(indices)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not self._holds(rows):
            return None
        return [_gather(tensor, rows) for tensor in self.tensors]

    def _holds(self, rows: np.ndarray[Any, Any]) -> bool:
        return bool(rows.size) and rows.min() >= 0 and bool(rows.max() < len(self))


def _gather(tensor: Any, rows: np.ndarray[Any, Any]) -> Any:
    values = tensor._values("a batch")
    shape = (len(rows), *values.shape[1:])
    # Rows are in range, and "clip" writes to `out` where "raise" would write to a copy first.
    return leaf_of(shape, tensor.dtype, lambda out: values.take(rows, 0, out, "clip"))


class StackDataset(Dataset[Any]):
    """Datasets side by side: a sample is a tuple (or, by keywords, a dict) of their samples."""

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        lengths = {len(dataset) for dataset in args or kwargs.values()}
        if len(lengths) > 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths.pop()
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple([dataset[index] for dataset in self.datasets])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [_items(dataset, indices) for dataset in self.datasets.values()]
            return [
                dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)
            ]
        return list(zip(*[_items(dataset, indices) for dataset in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[Any]) -> Sequence[Any]:
    """Samples of a dataset, in its own way if it has one for many."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    items: Sequence[Any] = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}"
        )
    return items


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other."""

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Where each dataset ends."""
        return list(itertools.accumulate([len(part) for part in sequence]))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: Any) -> T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        place = bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[place - 1] if place else 0
        sample: T_co = self.datasets[place][idx - before]
        return sample


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for stream in self._streams():
            yield from stream

    def __len__(self) -> int:
        return sum([len(stream) for stream in self._streams()])


class Subset(Dataset[T_co]):
    """The samples of a dataset at some indices.

    A subclass that overrides `__getitem__` overrides `__getitems__` too, which loaders call.

    Example:
        >>> from livegrad.utils.data import Subset
        >>> list(Subset([10, 20, 30], [2, 0]))
        [30, 10]
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        kind: Any = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. When subclassing "
                "Subset and overriding __getitem__, you must also override __getitems__ to ensure "
                "DataLoader works correctly with your custom logic. A simple implementation:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> T_co:
        chosen = [self.indices[i] for i in idx] if isinstance(idx, list) else self.indices[idx]
        sample: T_co = self.dataset[chosen]
        return sample

    def __getitems__(self, indices: list[int]) -> Sequence[T_co]:
        chosen = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            samples: Sequence[T_co] = self.dataset.__getitems__(chosen)
            return samples
        return [self.dataset[i] for i in chosen]

    def __getbatch__(self, indices: Any) -> list[Any] | None:
        """See `TensorDataset.__getbatch__`."""
        gather = getattr(self.dataset, "__getbatch__", None)
        if gather is None or type(self).__getitems__ is not Subset.__getitems__:
            return None
        batch: list[Any] | None = gather([self.indices[i] for i in indices])
        return batch

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any,
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset[Any]]:
    """Random parts of a dataset that do not overlap, of given lengths or fractions.

    Fractions add up to 1; what rounding down leaves over is dealt out one by one, from the first
    part on.

    Args:
        dataset: anything with a length, and samples by index.
        lengths: how many samples each part has, or which fraction.
        generator: what draws the order; livegrad's default one if None.

    Example:
        >>> from livegrad.utils.data import random_split
        >>> [len(part) for part in random_split(range(10), [0.8, 0.2])]
        [8, 2]
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _whole_lengths(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    sizes = [int(length) for length in lengths]
    order = permutation(len(dataset), generator).tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def _whole_lengths(total: int, fractions: Sequence[float]) -> list[int]:
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return sizes
