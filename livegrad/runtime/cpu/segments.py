"""A plan as the CPU runs it: native segments and host steps over one set of addresses.

What makes them is in `assemble`, with all of the compiler, which is imported when the first plan is
made: this module is not to import it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.dtypes import DType
from livegrad.graph.meta import Shape, meta_of
from livegrad.graph.node import Node
from livegrad.graph.op import REGISTRY
from livegrad.native.calls import put_word
from livegrad.native.hot import hot, hot_slots
from livegrad.runtime.counters import TIMING, counters
from livegrad.runtime.cpu import blas, follow
from livegrad.runtime.cpu.driver import Program
from livegrad.runtime.cpu.fitting import Fitter, Sizes
from livegrad.runtime.cpu.follow import Follower
from livegrad.runtime.executable import Executable
from livegrad.runtime.fault import Fault
from livegrad.runtime.memory import Arena, Buffer
from livegrad.runtime.protocol import Runnable
from livegrad.runtime.values import from_compute, to_compute

if TYPE_CHECKING:
    from livegrad.compiler.plan import HostCall, Plan, Step, Where
    from livegrad.runtime.cpu.jit import Kernel

ARENA = Arena()


@hot_slots
class Segment:
    """Consecutive native steps, run by one call.

    `kernels` are what the program calls by address: they are unloaded when nobody refers to them.
    """

    __slots__ = ("first", "kernels", "program", "steps", "timed")

    def __init__(
        self, first: int, steps: list[Step], program: Program, kernels: list[Kernel]
    ) -> None:
        self.first = first  # the number of the first step
        self.steps = steps
        self.program = program
        self.kernels = kernels
        self.timed = False

    def run(self, inputs: list[int], scalars: Sequence[float]) -> None:
        """Runs the steps; a step may find an index out of range."""
        self.time_if_wanted()
        status = self.program.run(inputs, scalars)
        if status:
            raise self.fault(status)

    def time_if_wanted(self) -> None:
        """Has steps timed from the next run on, if that is wanted, or no longer."""
        if self.timed != TIMING.enabled:
            self.timed = TIMING.enabled
            self.program.time_steps(self.timed)

    def fault(self, status: int) -> Fault:
        """The fault that a run reported by its status."""
        code, value = self.program.fault()
        return Fault(self.first + status - 1, code=code, value=value)

    def step_times(self) -> list[float | None]:
        """Microseconds of each step in the last run, where they were taken."""
        return list(self.program.step_times()) if self.timed else [None] * len(self.steps)

    def stamps(self) -> tuple[int, Any]:
        """How many steps there are, and their times in the last run if they were taken."""
        return len(self.steps), self.program.stamps().copy() if self.timed else None


class HostStep:
    """A step that runs NumPy code on views of the plan's memory."""

    def __init__(self, number: int, call: HostCall, first_int: int) -> None:
        from livegrad.compiler.hosting import host_reference

        self.number = number
        self.call = call
        self.reference = host_reference(REGISTRY[call.op])
        metas = [meta_of(*each) for each in zip(call.shapes, call.dtypes, strict=True)]
        self.meta = metas[0]
        self.inputs = [SimpleNamespace(meta=meta) for meta in metas[1:]]
        self.first_int = first_int

    def run(self, inputs: list[int], scalars: Sequence[float]) -> None:
        """Computes the step's value by its reference."""
        call = self.call
        memory = zip(call.wheres, call.shapes, call.dtypes, strict=True)
        target, *arrays = [_view(inputs, *each) for each in memory]
        values = [to_compute(a, dtype) for a, dtype in zip(arrays, call.dtypes[1:], strict=True)]
        ints = inputs[self.first_int :]
        args = tuple([_number(a, ints, scalars) for a in call.args])
        n = SimpleNamespace(attrs=call.attrs, args=args, inputs=self.inputs, meta=self.meta)
        try:
            with np.errstate(all="ignore"):
                result = blas.on_one_thread(self.reference, n, *values)
        except (IndexError, ValueError, RuntimeError) as error:
            raise Fault(self.number, type(error), str(error)) from None
        except MemoryError as error:
            raise Fault(self.number, RuntimeError, f"can't allocate memory: {error}") from None
        target[...] = from_compute(result, self.meta.dtype)
        counters.host_steps += 1

    def stamps(self) -> tuple[int, Any]:
        """One step, which is not timed."""
        return 1, None


def _number(arg: Any, ints: list[int], scalars: Sequence[float]) -> Any:
    if not hasattr(arg, "is_float"):
        return arg
    return scalars[arg.number] if arg.is_float else ints[arg.number]


