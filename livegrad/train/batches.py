"""What a batch is: the inputs of a model, and the targets of its loss."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import chain
from typing import Any

from livegrad.creation import as_tensor
from livegrad.graph.handle import Handle
from livegrad.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

Loss = Callable[[Any, Any], Any]
# Computes the loss of a batch in the user's own way.
Step = Callable[[Any, Any], Any]


def split(batch: Any) -> tuple[tuple[Any, ...], Any]:
    """The inputs and the targets of a batch: all but the last, and the last."""
    if not isinstance(batch, list | tuple) or len(batch) < 2:
        raise TypeError(
            f"a batch is a {type(batch).__name__}; expected (inputs, targets). For other batches "
            "give step=…, a function of the model and a batch that returns the loss"
        )
    *inputs, targets = batch
    return tuple(_tensor(x) for x in inputs), _tensor(targets)


def _tensor(x: Any) -> Any:
    return as_tensor(x) if hasattr(x, "__array__") and not isinstance(x, Handle) else x


def size_of(batch: Any) -> int:
    """How many samples a batch has."""
    while isinstance(batch, Mapping | list | tuple) and len(batch):
        batch = next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0]
    shape: Any = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else 1


def as_loader(data: Any, batch_size: int, shuffle: bool) -> Any:
    """An iterable of batches: `data` itself, or a loader of a dataset or of whole arrays."""
    if isinstance(data, DataLoader):
        return data
    if isinstance(data, tuple) and all(hasattr(x, "shape") for x in data):
        data = TensorDataset(*[_tensor(x) for x in data])
    if isinstance(data, IterableDataset):
        return DataLoader(data, batch_size)
    if isinstance(data, Dataset):
        return DataLoader(data, batch_size, shuffle=shuffle)
    if isinstance(data, Iterator):
        raise TypeError(
            f"data is an iterator ({type(data).__name__}), which is spent after one epoch; "
            "expected something to iterate over again, such as a DataLoader or a list of batches"
        )
    return data


def step_with_closure(optimizer: Any, loss: Callable[[], Any]) -> None:
    """One step of an optimiser that computes the loss and its gradients several times."""

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)


def endless(data: Any) -> Generator[Any, None, None]:
    """The batches of `data` again and again."""
    while True:
        batches = iter(data)
        first = next(batches, None)
        if first is None:
            raise ValueError("there are no batches in the data")
        yield from chain([first], batches)
