"""One native call runs a whole plan: an interpreter of steps, compiled once.

A Program is a piece of memory that the compiled `run` reads, in int64 slots:

    header   0 blocks   1 patches  2 number of patches   3 steps  4 number of steps
             5 timing (or null)    6 thread pool         7 completed runs
             8, 11 BLAS's functions to get (or null) and to set its number of threads
             9 fault code          10 fault value
    patch    kind, dst, src, value        written into the argument blocks before the steps
    step     kernel address, block offset, repeat, block stride, grain, flags, 0, 0
    blocks   the kernels' argument blocks, slot 0 of each: the number of work items

Kernel ABI: `void kernel(ptr args, i64 begin, i64 end, ptr ctx)` does the independent work items
[begin, end). `ctx` is the thread's own: fault code, fault value, thread index, scratch address,
scratch bytes.
"""

from __future__ import annotations

import functools
import struct
import time
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from livegrad.native.calls import call_native_freely
from livegrad.native.hot import hot, hot_slots
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import jit, threads
from livegrad.runtime.memory import aligned_zeros

# Kinds of patch.
SET_INPUT = 0  # blocks[dst] = inputs[src] + value
ADD_INPUT = 1  # blocks[dst] += inputs[src] * value
SET_SCALAR = 2  # blocks[dst] = bits of scalars[src]
SET_CONSTANT = 3  # blocks[dst] = value

# Flags of a step.
MAY_FAULT = 1
SERIAL = 2
TAIL = 4  # when all items are done, the kernel is called once more with begin = end = -1

_HEADER_SLOTS, _PATCH_SLOTS, _STEP_SLOTS = 16, 4, 8
_BUSY = -1

