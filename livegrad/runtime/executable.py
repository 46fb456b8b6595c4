"""A plan as it runs: native segments and host steps over one set of addresses.

What makes an executable is in `assemble`, with all of the compiler, which is imported when the
first plan is made: this module is not to import it.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.dtypes import DType
from livegrad.graph.meta import Shape, meta_of
from livegrad.graph.node import Node, Site, quote_site
from livegrad.graph.op import REGISTRY
from livegrad.native.hot import hot, hot_slots
from livegrad.runtime.counters import Timing, counters
from livegrad.runtime.cpu import blas, follow
from livegrad.runtime.cpu.driver import Program
from livegrad.runtime.cpu.follow import Follower
from livegrad.runtime.fault import Fault
from livegrad.runtime.memory import Arena, Buffer
from livegrad.runtime.values import from_compute, to_compute

if TYPE_CHECKING:
    from livegrad.compiler.expand import Recorded
    from livegrad.compiler.plan import BlasCall, HostCall, Plan, Step, Where
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
        self._finish(self.program.run(inputs, scalars))

    def _finish(self, status: int) -> None:
        self.time_if_wanted()
        if status:
            raise self.fault(status)

    def time_if_wanted(self) -> None:
        """Has steps timed from the next run on, if that is wanted."""
        if Timing.enabled and not self.timed:
            self.program.time_steps()
            self.timed = True

    def fault(self, status: int) -> Fault:
        """The fault that a run reported by its status."""
        code, value = self.program.fault()
        return Fault(self.first + status - 1, code=code, value=value)

    def step_times(self) -> list[float | None]:
        """Microseconds of each step in the last run, where they were taken."""
        return list(self.program.step_times()) if self.timed else [None] * len(self.steps)


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


class HostProduct:
    """A matrix product by NumPy, where no BLAS can be called directly."""

    def __init__(self, product: BlasCall) -> None:
        self.product = product

    def run(self, inputs: list[int], scalars: Sequence[float]) -> None:
        """C = A @ B on views of the plan's memory."""
        p = self.product
        m, n, k = p.sizes
        addresses = [inputs[w.slot] + w.offset for w in p.wheres]
        for operand, slot, nbytes in p.moves:
            addresses[operand] += inputs[slot] * nbytes
        a = self._matrices(addresses[0], (m, k), p.leading[0], p.trans[0], p.batch_strides[0])
        b = self._matrices(addresses[1], (k, n), p.leading[1], p.trans[1], p.batch_strides[1])
        c = self._matrices(addresses[2], (m, n), p.leading[2], False, p.batch_strides[2])
        c[...] = blas.on_one_thread(np.matmul, a, b)
        counters.host_steps += 1

    def _matrices(
        self, address: int, shape: tuple[int, int], leading: int, trans: bool, batch_stride: int
    ) -> np.ndarray[Any, Any]:
        size = self.product.dtype.itemsize
        strides = (size, leading * size) if trans else (leading * size, size)
        interface = {
            "version": 3,
            "data": (address, False),
            "typestr": self.product.dtype.storage.str,
            "shape": (self.product.batch, *shape),
            "strides": (batch_stride, *strides),
        }
        return np.asarray(_Memory(interface))


