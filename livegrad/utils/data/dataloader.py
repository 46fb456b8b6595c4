"""The DataLoader: a dataset as an iterable of batches, made here or by worker processes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from livegrad.random import Generator
from livegrad.utils.data.collate import default_collate, default_convert
from livegrad.utils.data.dataset import IterableDataset
from livegrad.utils.data.info import get_worker_info as get_worker_info
from livegrad.utils.data.iterators import LoaderIterator, MainIterator, WorkerIterator
from livegrad.utils.data.position import Epoch, State, check_state, idle_state, restore_own
from livegrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from livegrad.utils.data.crew import Crew

T_co = TypeVar("T_co", covariant=True)
_collate_fn_t: TypeAlias = Callable[[list[Any]], Any]  # for annotations
_worker_init_fn_t: TypeAlias = Callable[[int], None]

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Forever(Sampler[None]):
    """None without end: streams are asked for the next sample, not for a certain one."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Batches of a dataset.

    Arguments are PyTorch's. Memory is never pinned: `pin_memory` is accepted. With `num_workers`,
    processes make batches ahead and pass them on in shared memory; a batch that the program keeps
    stays valid.

    **Randomness.** Each epoch draws a base seed from `generator` (livegrad's default one if there
    is none). In worker w, `get_worker_info().seed` is base seed + w. Before batch number i a worker
    seeds `random`, `numpy.random` and livegrad's default generator from the base seed and i, so
    augmentations with these do not depend on which worker makes the batch or what it made before.
    A generator of the dataset's own is best made of one of these in `__getitem__`:
    `numpy.random.default_rng(random.getrandbits(64))`. Without workers nothing is seeded: batches
    draw from the program's generators.

    **Resuming.** `state_dict()` is the position in the current epoch (numbers, strings, lists and
    dicts, fit for JSON); after `load_state_dict(state)`, the next iteration gives exactly the
    batches that had not been delivered, and later epochs are as they would have been. Batches that
    workers had made ahead do not count. Samples by key are not read again; a stream is read again
    up to the position. Without workers, a program that resumes restores its own generators.

    Args:
        dataset: samples by index, or a stream of them (`IterableDataset`).
        batch_size: samples in a batch; None gives samples as they are.
        shuffle: whether each epoch is in an order of its own.
        sampler: gives the indices, instead of `shuffle`.
        batch_sampler: gives lists of indices, instead of the four above and `drop_last`.
        num_workers: processes that make batches; 0 makes them here.
        collate_fn: makes a batch of a list of samples; stacks tensors, numbers and what holds them.
        pin_memory, pin_memory_device: accepted.
        drop_last: whether a last batch that is not full is left out.
        timeout: seconds to wait for a worker; 0 waits for ever.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: how workers start, "fork" or "spawn".
        generator: what draws orders and base seeds.
        prefetch_factor: batches that each worker makes ahead.
        persistent_workers: whether workers live on from one epoch to the next.
        in_order: whether batches come in the order of the indices, or as they are ready.

    Example:
        >>> from livegrad.utils.data import DataLoader
        >>> [batch.tolist() for batch in DataLoader(lg.arange(5), batch_size=2)]
        [[0, 1], [2, 3], [4]]
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Iterable[Any]
    batch_sampler: Iterable[Any] | None
    pin_memory_device: str
    prefetch_factor: int | None
    _initialised = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        prefetch_factor = _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._streaming = isinstance(dataset, IterableDataset)
        if self._streaming:
            _check_stream(shuffle, sampler, batch_sampler)
        _check_sampling(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            sampler = self._default_sampler(dataset, bool(shuffle), generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self._batched = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order

        self._said_length: int | None = None  # what len() has told of a stream
        self._crew: Crew | None = None  # workers that persist
        self._epoch: Epoch | None = None
        self._resume: State | None = None
        self._initialised = True
        self.check_worker_number_rationality()

    def _default_sampler(
        self, dataset: Any, shuffle: bool, generator: Generator | None
    ) -> Sampler[Any]:
        if self._streaming:
            return _Forever()
        return (
            RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialised and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    # ---- iterating -----------------------------------------------------------------------

    def __iter__(self) -> LoaderIterator:
        if self.num_workers == 0:
            return MainIterator(self)
        self.check_worker_number_rationality()
        return WorkerIterator(self)

    @property
    def _index_sampler(self) -> Iterable[Any]:
        """What gives the indices of a batch, or of a sample if there are no batches."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if not self._streaming:
            return len(self._index_sampler)  # type: ignore[arg-type]
        length = self._said_length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    # ---- position ------------------------------------------------------------------------

    def state_dict(self) -> State:
        """The position in the current epoch, or between epochs; see the class."""
        if self._resume is not None:
            return self._resume
        if self._epoch is None or self._epoch.finished:
            return idle_state(self)
        return self._epoch.state(self)

    def load_state_dict(self, state_dict: State) -> None:
        """Has the next iteration begin where `state_dict()` was called."""
        check_state(state_dict, self)
        self._epoch = None
        if state_dict["running"]:
            self._resume = state_dict
        else:
            self._resume = None
            restore_own(self, state_dict["start"])

    # ---- processes -----------------------------------------------------------------------

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started; None for Python's default (fork on Linux up to 3.13)."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._multiprocessing_context = None if context is None else self._checked(context)

    def _checked(self, context: Any) -> Any:
        import multiprocessing

        if self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading "
                f"(num_workers > 0), but got num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            valid = multiprocessing.get_all_start_methods()
            if context not in valid:
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{valid!r}, but got multiprocessing_context={context!r}"
                )
            return multiprocessing.get_context(context)
        if not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string "
                "specifying the start method, but got "
                f"multiprocessing_context={context}"
            )
        return context

    def _context(self) -> Any:
        import multiprocessing

        return self.multiprocessing_context or multiprocessing.get_context()

    def check_worker_number_rationality(self) -> None:
        """Warns if there are more workers than CPUs this process may use."""
        if not self.num_workers:
            return
        checked = hasattr(os, "sched_getaffinity")
        most = len(os.sched_getaffinity(0)) if checked else os.cpu_count()
        if most is not None and self.num_workers <= most:
            return
        advice = (
            "DataLoader is not able to compute a suggested max number of worker in current system."
        )
        if most is not None:
            note = "" if checked else " (`cpuset` is not taken into account)"
            advice = (
                f"Our suggested max number of worker in current system is {most}{note}, which is "
                "smaller than what this DataLoader is going to create."
            )
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {advice} "
            "Please be aware that excessive worker creation might get DataLoader running slow or "
            "even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


# ------------------------------------------------------------------------------- argument checks


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> int | None:
    """Checks what concerns workers; returns how many batches each makes ahead."""
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; "
            "use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    return 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    for name, value in (
        ("shuffle", shuffle or None),
        ("sampler", sampler),
        ("batch_sampler", batch_sampler),
    ):
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, "
                f"but got {name}={value}"
            )


def _check_sampling(
    batch_size: int | None, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                "and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


# What PyTorch calls the iterators.
_BaseDataLoaderIter = LoaderIterator
_SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter = MainIterator, WorkerIterator