_RUN_IR = """
; 0 when all steps ran, 1 + index of the step that reported a fault, -1 when the pool is taken.
define i64 @livegrad_run(ptr %program, ptr %inputs, ptr %scalars) {
entry:
  %pool.p = getelementptr i64, ptr %program, i64 6
  %pool = load ptr, ptr %pool.p, align 8
  %busy.p = getelementptr i64, ptr %pool, i64 32
  %lock = cmpxchg ptr %busy.p, i64 0, i64 1 acquire monotonic, align 8
  %locked = extractvalue { i64, i1 } %lock, 1
  br i1 %locked, label %start, label %taken
taken:
  ret i64 -1
start:
  %completed.p = getelementptr i64, ptr %program, i64 7
  call void @apply_patches(ptr %program, ptr %inputs, ptr %scalars)
  ; BLAS must not start threads of its own inside our steps.
  %getter.p = getelementptr i64, ptr %program, i64 8
  %getter = load ptr, ptr %getter.p, align 8
  %setter.p = getelementptr i64, ptr %program, i64 11
  %setter = load ptr, ptr %setter.p, align 8
  %has.blas = icmp ne ptr %getter, null
  br i1 %has.blas, label %single, label %plain
single:
  %before = call i32 %getter()
  call void %setter(i32 1)
  %status.blas = call i64 @run_steps(ptr %program, ptr %pool)
  call void %setter(i32 %before)
  br label %finish
plain:
  %status.plain = call i64 @run_steps(ptr %program, ptr %pool)
  br label %finish
finish:
  %status = phi i64 [ %status.blas, %single ], [ %status.plain, %plain ]
  %good = icmp eq i64 %status, 0
  %flag = zext i1 %good to i64
  %runs = load i64, ptr %completed.p, align 8
  %runs.now = add i64 %runs, %flag
  store i64 %runs.now, ptr %completed.p, align 8
  store atomic i64 0, ptr %busy.p release, align 8
  ret i64 %status
}

define internal void @apply_patches(ptr %program, ptr %inputs, ptr %scalars) {
entry:
  %blocks = load ptr, ptr %program, align 8
  %patches.p = getelementptr i64, ptr %program, i64 1
  %patches = load ptr, ptr %patches.p, align 8
  %number.p = getelementptr i64, ptr %program, i64 2
  %number = load i64, ptr %number.p, align 8
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %store ]
  %more = icmp ult i64 %i, %number
  br i1 %more, label %body, label %leave
body:
  %at = shl i64 %i, 2
  %kind.p = getelementptr i64, ptr %patches, i64 %at
  %dst.p = getelementptr i64, ptr %kind.p, i64 1
  %src.p = getelementptr i64, ptr %kind.p, i64 2
  %value.p = getelementptr i64, ptr %kind.p, i64 3
  %kind = load i64, ptr %kind.p, align 8
  %dst = load i64, ptr %dst.p, align 8
  %src = load i64, ptr %src.p, align 8
  %value = load i64, ptr %value.p, align 8
  %slot = getelementptr i64, ptr %blocks, i64 %dst
  %input.p = getelementptr i64, ptr %inputs, i64 %src
  switch i64 %kind, label %constant [
    i64 0, label %set
    i64 1, label %accumulate
    i64 2, label %scalar
  ]
set:
  %input = load i64, ptr %input.p, align 8
  %moved = add i64 %input, %value
  br label %store
accumulate:
  %factor = load i64, ptr %input.p, align 8
  %old = load i64, ptr %slot, align 8
  %product = mul i64 %factor, %value
  %sum = add i64 %old, %product
  br label %store
scalar:
  %scalar.p = getelementptr i64, ptr %scalars, i64 %src
  %bits = load i64, ptr %scalar.p, align 8
  br label %store
constant:
  br label %store
store:
  %new = phi i64 [ %moved, %set ], [ %sum, %accumulate ], [ %bits, %scalar ],
                 [ %value, %constant ]
  store i64 %new, ptr %slot, align 8
  %i.next = add i64 %i, 1
  br label %head
leave:
  ret void
}

define internal i64 @run_steps(ptr %program, ptr %pool) {
entry:
  %steps.p = getelementptr i64, ptr %program, i64 3
  %steps = load ptr, ptr %steps.p, align 8
  %number.p = getelementptr i64, ptr %program, i64 4
  %number = load i64, ptr %number.p, align 8
  %blocks = load ptr, ptr %program, align 8
  %timing.p = getelementptr i64, ptr %program, i64 5
  %timing = load ptr, ptr %timing.p, align 8
  %timed = icmp ne ptr %timing, null
  br label %head
head:
  %s = phi i64 [ 0, %entry ], [ %s.next, %next ]
  %more = icmp ult i64 %s, %number
  br i1 %more, label %body, label %all
all:
  ret i64 0
body:
  %at = shl i64 %s, 3
  %step = getelementptr i64, ptr %steps, i64 %at
  %flags.p = getelementptr i64, ptr %step, i64 5
  %flags = load i64, ptr %flags.p, align 8
  %start.at = shl i64 %s, 1
  %start.p = getelementptr i64, ptr %timing, i64 %start.at
  %stop.p = getelementptr i64, ptr %start.p, i64 1
  br i1 %timed, label %stamp.start, label %go
stamp.start:
  %start.time = call i64 @now()
  store i64 %start.time, ptr %start.p, align 8
  br label %go
go:
  call void @run_step(ptr %pool, ptr %step, ptr %blocks)
  br i1 %timed, label %stamp.stop, label %check
stamp.stop:
  %stop.time = call i64 @now()
  store i64 %stop.time, ptr %stop.p, align 8
  br label %check
check:
  %may.fault = and i64 %flags, 1
  %may = icmp ne i64 %may.fault, 0
  br i1 %may, label %look, label %next
look:
  %fault = call i1 @collect_fault(ptr %program, ptr %pool)
  br i1 %fault, label %stop, label %next
stop:
  %where = add i64 %s, 1
  ret i64 %where
next:
  %s.next = add i64 %s, 1
  br label %head
}

; All argument blocks of one step, each on one thread or on all of them.
define internal void @run_step(ptr %pool, ptr %step, ptr %blocks) {
entry:
  %offset.p = getelementptr i64, ptr %step, i64 1
  %repeat.p = getelementptr i64, ptr %step, i64 2
  %stride.p = getelementptr i64, ptr %step, i64 3
  %grain.p = getelementptr i64, ptr %step, i64 4
  %flags.p = getelementptr i64, ptr %step, i64 5
  %fn = load ptr, ptr %step, align 8
  %offset = load i64, ptr %offset.p, align 8
  %repeat = load i64, ptr %repeat.p, align 8
  %stride = load i64, ptr %stride.p, align 8
  %grain = load i64, ptr %grain.p, align 8
  %flags = load i64, ptr %flags.p, align 8
  %threads.p = getelementptr i64, ptr %pool, i64 33
  %threads = load atomic i64, ptr %threads.p monotonic, align 8
  %several = icmp ugt i64 %threads, 1
  %serial.bit = and i64 %flags, 2
  %splittable = icmp eq i64 %serial.bit, 0
  %may.split = and i1 %several, %splittable
  %worthwhile = shl i64 %grain, 1
  %ctx = getelementptr i64, ptr %pool, i64 40
  br label %head
head:
  %r = phi i64 [ 0, %entry ], [ %r.next, %alone ], [ %r.next, %together ], [ %r.next, %body ]
  %more = icmp ult i64 %r, %repeat
  br i1 %more, label %body, label %leave
body:
  %r.next = add i64 %r, 1
  %distance = mul i64 %r, %stride
  %at = add i64 %offset, %distance
  %args = getelementptr i64, ptr %blocks, i64 %at
  %count = load i64, ptr %args, align 8
  %nonempty = icmp sgt i64 %count, 0
  br i1 %nonempty, label %choose, label %head
choose:
  %enough = icmp uge i64 %count, %worthwhile
  %split = and i1 %enough, %may.split
  br i1 %split, label %together, label %alone
alone:
  call void %fn(ptr %args, i64 0, i64 %count, ptr %ctx)
  br label %head
together:
  call void @parallel(ptr %pool, ptr %fn, ptr %args, i64 %count, i64 %grain)
  br label %head
leave:
  %tail.bit = and i64 %flags, 4
  %has.tail = icmp ne i64 %tail.bit, 0
  br i1 %has.tail, label %tail, label %done
tail:
  %tail.args = getelementptr i64, ptr %blocks, i64 %offset
  call void %fn(ptr %tail.args, i64 -1, i64 -1, ptr %ctx)
  br label %done
done:
  ret void
}

; Move the first thread's fault into the program, and clear all threads' faults.
define internal i1 @collect_fault(ptr %program, ptr %pool) {
entry:
  ; Those who took part in the last task; the number of threads may have changed since.
  %queues.p = getelementptr i64, ptr %pool, i64 22
  %queues = load atomic i64, ptr %queues.p monotonic, align 8
  %threads = call i64 @llvm.umax.i64(i64 %queues, i64 1)
  %out.code.p = getelementptr i64, ptr %program, i64 9
  %out.value.p = getelementptr i64, ptr %program, i64 10
  br label %head
head:
  %t = phi i64 [ 0, %entry ], [ %t.next, %next ]
  %found = phi i1 [ false, %entry ], [ %found.next, %next ]
  %slot = mul i64 %t, 16
  %index = add i64 %slot, 40
  %ctx = getelementptr i64, ptr %pool, i64 %index
  %value.p = getelementptr i64, ptr %ctx, i64 1
  %code = load i64, ptr %ctx, align 8
  %bad = icmp ne i64 %code, 0
  br i1 %bad, label %clear, label %next
clear:
  store i64 0, ptr %ctx, align 8
  br i1 %found, label %next, label %keep
keep:
  %value = load i64, ptr %value.p, align 8
  store i64 %code, ptr %out.code.p, align 8
  store i64 %value, ptr %out.value.p, align 8
  br label %next
next:
  %found.next = phi i1 [ %found, %head ], [ true, %clear ], [ true, %keep ]
  %t.next = add i64 %t, 1
  %more = icmp ult i64 %t.next, %threads
  br i1 %more, label %head, label %leave
leave:
  ret i1 %found.next
}
"""


