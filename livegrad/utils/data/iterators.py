"""Iterators over a loader: one that makes batches itself, one that has workers make them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from livegrad.utils.data.drawing import draw_seed
from livegrad.utils.data.fetch import StreamFetcher, fetcher_for
from livegrad.utils.data.memory import keep_freed_memory
from livegrad.utils.data.position import Epoch, program_as_of, restore_own, snapshot

if TYPE_CHECKING:
    from livegrad.utils.data.crew import Crew
    from livegrad.utils.data.dataloader import DataLoader

T = TypeVar("T")


class LoaderIterator:
    """One pass over a loader's data.

    All that is drawn when an epoch begins is drawn in `_draw`: the base seed first, then what the
    sampler draws when it is asked for the first index. To resume an epoch, the same is drawn again.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._said_length = loader._said_length
        state, loader._resume = loader._resume, None
        if state is None:
            self._epoch = Epoch(snapshot(loader), loader.num_workers)
            self._draw()
        else:
            self._epoch = Epoch.resumed(state, loader)
            restore_own(loader, self._epoch.start)
            with program_as_of(self._epoch.start):
                self._draw()
        loader._epoch = self._epoch

    def _draw(self) -> None:
        loader, epoch = self._loader, self._epoch
        self._base_seed = draw_seed(loader.generator)
        self._indices: Iterator[tuple[int, Any]] = enumerate(loader._index_sampler)
        if not loader._streaming:
            rest = (item for item in self._indices if not epoch.has_delivered(item[0]))
            self._indices = itertools.chain(list(itertools.islice(rest, 1)), rest)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)  # type: ignore[arg-type]

    def __next__(self) -> Any:
        try:
            batch = self._next()
        except StopIteration:
            self._epoch.finished = True
            raise
        said = self._said_length
        if said is not None and self._epoch.delivered > said:
            self._warn_of_length(said)
        return batch

    def _next(self) -> Any:
        raise NotImplementedError

    def _warn_of_length(self, said: int) -> None:
        message = (
            f"Length of IterableDataset {self._loader.dataset} was reported to be {said}"
            f"(when accessing len(dataloader)), but {self._epoch.delivered} samples have been "
            "fetched. "
        )
        if self._loader.num_workers > 0:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker: it should give a part of "
                "the data, by get_worker_info()."
            )
        warnings.warn(message, stacklevel=3)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class MainIterator(LoaderIterator):
    """Makes batches in this process, when they are asked for."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        if loader.timeout != 0:
            raise AssertionError("single-process data loading requires timeout == 0")
        keep_freed_memory()
        super().__init__(loader)

    def _draw(self) -> None:
        super()._draw()
        loader = self._loader
        self._fetcher = fetcher_for(
            loader.dataset, loader._batched, loader.collate_fn, loader.drop_last
        )
        if loader._streaming:
            self._pass_over(self._epoch.delivered)

    def _pass_over(self, count: int) -> None:
        """Moves a stream on, past the batches delivered before."""
        assert isinstance(self._fetcher, StreamFetcher)
        try:
            for _ in range(count):
                self._fetcher.skip(next(self._indices)[1])
        except StopIteration:
            pass

    def _next(self) -> Any:
        number, index = next(self._indices)
        batch = self._fetcher.fetch(index)
        self._epoch.deliver(number)
        return batch


class WorkerIterator(LoaderIterator):
    """Has workers make batches ahead, and gives them in order.

        indices ──► task ──► worker ──► result ──► batch
                    number → worker     number → message, until its turn comes

    At most `prefetch_factor` batches of each worker are asked for and not yet given. A worker whose
    stream is over is left out; the others go on in turn, so the order is the same in every run.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        if loader.prefetch_factor is None or loader.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 with num_workers > 0")
        # First, since it may fail: an epoch that begins has drawn numbers.
        self._crew = crew_for(loader)
        super().__init__(loader)
        count, epoch = loader.num_workers, self._epoch
        self._owners: dict[int, int] = {}
        self._results: dict[int, tuple[Any, ...]] = {}
        self._waiting = [0] * count
        self._active = [True] * count
        self._turn = epoch.turn if loader._streaming else epoch.delivered % count
        self._guarded(self._start_workers)

    def _start_workers(self) -> None:
        loader = self._loader
        self._number = self._crew.start_epoch(self._base_seed, self._epoch.counts)
        assert loader.prefetch_factor is not None
        for _ in range(loader.prefetch_factor * loader.num_workers):
            self._send_task()

    def _guarded(self, function: Callable[[], T]) -> T:
        """Calls it; no worker outlives an error other than one of the data, or Ctrl-C."""
        try:
            return function()
        except BaseException:
            self._crew.shut_down()
            raise

    # ---- tasks ---------------------------------------------------------------------------

    def _send_task(self) -> None:
        """Asks the next worker for the next batch, if there is one."""
        worker = self._next_worker()
        item = next(self._indices, None) if worker is not None else None
        if worker is None or item is None:
            return
        number, index = item
        self._crew.members[worker].send_task(self._number, number, index)
        self._owners[number] = worker
        self._waiting[worker] += 1

    def _next_worker(self) -> int | None:
        count = self._loader.num_workers
        order = [(self._turn + i) % count for i in range(count)]
        able = [worker for worker in order if self._active[worker]]
        if not able:
            return None
        # Out of order, whoever has least to do is next.
        worker = able[0] if self._loader.in_order else min(able, key=self._waiting.__getitem__)
        self._turn = (worker + 1) % count
        return worker

    # ---- results -------------------------------------------------------------------------

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except KeyboardInterrupt:
            self._crew.shut_down()  # it may have come between any two steps of ours
            raise

    def _next(self) -> Any:
        from livegrad.utils.data.worker import END, FAILED

        if self._crew.epoch != self._number:
            raise RuntimeError("DataLoader: the persistent workers serve a newer iteration now")
        while self._owners:
            number = self._guarded(self._next_number)
            worker = self._owners.pop(number)
            message = self._results.pop(number, None)
            self._waiting[worker] -= 1
            if message is None or message[0] == END:
                self._active[worker] = False
                self._guarded(self._send_task)
                continue
            self._guarded(self._send_task)
            if message[0] == FAILED:
                self._note_delivery(number, worker)
                raise message[1].error()
            batch = self._crew.members[worker].open_batch(*message[1:])
            self._note_delivery(number, worker)
            return batch
        if not self._loader.persistent_workers:
            self._crew.shut_down()
        raise StopIteration

    def _note_delivery(self, number: int, worker: int) -> None:
        if self._loader._streaming:
            self._epoch.deliver_of(worker)
        else:
            self._epoch.deliver(number)

    def _next_number(self) -> int:
        """The number of the next task to look at, whose result is there (or never comes)."""
        while True:
            arrived = self._results if not self._loader.in_order else {}
            first: int = next(iter(arrived or self._owners))
            if first in self._results or not self._active[self._owners[first]]:
                return first
            self._receive()

    def _receive(self) -> None:
        from livegrad.utils.data.worker import BATCH

        if self._crew.closed:
            raise RuntimeError("DataLoader: the workers have been shut down after an error")
        for member, (kind, epoch, number, *content) in self._crew.receive(self._loader.timeout):
            if epoch == self._number and number in self._owners:
                self._results[number] = (kind, *content)
            elif kind == BATCH:
                member.discard(content[0])


def crew_for(loader: DataLoader[Any]) -> Crew:
    """Workers for an iteration: new ones, or those that the loader keeps."""
    if loader._crew is not None and not loader._crew.closed:
        return loader._crew
    from livegrad.utils.data.crew import Crew
    from livegrad.utils.data.worker import Job

    def job(id: int) -> Job:
        return Job(
            loader.dataset,
            loader._batched,
            loader.collate_fn,
            loader.drop_last,
            loader.worker_init_fn,
            loader.batch_size,
            id,
            loader.num_workers,
        )

    crew = Crew(loader._context(), job, loader.num_workers)
    if loader.persistent_workers:
        loader._crew = crew
    return crew
