"""A plan as the CPU runs it: native segments and host steps over one set of addresses.

What makes them is in `assemble`, with all of the compiler, which is imported when the first plan is
made: this module is not to import it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad.graph.node import Node
from livegrad.native.calls import put_word
from livegrad.native.hot import hot, hot_slots
from livegrad.runtime.counters import TIMING
from livegrad.runtime.cpu import follow
from livegrad.runtime.cpu.driver import Program
from livegrad.runtime.cpu.fitting import Fitter, Sizes
from livegrad.runtime.cpu.follow import Follower
from livegrad.runtime.cpu.host_steps import HostStep
from livegrad.runtime.executable import Executable
from livegrad.runtime.fault import Fault
from livegrad.runtime.memory import Arena, Buffer
from livegrad.runtime.protocol import Runnable

if TYPE_CHECKING:
    from livegrad.compiler.plan import Plan, Step
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

    def run_prepared(self) -> None:
        """Runs the steps on inputs that are in place."""
        self.time_if_wanted()
        status = self.program.run_prepared()
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


class Shared:
    """Inputs of a plan that NumPy runs a part of: native programs read the same."""

    def __init__(self, words: int, floats: int) -> None:
        self.words = array("q", [0] * words)
        self.floats = array("d", [0.0] * floats)

    @property
    def memory(self) -> tuple[int, int]:
        """Addresses of the inputs and the scalars."""
        return self.words.buffer_info()[0], self.floats.buffer_info()[0]


@hot_slots
class Segments(Runnable):
    """All steps of a plan: what the CPU makes of it, see runtime/protocol.py.

    segments   [ native steps: one call ] ─► [ NumPy ] ─► [ native steps: one call ]
    inputs     arena, addresses of leaves and new buffers, integers; floats

    If there are several, `shared` is what they all read. `refused` is what NumPy's part has.
    """

    __slots__ = ("arena", "first", "plan", "refused", "segments", "shared")

    def __init__(self, plan: Plan, segments: list[Segment | HostStep]) -> None:
        self.plan = plan
        self.arena = plan.arena
        self.first = 1 + plan.leaves  # the slot of the first new buffer
        self.segments = segments
        self.refused: Fault | None = None
        self.shared: Shared | None = None
        if len(segments) != 1 or type(segments[0]) is HostStep:
            self.shared = Shared(plan.first_int + plan.ints, plan.floats)
            for segment in segments:
                if isinstance(segment, Segment):
                    segment.program.read_from(*self.shared.memory)

    def run(self, buffers: Sequence[Buffer], ints: list[int], floats: list[float]) -> None:
        """Runs every step."""
        inputs = [ARENA.reserve(self.arena), *[b.ptr for b in buffers], *ints]
        if self.shared is None:
            only: Any = self.segments[0]
            only.run(inputs, floats)
        else:
            self.shared.words[:] = array("q", inputs)
            self.shared.floats[:] = array("d", floats)
            self._run_each(self.shared)

    def _run_each(self, shared: Shared) -> None:
        """Runs every step on inputs that are in place."""
        words, floats = shared.words[:], shared.floats[:]
        for segment in self.segments:
            if isinstance(segment, Segment):
                segment.run_prepared()
            else:
                segment.run(words, floats)
                # A step of somebody's own may have run this plan meanwhile.
                shared.words[:], shared.floats[:] = words, floats

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
        """The native check; `known` and `more` as there."""
        x = executable
        if x.specialised or not follow.available():
            return None
        numbers = iter(leaves)
        links = [link if link >= 0 else -1 - next(numbers) for link in x.links]
        first = self.first + len(x.fresh)
        writes = [(leaf, refs, first + i) for i, (leaf, refs, *_) in enumerate(x.writes)]
        inputs, scalars = self._memory
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

    @property
    def _memory(self) -> tuple[int, int]:
        """Addresses of the inputs and the scalars, for native code that sets them."""
        only: Any = self.segments[0] if self.segments else None
        return only.program.memory if self.shared is None else self.shared.memory

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
        if self.shared is not None:
            status: int = self._run_with_numpy(buffers)
            return status
        segment: Any = self.segments[0]  # the only one, a Segment
        inputs = segment.program.input_address
        put_word(inputs, ARENA.reserve(self.arena))
        slot = inputs + 8 * self.first
        for buffer in buffers:
            put_word(slot, buffer.ptr)
            slot += 8
        if TIMING.enabled or segment.timed:
            segment.time_if_wanted()
        status = segment.program.run_prepared()
        return status

    def _run_with_numpy(self, buffers: list[Buffer]) -> int:
        """The same for a plan of several segments; -1 if one of them has refused something."""
        assert self.shared is not None
        words = self.shared.words
        words[0] = ARENA.reserve(self.arena)
        words[self.first : self.first + len(buffers)] = array("q", [b.ptr for b in buffers])
        try:
            self._run_each(self.shared)
        except Fault as fault:
            self.refused = fault
            return -1
        return 0

    def fault_of(self, status: int) -> Fault:
        """The fault that `run_followed` reported by its status."""
        fault, self.refused = self.refused, None
        if fault is not None:
            return fault
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
