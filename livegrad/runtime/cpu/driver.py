"""One native call runs a whole plan: an interpreter of steps, compiled once.

A Program is a piece of memory that the compiled `run` reads, in int64 slots:

    header   0 blocks   1 patches  2 number of patches   3 steps  4 number of steps
             5 timing (or null)    6 thread pool         7 completed runs
             9 fault code          10 fault value        12 status, as part of a list
    patch    kind, dst, src, value        written into the argument blocks before the steps
    step     kernel address, block offset, repeat, block stride, grain, flags, 0, 0
    blocks   the kernels' argument blocks, slot 0 of each: the number of work items
    timing   0 threads; from 8 on, a row per step: began, ended, and the same of each thread

Kernel ABI: `void kernel(ptr args, i64 begin, i64 end, ptr ctx)` does the independent work items
[begin, end). `ctx` is the thread's own: fault code, fault value, thread index, scratch address,
scratch bytes.
"""

from __future__ import annotations

import functools
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from livegrad.native.calls import call_native_freely
from livegrad.native.hot import hot, hot_slots
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import jit, threads
from livegrad.runtime.cpu.driver_code import RUN_IR
from livegrad.runtime.cpu.pool_code import pool_ir
from livegrad.runtime.memory import aligned_zeros

# Kinds of patch.
SET_INPUT = 0  # blocks[dst] = inputs[src] + value
ADD_INPUT = 1  # blocks[dst] += inputs[src] * value
SET_SCALAR = 2  # blocks[dst] = bits of scalars[src]
SET_CONSTANT = 3  # blocks[dst] = value
CLEAR_IF_SAME = 4  # blocks[dst] = 0 if inputs[src] is inputs[value]

# Flags of a step.
# Slots of the header.
FAULT_CODE, FAULT_VALUE, STATUS = 9, 10, 12
MAY_FAULT = 1
SERIAL = 2
TAIL = 4  # when all items are done, the kernel is called once more with begin = end = -1

HEADER_SLOTS, _PATCH_SLOTS, STEP_SLOTS = 16, 4, 8
_BUSY = -1


@functools.cache
def driver_ir() -> str:
    """IR of the step interpreter together with the thread pool it calls."""
    return pool_ir() + RUN_IR


@functools.cache
def _native_run() -> int:
    """The address of the compiled `run`."""
    return jit.compile_kernel(driver_ir(), "livegrad_run")


@functools.cache
def native_run_list() -> int:
    """The address of what runs a list of programs."""
    return jit.compile_kernel(driver_ir(), "livegrad_run_list")


class Patch(NamedTuple):
    """A write into the argument blocks from a call's inputs or scalars."""

    kind: int
    dst: int
    src: int
    value: int = 0


class Step(NamedTuple):
    """One kernel over `repeat` argument blocks, `stride` slots apart, from slot `offset` on.

    Blocks do not need each other: threads share the items of all of them.
    """

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
    """

    # Those that every run reads or writes; the others are in __dict__.
    __slots__ = (
        "__dict__", "_address", "_good_runs", "_known_good", "_run", "_scalar_address",
        "input_address", "num_steps", "wants_threads",
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
    ) -> None:
        patch_table = _table(patches, _PATCH_SLOTS)
        step_table = _table(steps, 6)
        kinds = patch_table[:, 0]
        of_inputs = (kinds == SET_INPUT) | (kinds == ADD_INPUT)
        needed = _sources(patch_table, of_inputs), _sources(patch_table, kinds == SET_SCALAR)
        self._inputs = needed[0] if inputs is None else inputs
        self._scalars = needed[1] if scalars is None else scalars
        assert self._inputs >= needed[0], f"{self._inputs=} {needed=}"
        assert self._scalars >= needed[1], f"{self._scalars=} {needed=}"
        self.num_steps = len(step_table)
        self._lay_out(patch_table, np.asarray(blocks, np.int64), step_table)
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
            "header": HEADER_SLOTS,
            "blocks": blocks.size,
            "patches": patches.size,
            "steps": len(steps) * STEP_SLOTS,
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
        view["steps"].reshape(-1, STEP_SLOTS)[:, :6] = steps
        view["header"][:7] = (
            at["blocks"], at["patches"], len(patches), at["steps"], len(steps), 0,
            threads.pool.address,
        )  # fmt: skip
        self._memory = memory
        self.starts = at  # where each part begins, for who writes to it
        self._header = view["header"]
        self.blocks = view["blocks"]
        # `Any`: NumPy's stubs do not say that arrays are buffers before Python 3.12.
        self._input_memory: Any = view["inputs"]
        self._scalar_memory: Any = view["scalars"]
        self._address, self.input_address = address, at["inputs"]
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
        return self.input_address, self._scalar_address

    def read_from(self, inputs: int, scalars: int) -> None:
        """Has `run_prepared` read inputs and scalars at other addresses than the program's own."""
        self.input_address, self._scalar_address = inputs, scalars

    @property
    def entry(self) -> tuple[int, int]:
        """Addresses of the native code and of the program, for who calls it with `memory`."""
        return self._run, self._address

    @hot
    def announce(self) -> None:
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
            self._run, self._address, self.input_address, self._scalar_address
        )
        while status == _BUSY:
            # Another thread runs a program: its plan is short, so look again soon.
            time.sleep(2e-5)
            status = call_native_freely(
                self._run, self._address, self.input_address, self._scalar_address
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
        return int(self._header[FAULT_CODE]), int(self._header[FAULT_VALUE])

    def time_steps(self, enabled: bool = True) -> None:
        """Take the time of each step, and of each thread in it, from the next run on."""
        if enabled and self._timing is None:
            count = threads.pool.num_threads
            self._timing, _ = aligned_zeros(8 + self.num_steps * (2 + 2 * count))
            self._timing[0] = count
        address = self._timing.__array_interface__["data"][0] if self._timing is not None else 0
        self._header[5] = address if enabled else 0

    def stamps(self) -> npt.NDArray[np.int64]:
        """Of each step in the last timed run, a row of nanoseconds on the monotonic clock.

        When it began and ended, and then of each thread when it began and ended with its part; a
        thread that had none began at 0, and so does each of a step that one did alone.
        """
        if self._timing is None:
            raise RuntimeError("stamps: nothing was timed. Call time_steps() before run().")
        return self._timing[8:].reshape(self.num_steps, -1)

    def step_times(self) -> list[float]:
        """Microseconds of each step in the last timed run."""
        stamps = self.stamps()
        return [float(t) for t in (stamps[:, 1] - stamps[:, 0]) / 1000]


def _table(rows: Iterable[Sequence[int]], width: int) -> npt.NDArray[np.int64]:
    array = rows if isinstance(rows, np.ndarray) else np.array(list(rows), np.int64)
    return array.astype(np.int64, copy=False).reshape(-1, width)


def _sources(patches: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> int:
    """One more than the highest source that these patches read."""
    sources = patches[chosen, 2]
    return int(sources.max()) + 1 if sources.size else 0


def _wants_threads(
    patches: npt.NDArray[np.int64], blocks: npt.NDArray[np.int64], steps: npt.NDArray[np.int64]
) -> bool:
    """Whether some step has, or may be given by a patch, enough work for two threads."""
    patched = set(patches[patches[:, 0] <= SET_SCALAR, 1].tolist())
    for _, offset, repeat, stride, grain, flags in steps.tolist():
        if flags & SERIAL:
            continue
        counts = range(offset, offset + repeat * stride, stride) if stride else (offset,)
        if any([at in patched for at in counts]) or sum([blocks[at] for at in counts]) >= 2 * grain:
            return True
    return False
