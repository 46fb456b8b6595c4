"""What runs in a worker process: it takes tasks, makes batches, and leaves when told or orphaned.

Messages are pickled tuples that start with what they are:

    to a worker     EPOCH   epoch, seed, batches to pass over
                    TASK    epoch, number, index, segments given back, segments given up
    to the parent   BATCH   epoch, number, segments, segment, spans, body
                    END     epoch, number, segments             the worker's stream is over
                    FAILED  epoch, number, segments, failure

where "segments" are those made since the last message (their files come along) and those dropped.

Note [Seeds]. When a worker starts, `random`, NumPy's global generator and livegrad's default one
are seeded with the epoch's base seed + the worker's number. Before every batch they are seeded
again, from the base seed and the number of the batch alone: the number in the epoch, or for a
stream worker + workers × number in the worker. So what is drawn for a batch does not depend on the
batches made before it, nor (except for streams) on the number of workers, and a loader that resumes
in the middle of an epoch makes the batches it would have made.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from livegrad.graph.state import LOCAL
from livegrad.random import manual_seed
from livegrad.runtime import set_num_threads
from livegrad.utils.data.channel import Channel, close_inherited
from livegrad.utils.data.failure import Failure
from livegrad.utils.data.fetch import Fetcher, StreamFetcher, fetcher_for
from livegrad.utils.data.info import Here, WorkerInfo
from livegrad.utils.data.memory import Slots, Writing, keep_freed_memory
from livegrad.utils.data.packing import Packed, pack

EPOCH, TASK, BATCH, END, FAILED = range(5)
# How often an idle worker looks whether its parent still lives, should no end of file tell it.
_LOOK_SECONDS = 2.0
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Job:
    """All that a worker is told when it starts."""

    dataset: Any
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    init_fn: Callable[[int], Any] | None
    batch_size: int | None
    id: int
    num_workers: int


# ---------------------------------------------------------------------------------------- seeds


def batch_seed(base_seed: int, number: int) -> int:
    """64 bits that differ in about half of them for the next number (splitmix64)."""
    x = (base_seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def seed_everything(seed: int) -> None:
    """Seeds `random`, NumPy's global generator and livegrad's default one."""
    random.seed(seed)
    # Python and NumPy have the same generator: of the same words it would make the same numbers.
    words = [seed & 0xFFFFFFFF, seed >> 32, 1]
    np.random.seed(words)  # noqa: NPY002 - it is the one people use
    manual_seed(seed)


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four words for the NumPy generator of a worker, as PyTorch draws them."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(x) for x in np.random.SeedSequence(words).generate_state(4)]


# ---------------------------------------------------------------------------------------- worker


class Worker:
    """The loop of a worker."""

    def __init__(self, channel: Channel, job: Job) -> None:
        self.channel = channel
        self.job = job
        self.slots = Slots()
        self.tasks: deque[tuple[Any, ...]] = deque()
        self.parent = os.getppid()
        self.epoch = -1
        self.base_seed = 0
        self.made = 0
        self.initialised = False
        self.failure: Failure | None = None
        self.fetcher: Fetcher | None = None

    def run(self) -> None:
        """Works until the parent hangs up or is gone."""
        while self._wait_for_task() and not Leaving.asked:
            kind, epoch, *content = self.tasks.popleft()
            if kind == EPOCH:
                self.epoch = epoch
                self._start_epoch(*content)
            else:
                self._do_task(*content)

    def _wait_for_task(self) -> bool:
        self._collect()
        while not self.tasks:
            if os.getppid() != self.parent:
                return False
            if self.channel.wait(_LOOK_SECONDS):
                self._collect()
        return True

    def _collect(self) -> None:
        """Takes in what has come. Tasks of an epoch that is over are dropped unseen."""
        for data, _ in self.channel.receive():
            message = pickle.loads(data)
            if message[0] == EPOCH:
                self.tasks.clear()
                self.tasks.append(message)
                continue
            *task, returned, retired = message
            self.tasks.append(tuple(task))
            for number in returned:
                self.slots.give_back(number)
            for number in retired:
                self.slots.drop(number)

    def _start_epoch(self, base_seed: int, passed: int) -> None:
        job = self.job
        self.base_seed, self.made = base_seed, 0
        seed = base_seed + job.id
        Here.info = WorkerInfo(job.id, job.num_workers, seed, job.dataset)
        seed_everything(seed)
        try:
            if not self.initialised and job.init_fn is not None:
                job.init_fn(job.id)
            self.initialised = True
            self.fetcher = fetcher_for(job.dataset, job.batched, job.collate_fn, job.drop_last)
            self.failure = None
            self._pass_over(passed)
        except Exception as error:
            self.failure = Failure(error, job.id)

    def _pass_over(self, count: int) -> None:
        """Moves a stream on, past batches that were delivered before a loader was resumed."""
        if isinstance(self.fetcher, StreamFetcher):
            index = [None] * (self.job.batch_size or 1)
            try:
                for _ in range(count):
                    self._seed_batch(None)
                    self.fetcher.skip(index)
            except StopIteration:
                pass

    def _seed_batch(self, number: int | None) -> None:
        """See Note [Seeds]."""
        if isinstance(self.fetcher, StreamFetcher):
            number = self.made * self.job.num_workers + self.job.id
            self.made += 1
        assert number is not None
        seed_everything(batch_seed(self.base_seed, number))

    def _do_task(self, number: int, index: Any) -> None:
        if self.failure is not None:
            self._tell(FAILED, number, self.failure)
            return
        try:
            self._seed_batch(number)
            packed = self._make(index)
        except Exception as error:
            if isinstance(error, StopIteration) and isinstance(self.fetcher, StreamFetcher):
                self._tell(END, number)
            else:
                self._tell(FAILED, number, Failure(error, self.job.id))
            return
        place = None if packed.page is None else packed.page.number
        self._tell(BATCH, number, place, packed.spans, packed.body)

    def _make(self, index: Any) -> Packed:
        page = Writing.page = self.slots.page()
        packed = None
        assert self.fetcher is not None
        try:
            value = self.fetcher.fetch(index)
            packed = pack(value, page, self.slots)
            return packed
        finally:
            Writing.page = None
            if page is not None and (packed is None or packed.page is not page):
                self.slots.give_back(page.number)

    def _tell(self, kind: int, number: int, *content: Any) -> None:
        slots = self.slots
        files = [file for _, _, file in slots.made]
        made = [(slot, nbytes) for slot, nbytes, _ in slots.made]
        message = (kind, self.epoch, number, (made, slots.dropped), *content)
        self.channel.send_all(pickle.dumps(message, 5), files)
        slots.made.clear()
        slots.dropped.clear()
        for file in files:
            os.close(file)


# --------------------------------------------------------------------------------------- process


class Leaving:
    """Whether the process was asked to end; user code may have caught the exception."""

    asked = False


def _leave(signum: int, frame: Any) -> None:
    Leaving.asked = True
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise SystemExit(128 + signum)


def work(end: socket.socket, job: Job) -> None:
    """The main function of a worker process."""
    close_inherited()
    # Ctrl-C reaches every process of a terminal; what it means is for the parent to decide. A
    # handler, not SIG_IGN: programs that a dataset starts would inherit that.
    signal.signal(signal.SIGINT, lambda signum, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the parent blocked it
    signal.signal(signal.SIGTERM, _leave)
    set_num_threads(1)
    keep_freed_memory()
    LOCAL.state.start_anew()  # what the parent had pending, and its modes, stay with it
    try:
        Worker(Channel(end), job).run()
    except EOFError:
        pass  # the parent has hung up, or is gone
    finally:
        if Leaving.asked:
            _end_by_signal()


def _end_by_signal() -> None:
    """Ends as SIGTERM ends a process, after user code had the chance to clean up."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.kill(os.getpid(), signal.SIGTERM)