class _Memory:
    """Memory at a known address, for NumPy to look at."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


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


def _referrers(recorded: Recorded) -> list[int]:
    """For each leaf: references from recorded nodes, and that of the tensor an update writes."""
    counts = dict.fromkeys(recorded.leaves, 1)
    for node in recorded.nodes:
        for x in node.inputs:
            if x in counts:
                counts[x] += 1
    return list(counts.values())


@hot_slots
class Executable:
    """A plan with its kernels compiled, ready to run with given addresses and numbers.

        segments   [ native steps: one call ] ─► [ NumPy ] ─► [ native steps: one call ]
        inputs     arena, addresses of leaves and new buffers, integers; floats

    `fresh` are the bytes of new buffers that a run needs, `results` says which node gets which,
    `writes` what updates overwrite. `next` is the executable that ran after this one last time;
    its `follower` recognises natively that it comes again.
    """

    # Those that a run which follows the last one as before reads; the others are in __dict__.
    __slots__ = (
        "__dict__", "__weakref__", "follower", "fresh", "keep", "next", "plan", "results",
        "segments", "updates", "writes",
    )  # fmt: skip

    # What the recorded nodes were like, for the runtime to find the plan by; see runtime/flush.py.
    links: list[int]
    keep: bytearray
    # Places of nodes with numbers, of those whose numbers may be of either kind, and the kinds.
    numbered: list[int]
    mixed: list[int]
    kinds: list[bool]
    firsts: list[int]
    repeats: list[tuple[int, int]]
    # Recognises the next run natively, where that is possible; and the plan that came after this
    # one last time.
    follower: Follower | None
    next: weakref.ref[Executable] | None
    # The numbers for which alone the plan holds, if it does not hold for all.
    specialised: tuple[list[int], list[float]] | None = None

    def __init__(
        self, plan: Plan, recorded: Recorded, segments: list[Segment | HostStep | HostProduct]
    ) -> None:
        self.plan = plan
        self.follower = self.next = None
        # Planned nodes keep the sites of the nodes they come from; another run has its own.
        sites = plan.notes.sites if plan.notes else []
        self.places = {id(site): place for place, site in enumerate(sites)}
        first = 1 + plan.leaves
        # Results: (place of the recorded node, number of its buffer, or the leaf whose it shares).
        self.results = [
            (place, output.slot - first, output.leaf)
            for place, output in zip(recorded.outputs, plan.outputs, strict=True)
        ]
        written = len(plan.writes)
        self.fresh = [b.nbytes for b in plan.buffers[: len(plan.buffers) - written]]
        referrers = _referrers(recorded)
        self.updates = [i for i, n in enumerate(recorded.nodes) if n.op.kind == "update"]
        # Writes: (leaf, references to it that are expected, bytes, place of the update, input).
        self.writes = [
            (
                w.leaf,
                referrers[w.leaf],
                recorded.leaves[w.leaf].meta.nbytes,
                self.updates[w.update],
                w.number,
            )
            for w in plan.writes
        ]
        self.readers = self._readers_of_written(recorded)
        self.segments = segments

    @hot
    def announce(self) -> None:
        """Says that a run is about to begin, for `completed` to speak of that one."""
        if self.segments and isinstance(self.segments[-1], Segment):
            self.segments[-1].program.announce()

    @property
    def completed(self) -> bool:
        """Whether the last run went through, also if Ctrl-C came right after its native code."""
        last = self.segments[-1] if self.segments else None
        return isinstance(last, Segment) and last.program.completed

    def _readers_of_written(self, recorded: Recorded) -> list[int]:
        """Places of nodes through which a gradient may need what an update overwrites."""
        written = {recorded.leaves[w[0]] for w in self.writes}
        return [
            place
            for place, node in enumerate(recorded.nodes)
            if node.op.kind != "update" and not written.isdisjoint(node.inputs)
        ]

    def update_site(self, nodes: list[Node]) -> Site | None:
        """Where the program's update is, for errors that name it."""
        return nodes[self.updates[0]].site

    def run(self, addresses: list[int], ints: list[int], scalars: list[float]) -> None:
        """Runs every step. `addresses` are those of leaves, then of new buffers."""
        inputs = [ARENA.reserve(self.plan.arena), *addresses, *ints]
        for segment in self.segments:
            segment.run(inputs, scalars)

    def make_follower(self, nodes: list[Node], leaf_numbers: list[int]) -> None:
        """Prepares to recognise the same nodes natively, if the plan is one native program.

        `leaf_numbers` are those of the leaves read, in order.
        """
        plain = len(self.segments) == 1 and isinstance(self.segments[0], Segment)
        shares = any(leaf >= 0 for _, _, leaf in self.results)
        if not plain or shares or self.specialised or not follow.available():
            return
        numbers = iter(leaf_numbers)
        links = [link if link >= 0 else -1 - next(numbers) for link in self.links]
        first = 1 + self.plan.leaves + len(self.fresh)
        writes = [(leaf, refs, first + i) for i, (leaf, refs, *_) in enumerate(self.writes)]
        program = self.segments[0].program  # type: ignore[union-attr]
        # Kept or not, and whether a gradient through the node may need what is overwritten.
        flags = [kept | 2 * (i in self.readers) for i, kept in enumerate(self.keep)]
        self.follower = Follower(
            nodes, links, flags, self.plan.first_int, self.plan.leaves, writes, *program.memory
        )

    @hot
    def run_followed(self, buffers: list[Buffer]) -> int:
        """Runs the plan after its follower has set leaves and numbers; the program's status."""
        segment: Any = self.segments[0]  # the only one, a Segment
        words = segment.program.words
        words[0] = ARENA.reserve(self.plan.arena)
        slot = 1 + self.plan.leaves
        for buffer in buffers:
            words[slot] = buffer.ptr
            slot += 1
        if Timing.enabled:
            segment.time_if_wanted()
        status: int = segment.program.run_prepared()
        return status

    def fault(self, status: int) -> Fault:
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

    def locate(self, fault: Fault, nodes: list[Node]) -> Fault:
        """Tells which of this run's `nodes` a fault is of, and the error, which names its line."""
        suspect = fault.suspect(self.plan)
        site = suspect.site
        place = self.places.get(id(site))
        if fault.code:
            fault.complain(self._of_this_size(fault, suspect, nodes))
        if place is not None:
            fault.recorded = nodes[place]
            site = fault.recorded.site
        error: Any = fault.kind(f"{fault.message} (recorded at {quote_site(site)})")
        error.recorded_at = site  # for its traceback, see runtime/folding.py
        fault.error = error
        return fault

    def _of_this_size(self, fault: Fault, suspect: Node, nodes: list[Node]) -> Node:
        """A suspect with the sizes of this run: the nodes of a filled plan have others."""
        from livegrad.compiler.expand import Recorded
        from livegrad.compiler.pipeline import compile_plan

        if not self.plan.filled:
            return suspect
        pending = set(nodes)
        leaves = dict.fromkeys([x for n in nodes for x in n.inputs if x not in pending])
        outputs = [place for place, _, _ in self.results]
        return fault.suspect(compile_plan(Recorded(nodes, list(leaves), outputs)))
