"""What a device is to the runtime: memory, copies, and what computes there.

    Backend ─┬─ Planning     whole plans: allocate, assemble ──► Runnable: run, fault
             └─ NodeByNode   a node at a time: run_node

Nothing else is asked of a device: recording, gradients, liveness, plans and errors are the same for
all. The CPU is one that plans (cpu/host.py); tests/devices has one of each kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from livegrad.compiler.plan import Plan
    from livegrad.graph.meta import Meta
    from livegrad.graph.node import Node
    from livegrad.runtime.executable import Executable
    from livegrad.runtime.fault import Fault


class Backend(Protocol):
    """Keeps values on a device, in buffers of its own kind."""

    def copy_in(self, values: np.ndarray[Any, Any], meta: Meta) -> Any:
        """A buffer with these values, contiguous and of the storage dtype."""

    def copy_out(self, buffer: Any, meta: Meta) -> np.ndarray[Any, Any]:
        """The values of a buffer, not to be written to; waits until they are there."""


class NodeByNode(Backend, Protocol):
    """A device that computes one node after the other."""

    def run_node(self, node: Node) -> Any:
        """The buffer with the value of a node, whose inputs have theirs on this device."""


class Planning(Backend, Protocol):
    """A device that computes whole plans."""

    def allocate(self, nbytes: int) -> Any:
        """A buffer with undefined contents."""

    def assemble(self, plan: Plan) -> Runnable:
        """The plan, made ready to run again and again."""


class Runnable:
    """A plan that a device has made ready. Only `run` is required."""

    __slots__ = ()

    def announce(self) -> None:
        """Says that a run is about to begin: it has not `completed`."""

    def run(self, buffers: Sequence[Any], ints: list[int], floats: list[float]) -> None:
        """Starts all steps, with the buffers of leaves, of results and of what updates write.

        It may return before they are done. A step that refuses a value is a Fault, raised here or
        told by `fault`.
        """
        raise NotImplementedError

    @property
    def completed(self) -> bool:
        """Whether the last run is known to have gone through, if Ctrl-C came meanwhile."""
        return False

    def completes(self, first: int) -> bool:
        """Whether a run that has come to step `first` goes through, whatever the values."""
        return False

    def fault(self) -> Fault | None:
        """What the last run has refused, once that is known; asked of plans that may refuse."""
        return None

    def follower(self, executable: Executable, nodes: list[Node], leaves: list[int]) -> Any:
        """What recognises natively that the same nodes come again, if there is such a thing.

        `leaves` are the numbers of the leaves that the nodes read, in order.
        """
        return None

    def step_times(self) -> list[float | None]:
        """Microseconds of each step in the last run, where they were taken."""
        return []

    def stamps(self) -> list[tuple[int, Any]]:
        """For steps that were run together, how many there are and, if they were timed in the last
        run, a row of times of each: see `runtime/cpu/driver.py`. Else None."""
        return []