def _view(inputs: list[int], where: Where, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
    """The memory of a stored value as an array."""
    count = prod(shape)
    address = inputs[where.slot] + where.offset
    memory: Any = (ctypes.c_char * max(count * dtype.itemsize, 1)).from_address(address or 1)
    flat: np.ndarray[Any, Any] = np.frombuffer(memory, dtype.storage, count)
    return flat.reshape(shape)


@hot_slots
class Segments(Runnable):
    """All steps of a plan: what the CPU makes of it, see runtime/protocol.py.

    segments   [ native steps: one call ] ─► [ NumPy ] ─► [ native steps: one call ]
    inputs     arena, addresses of leaves and new buffers, integers; floats
    """

    __slots__ = ("arena", "first", "plan", "segments")

    def __init__(self, plan: Plan, segments: list[Segment | HostStep]) -> None:
        self.plan = plan
        self.arena = plan.arena
        self.first = 1 + plan.leaves  # the slot of the first new buffer
        self.segments = segments

    def run(self, buffers: Sequence[Buffer], ints: list[int], floats: list[float]) -> None:
        """Runs every step."""
        inputs = [ARENA.reserve(self.arena), *[b.ptr for b in buffers], *ints]
        for segment in self.segments:
            segment.run(inputs, floats)

    @hot
    def announce(self) -> None:
        """Says that a run is about to begin, for `completed` to speak of that one."""
        segments = self.segments
        if segments and type(segments[-1]) is Segment:
            segments[-1].program.announce()

    @property
    def completed(self) -> bool:
        """Whether the last run went through, also if Ctrl-C came right after its native code."""
        last = self.segments[-1] if self.segments else None
        return isinstance(last, Segment) and last.program.completed

    def completes(self, first: int) -> bool:
        """Whether the steps from `first` on are native, in one call, and refuse nothing.

        The first may, if it has changed nothing then.
        """
        last = self.segments[-1] if self.segments else None
        if not isinstance(last, Segment) or last.first > first:
            return False
        step, *others = last.steps[first - last.first :]
        if step.may_fault and not step.all_or_nothing:
            return False
        return not any([other.may_fault for other in others])

    def follower(
        self,
        executable: Executable,
        nodes: list[Node],
        leaves: list[int],
        known: Sequence[Any] = (),
        more: Sequence[int] = (),
    ) -> Any:
        """The native check, if the plan is one native program; `known` and `more` as there."""
        x = executable
        plain = len(self.segments) == 1 and isinstance(self.segments[0], Segment)
        shares = any(leaf >= 0 for _, _, leaf in x.results)
        if not plain or shares or x.specialised or not follow.available():
            return None
        numbers = iter(leaves)
        links = [link if link >= 0 else -1 - next(numbers) for link in x.links]
        first = self.first + len(x.fresh)
        writes = [(leaf, refs, first + i) for i, (leaf, refs, *_) in enumerate(x.writes)]
        inputs, scalars = self.segments[0].program.memory  # type: ignore[union-attr]
        # Whether a gradient through the node may need what is overwritten.
        reads = [int(i in x.readers) for i in range(len(nodes))]
        for i in x.readers_of_donated:
            reads[i] = 2
        donated = [(leaf, refs) for leaf, refs, *_ in x.donations]
        return Follower(
            nodes,
            links,
            x.seen,
            reads,
            self.plan.first_int,
            self.plan.leaves,
            writes,
            donated,
            inputs,
            scalars,
            known,
            more,
        )

    def fitter(
        self, executable: Executable, nodes: list[Node], leaves: list[int], sizes: Sizes
    ) -> Any:
        """The native check for any sizes, which writes them into the program; or None."""
        specs = [node.spec for node in nodes]
        known = [x if x.op.kind == "gradient" else x.family for x in specs]
        found = self.follower(executable, nodes, leaves, known, sizes.words)
        return None if found is None else Fitter(executable, found, sizes)

    @hot
    def run_followed(self, buffers: list[Buffer]) -> int:
        """Runs the plan after its follower has set leaves and numbers; the program's status."""
        segment: Any = self.segments[0]  # the only one, a Segment
        inputs = segment.program.input_address
        put_word(inputs, ARENA.reserve(self.arena))
        slot = inputs + 8 * self.first
        for buffer in buffers:
            put_word(slot, buffer.ptr)
            slot += 8
        if TIMING.enabled or segment.timed:
            segment.time_if_wanted()
        status: int = segment.program.run_prepared()
        return status

    def fault_of(self, status: int) -> Fault:
        """The fault that `run_followed` reported by its status."""
        segment = self.segments[0]
        assert isinstance(segment, Segment)
        return segment.fault(status)

    def step_times(self) -> list[float | None]:
        """Microseconds of each of the plan's steps in the last run, where they were taken."""
        times: list[float | None] = []
        for segment in self.segments:
            times += segment.step_times() if isinstance(segment, Segment) else [None]
        return times

    def stamps(self) -> list[tuple[int, Any]]:
        """When each of the plan's steps began and ended in the last run, and each thread there."""
        return [segment.stamps() for segment in self.segments]
