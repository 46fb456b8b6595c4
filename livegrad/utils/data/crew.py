"""The workers of a loader as the parent sees them: starting, talking, noticing death, ending."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util  # noqa: F401 - its exit handler must be registered before ours
import os
import pickle
import select
import shutil  # noqa: F401 - that handler imports it, and at exit Python forgets Ctrl-C over it
import signal
import socket
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from livegrad.graph.state import LOCAL, flush
from livegrad.utils.data.channel import Channel
from livegrad.utils.data.memory import Lease, Segment, private_copy
from livegrad.utils.data.packing import Span, unpack
from livegrad.utils.data.worker import EPOCH, TASK, Job, work

Array = np.ndarray[Any, Any]

# A worker leaves by itself when the parent hangs up; then SIGTERM, then SIGKILL.
_GENTLE_SECONDS, _FIRM_SECONDS = 0.1, 5.0
# How long to wait before looking whether workers live, should no end of file tell.
_LOOK_SECONDS = 5.0
# Batches of a worker that may stay in shared memory while the program keeps them; others are
# copied, so that a program that keeps everything does not fill it.
_MOST_LEASES = 4

_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


class Member:
    """One worker: its process, the channel to it, and the segments that it has shared."""

    def __init__(self, id: int, process: Any, channel: Channel) -> None:
        self.id = id
        self.process = process
        self.channel = channel
        self.segments: dict[int, Segment] = {}
        # Filled by `Lease.__del__`, whichever thread that runs in; emptied by popping.
        self.returned: list[int] = []
        self.retired: list[int] = []
        self.leases = 0

    def send_task(self, epoch: int, number: int, index: Any) -> None:
        """Asks for a batch, and gives segments back by the way."""
        lists: list[list[int]] = []
        for numbers in (self.returned, self.retired):
            lists.append([])
            while numbers:
                lists[-1].append(numbers.pop())
                self.leases -= 1
        self.channel.send(pickle.dumps((TASK, epoch, number, index, *lists), 5))

    def open_batch(self, place: int | None, spans: list[Span], body: bytes | None) -> Any:
        """The batch of a message."""
        if place is None:
            return unpack(body, [])
        held = self.leases - len(self.returned) - len(self.retired)
        lease = Lease(place, self.segments[place], self.returned, self.retired)
        self.leases += 1
        views = [lease.view(start, nbytes) for start, nbytes in spans]
        if held >= _MOST_LEASES:
            views = [private_copy(view) for view in views]
        return unpack(body, views)

    def discard(self, place: int | None) -> None:
        """Gives the segment of a batch that nobody wants back to the worker."""
        if place is not None:
            self.leases += 1
            self.returned.append(place)

    def take_segments(
        self, made: list[tuple[int, int]], dropped: list[int], files: list[int]
    ) -> None:
        """Maps new segments and forgets old ones."""
        for (number, nbytes), file in zip(made, files, strict=True):
            self.segments[number] = Segment(file, nbytes)
            os.close(file)
        for number in dropped:
            self.segments.pop(number, None)


class Crew:
    """All workers of an iterator, or of a loader that keeps them.

    What comes for another epoch than `epoch` is stale. `receive` gives messages (kind, epoch,
    number, …) with the worker they come from. Whatever goes wrong, and when the last reference
    goes, `shut_down` leaves no process behind.
    """

    def __init__(self, context: Any, job: Callable[[int], Job], count: int) -> None:
        self.members: list[Member] = []
        self.closed = False
        self.epoch = -1
        self._owner = os.getpid()
        self._poll = select.poll()
        self._by_file: dict[int, Member] = {}
        _crews.add(self)
        if LOCAL.state.nodes:
            flush("workers start")  # once here, not once in each of them
        try:
            for id in range(count):
                self._start(context, job(id))
        except BaseException:
            self.shut_down()
            raise

    def _start(self, context: Any, job: Job) -> None:
        ours, theirs = socket.socketpair()
        channel = Channel(ours)
        try:
            with theirs, _quiet_fork(), _no_interrupt():
                process = context.Process(target=work, args=(theirs, job), daemon=True)
                _start_process(process)
        except BaseException:
            channel.close()
            raise
        member = Member(job.id, process, channel)
        self.members.append(member)
        self._by_file[channel.fileno()] = member
        self._poll.register(channel, select.POLLIN)

    def start_epoch(self, base_seed: int, passed: list[int]) -> int:
        """Has every worker begin an epoch, streams after batches delivered before; its number."""
        self.epoch += 1
        for member, count in zip(self.members, passed, strict=True):
            member.channel.send(pickle.dumps((EPOCH, self.epoch, base_seed, count)))
        return self.epoch

    # ---- receiving -----------------------------------------------------------------------

    def receive(self, timeout: float) -> list[tuple[Member, tuple[Any, ...]]]:
        """Messages that came, at least one; RuntimeError if a worker died, or after `timeout`."""
        deadline = time.monotonic() + timeout if timeout > 0 else None
        while True:
            seconds = _LOOK_SECONDS
            if deadline is not None:
                seconds = min(seconds, max(0.0, deadline - time.monotonic()))
            messages = self._receive_within(seconds)
            if messages:
                return messages
            for member in self.members:
                if not member.process.is_alive():
                    raise self._death_of(member)
            if deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")

    def _receive_within(self, seconds: float) -> list[tuple[Member, tuple[Any, ...]]]:
        unsent = [m for m in self.members if not m.channel.flush()]
        for member in unsent:
            self._poll.modify(member.channel, select.POLLIN | select.POLLOUT)
        ready = self._poll.poll(seconds * 1000)
        for member in unsent:
            self._poll.modify(member.channel, select.POLLIN)
        found = []
        for file, events in ready:
            if events & ~select.POLLOUT:
                found += self._messages_of(self._by_file[file])
        return found

    def _messages_of(self, member: Member) -> list[tuple[Member, tuple[Any, ...]]]:
        try:
            received = member.channel.receive()
        except EOFError:
            raise self._death_of(member) from None
        messages = []
        for data, files in received:
            kind, epoch, number, (made, dropped), *content = pickle.loads(data)
            member.take_segments(made, dropped, files)
            messages.append((member, (kind, epoch, number, *content)))
        return messages

    def _death_of(self, member: Member) -> RuntimeError:
        process = member.process
        process.join(_FIRM_SECONDS)
        code = process.exitcode
        who = f"DataLoader worker (pid {process.pid})"
        which = f"It was worker {member.id} of {len(self.members)}."
        if code is not None and code < 0:
            hint = ""
            if code == -signal.SIGBUS:
                hint = " It is possible that the machine is out of (shared) memory."
            name = signal.strsignal(-code) or f"signal {-code}"
            return RuntimeError(f"{who} is killed by signal: {name}. {which}{hint}")
        return RuntimeError(
            f"{who} exited unexpectedly with exit code {code}. {which} Details are lost due to "
            "multiprocessing. Rerunning with num_workers=0 may give better error trace."
        )

    # ---- the end -------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Ends the workers and waits for them; does nothing the second time."""
        if self.closed:
            return
        self.closed = True
        ours = os.getpid() == self._owner
        for member in self.members:
            # In a fork of the parent they are not ours to end.
            member.channel.hang_up() if ours else member.channel.close()
        if not ours:
            return
        try:
            self._join(_GENTLE_SECONDS)
            for process in self._living():
                process.terminate()
            self._join(_FIRM_SECONDS)
        finally:
            for process in self._living():
                process.kill()
                process.join()

    def _living(self) -> list[Any]:
        return [member.process for member in self.members if member.process.is_alive()]

    def _join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process in self._living():
            process.join(max(0.0, deadline - time.monotonic()))

    def __del__(self) -> None:
        if hasattr(self, "closed"):
            self.shut_down()


def _start_process(process: Any) -> None:
    try:
        process.start()
    except (TypeError, AttributeError, pickle.PicklingError):
        warnings.warn(
            "Got pickle error when attempting to start a worker Process. This might be because the "
            "worker Process arguments are not picklable. Python 3.14+ changed the multiprocessing "
            "start method in non-Mac POSIX platforms to 'forkserver', which requires the worker "
            "Process arguments to be picklable. You can also try "
            "multiprocessing.set_start_method('fork').",
            stacklevel=2,
        )
        raise


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Ctrl-C waits until it is over; a process started meanwhile has it blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _quiet_fork() -> Iterator[None]:
    """Without Python's warning that threads and forks do not mix: ours are made for it."""
    if sys.hexversion < 0x030C0000:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        yield


def _shut_down_all() -> None:
    for crew in list(_crews):
        crew.shut_down()


atexit.register(_shut_down_all)
