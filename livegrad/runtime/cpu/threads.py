"""Our own thread pool: Python threads that enter a compiled loop once and stay there.

A parallel step is a range of independent work items, cut into chunks. Every thread owns a queue
of neighbouring chunks and takes from the others' queues when its own is empty, so a worker that
is still asleep, or was never started, costs speed and not correctness.

State shared with the compiled code, in int64 slots (a cache line is 8 slots):

    0  wake        futex word, changed once per task            1  stop
    8  sleepers    how many workers are in the futex
   16  generation  number of the task, -1 while it is written
   17  fn   18 args   19 count   20 chunk (items)   21 chunks per queue   22 queues
   23  cpu         where the caller of the task runs
   24  done        chunks finished
   32  busy        1 while a program runs                       33 threads   34 timed
   40  one line pair per thread:  +0 ctx (kernel ABI)           +8 ticket
                   +5 when it began with a timed step, or 0     +6 when it ended

A ticket is generation << 20 | number of chunks taken. Taking a chunk is a compare-and-swap on
the ticket. It can only succeed while the task of that generation has chunks left, hence while
the description read for that generation is still valid; a late worker fails harmlessly.

The file is long because two thirds of it are IR: the protocol is best read in one place.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from livegrad.runtime.cpu import jit
from livegrad.runtime.cpu.pool_code import pool_ir
from livegrad.runtime.memory import aligned_zeros

MAX_THREADS = 256
DEFAULT_SCRATCH_BYTES = 256 << 10

WAKE, STOP, BUSY, THREADS = 0, 1, 32, 33
SLOTS, SLOT_SIZE = 40, 16
CTX_INDEX, CTX_SCRATCH, CTX_SCRATCH_BYTES = 2, 3, 4


def default_num_threads() -> int:
    """LIVEGRAD_NUM_THREADS, else the number of CPUs this process may use, or gets the time of."""
    chosen = os.environ.get("LIVEGRAD_NUM_THREADS", "")
    if chosen:
        if not chosen.isdecimal() or int(chosen) == 0:
            raise ValueError(f"LIVEGRAD_NUM_THREADS: got {chosen!r}; expected an integer ≥ 1")
        return min(int(chosen), MAX_THREADS)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), _quota(), MAX_THREADS)
    return min(os.cpu_count() or 1, MAX_THREADS)


def _quota(path: str = "/sys/fs/cgroup/cpu.max") -> int:
    """How many CPUs' time a container is given: more threads would only wait for each other."""
    try:
        with open(path) as file:
            quota, period = file.read().split()
        return max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):  # none, or another system
        return MAX_THREADS


class ThreadPool:
    """The workers and the memory they share with the driver; one per process.

    The memory never moves, so programs may keep its address. `running` says whether the
    workers for the wanted number of threads exist.
    """

    def __init__(self) -> None:
        self.slots, self.address = aligned_zeros(SLOTS + SLOT_SIZE * MAX_THREADS)
        self.running = False
        self._wanted = 0
        self._workers: list[threading.Thread] = []
        self._alarm: Callable[[], None] = lambda: None
        self._scratch_bytes = DEFAULT_SCRATCH_BYTES
        # Replaced scratch is kept: a kernel on another thread may be using it. Sizes double,
        # so what is kept is less than what is used.
        self._scratch: list[npt.NDArray[np.int64]] = []
        self._lock = threading.RLock()
        self._reset()

    @property
    def num_threads(self) -> int:
        """How many threads a parallel step uses, the caller's included."""
        if not self._wanted:
            self._wanted = default_num_threads()
        return self._wanted

    def resize(self, number: int) -> None:
        """Use `number` threads from the next parallel step on."""
        if not 1 <= number <= MAX_THREADS:
            raise RuntimeError(f"set_num_threads: got {number}; expected 1 to {MAX_THREADS}")
        with self._lock:
            self.stop()
            self._wanted = number

    def start(self) -> None:
        """Start the workers unless they run."""
        with self._lock:
            if self.running:
                return
            number = self.num_threads
            self._give_scratch(number)
            self.slots[STOP] = 0
            if number > 1:
                self._start_workers(number)
            self.slots[THREADS] = number
            self.running = True

    def _start_workers(self, number: int) -> None:
        loop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(
            jit.compile_kernel(pool_ir(), "livegrad_worker")
        )
        alarm = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            jit.compile_kernel(pool_ir(), "livegrad_alarm")
        )
        # Compiled before it is needed: `stop` also runs at exit.
        self._alarm = functools.partial(alarm, self.address)
        try:
            for index in range(1, number):
                worker = threading.Thread(
                    target=loop, args=(self.address, index), name=f"livegrad-{index}", daemon=True
                )
                self._workers.append(worker)
                worker.start()
        except BaseException:
            # Ctrl-C in between: no worker may stay that `stop` would not find.
            self.stop()
            raise

    def stop(self) -> None:
        """Send the workers home and wait for them; a program in flight finishes without them."""
        with self._lock:
            self.slots[THREADS] = 1
            self.running = False
            if not self._workers:
                return
            self.slots[STOP] = 1
            self._alarm()
            for worker in self._workers:
                if worker.ident is not None:
                    worker.join()
            self._workers.clear()

    def need_scratch(self, nbytes: int) -> None:
        """Make every thread's scratch at least `nbytes` large."""
        if nbytes <= self._scratch_bytes:
            return
        with self._lock:
            if nbytes > self._scratch_bytes:
                self._scratch_bytes = 1 << (nbytes - 1).bit_length()
                self._give_scratch(max(1, int(self.slots[THREADS])))

    def _give_scratch(self, number: int) -> None:
        for index in range(number):
            ctx = SLOTS + SLOT_SIZE * index
            if self.slots[ctx + CTX_SCRATCH_BYTES] >= self._scratch_bytes:
                continue
            memory, address = aligned_zeros(self._scratch_bytes // 8)
            self._scratch.append(memory)
            # Pointer before size: a reader in between sees more room than it is told of.
            self.slots[ctx + CTX_SCRATCH] = address
            self.slots[ctx + CTX_SCRATCH_BYTES] = self._scratch_bytes

    def _reset(self) -> None:
        """The state of a process without workers, at the start and in a forked child."""
        self._lock = threading.RLock()
        self._workers = []
        self.running = False
        self.slots[:] = 0
        self.slots[THREADS] = 1
        self._scratch = []
        for index in range(MAX_THREADS):
            self.slots[SLOTS + SLOT_SIZE * index + CTX_INDEX] = index
        self._give_scratch(1)


pool = ThreadPool()
atexit.register(pool.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool._reset)