@functools.cache
def driver_ir() -> str:
    """IR of the step interpreter together with the thread pool it calls."""
    return threads.pool_ir() + _RUN_IR


@functools.cache
def _native_run() -> int:
    """The address of the compiled `run`."""
    return jit.compile_kernel(driver_ir(), "livegrad_run")


class Patch(NamedTuple):
    """A write into the argument blocks from a call's inputs or scalars."""

    kind: int
    dst: int
    src: int
    value: int = 0


class Step(NamedTuple):
    """One kernel over `repeat` argument blocks, `stride` slots apart, from slot `offset` on."""

    address: int
    offset: int
    repeat: int = 1
    stride: int = 0
    grain: int = 1
    flags: int = 0


@hot_slots
class Program:
    """A plan bound to sizes: argument blocks, how to patch them, and the steps that use them.

    Not reentrant: the caller lets one thread at a time run a given program. Different programs
    may be run by different threads; they take turns.

    Args:
        patches: `Patch` records or an int64 array (n, 4).
        blocks: the argument blocks, one after another, int64.
        steps: `Step` records or an int64 array (n, 6).
        inputs, scalars: how many of each a call brings; by default as many as patches use.
        scratch_bytes: scratch that the kernels need per thread.
        blas_threads: `blas.thread_control()` when a step calls BLAS.
    """

    # Those that every run reads or writes; the others are in __dict__.
    __slots__ = (
        "__dict__", "_address", "_good_runs", "_input_address", "_known_good", "_run",
        "_scalar_address", "num_steps", "wants_threads", "words",
    )  # fmt: skip

    def __init__(
        self,
        patches: Iterable[Sequence[int]],
        blocks: Sequence[int] | npt.NDArray[np.int64],
        steps: Iterable[Sequence[int]],
        *,
        inputs: int | None = None,
        scalars: int | None = None,
        scratch_bytes: int = 0,
        blas_threads: tuple[int, int] = (0, 0),
    ) -> None:
        patch_table = _table(patches, _PATCH_SLOTS)
        step_table = _table(steps, 6)
        needed = _sources(patch_table, (SET_INPUT, ADD_INPUT)), _sources(patch_table, (SET_SCALAR,))
        self._inputs = needed[0] if inputs is None else inputs
        self._scalars = needed[1] if scalars is None else scalars
        assert self._inputs >= needed[0], f"{self._inputs=} {needed=}"
        assert self._scalars >= needed[1], f"{self._scalars=} {needed=}"
        self.num_steps = len(step_table)
        self._lay_out(patch_table, np.asarray(blocks, np.int64), step_table)
        self._header[8], self._header[11] = blas_threads
        self._known_good = False
        self._good_runs = 0  # those that Python knows of; the header counts all
        self.wants_threads = _wants_threads(patch_table, self.blocks, step_table)
        threads.pool.need_scratch(scratch_bytes)

        self._run = _native_run()
        self._set_inputs = struct.Struct(f"={self._inputs}q").pack_into
        self._set_scalars = struct.Struct(f"={self._scalars}d").pack_into

    def _lay_out(
        self,
        patches: npt.NDArray[np.int64],
        blocks: npt.NDArray[np.int64],
        steps: npt.NDArray[np.int64],
    ) -> None:
        """Put all parts into one aligned piece of memory and link them from the header."""
        parts = {
            "header": _HEADER_SLOTS,
            "blocks": blocks.size,
            "patches": patches.size,
            "steps": len(steps) * _STEP_SLOTS,
            "inputs": self._inputs,
            "scalars": self._scalars,
        }
        start, total = {}, 0
        for name, size in parts.items():
            start[name] = total
            total += -(-size // 8) * 8
        memory, address = aligned_zeros(total)
        view = {name: memory[start[name] : start[name] + size] for name, size in parts.items()}
        at = {name: address + 8 * slot for name, slot in start.items()}
        view["blocks"][:] = blocks.ravel()
        view["patches"][:] = patches.ravel()
        view["steps"].reshape(-1, _STEP_SLOTS)[:, :6] = steps
        view["header"][:7] = (
            at["blocks"], at["patches"], len(patches), at["steps"], len(steps), 0,
            threads.pool.address,
        )  # fmt: skip
        self._memory = memory
        self._header = view["header"]
        self.blocks = view["blocks"]
        # `Any`: NumPy's stubs do not say that arrays are buffers before Python 3.12.
        self._input_memory: Any = view["inputs"]
        self._scalar_memory: Any = view["scalars"]
        # The inputs as numbers, for those that are set one by one.
        words = cast(Any, view["inputs"]) if self._inputs else array("q")
        self.words: memoryview = memoryview(words)
        self._address, self._input_address = address, at["inputs"]
        self._scalar_address = at["scalars"]
        self._timing: npt.NDArray[np.int64] | None = None

    def run(self, inputs: Sequence[int], scalars: Sequence[float] = ()) -> int:
        """Run all steps; 0, or 1 + the index of the step that reported a fault."""
        self._set_inputs(self._input_memory, 0, *inputs)
        if scalars:
            self._set_scalars(self._scalar_memory, 0, *scalars)
        return self.run_prepared()

    @property
    def memory(self) -> tuple[int, int]:
        """Addresses of the inputs and the scalars, for native code that sets them."""
        return self._input_address, self._scalar_address

    def begin(self) -> None:
        """Says that a run is about to begin: `completed` is false until it has."""
        self._known_good = False

    @hot
    def run_prepared(self) -> int:
        """Like `run`, for inputs and scalars that are in place already."""
        self._known_good = False
        if self.wants_threads and not threads.pool.running:
            threads.pool.start()
        # Other Python threads go on meanwhile.
        status = call_native_freely(
            self._run, self._address, self._input_address, self._scalar_address
        )
        while status == _BUSY:
            # Another thread runs a program: its plan is short, so look again soon.
            time.sleep(2e-5)
            status = call_native_freely(
                self._run, self._address, self._input_address, self._scalar_address
            )
        if status == 0:
            self._known_good = True
            self._good_runs += 1
        counters.plans_run += 1
        counters.kernels_run += self.num_steps
        return status

    @property
    def completed(self) -> bool:
        """Whether the last run went through all steps, also when Ctrl-C came right after it."""
        if self._known_good:
            return True
        runs = int(self._header[7])
        more = runs > self._good_runs
        self._good_runs = runs
        return more

    def fault(self) -> tuple[int, int]:
        """Code and value of the last fault that a step reported."""
        return int(self._header[9]), int(self._header[10])

    def time_steps(self, enabled: bool = True) -> None:
        """Take the time of each step from the next run on."""
        if enabled and self._timing is None:
            self._timing, _ = aligned_zeros(2 * self.num_steps)
        address = self._timing.__array_interface__["data"][0] if self._timing is not None else 0
        self._header[5] = address if enabled else 0

    def step_times(self) -> list[float]:
        """Microseconds of each step in the last timed run."""
        if self._timing is None:
            raise RuntimeError("step_times: nothing was timed. Call time_steps() before run().")
        stamps = self._timing.reshape(-1, 2)
        return [float(t) for t in (stamps[:, 1] - stamps[:, 0]) / 1000]


def _table(rows: Iterable[Sequence[int]], width: int) -> npt.NDArray[np.int64]:
    array = rows if isinstance(rows, np.ndarray) else np.array(list(rows), np.int64)
    return array.astype(np.int64, copy=False).reshape(-1, width)


def _sources(patches: npt.NDArray[np.int64], kinds: tuple[int, ...]) -> int:
    """One more than the highest source that patches of these kinds read."""
    sources = patches[np.isin(patches[:, 0], kinds), 2]
    return int(sources.max()) + 1 if sources.size else 0


def _wants_threads(
    patches: npt.NDArray[np.int64], blocks: npt.NDArray[np.int64], steps: npt.NDArray[np.int64]
) -> bool:
    """Whether some step has, or may be given by a patch, enough work for two threads."""
    patched = set(patches[:, 1].tolist())
    for _, offset, repeat, stride, grain, flags in steps.tolist():
        if flags & SERIAL:
            continue
        for at in range(offset, offset + repeat * stride, stride) if stride else (offset,):
            if at in patched or blocks[at] >= 2 * grain:
                return True
    return False
