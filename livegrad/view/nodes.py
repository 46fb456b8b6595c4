"""What graphs consist of, as plain records: nodes, kernels, and how long values live."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

FORWARD, BACKWARD, UPDATE, LEAF, SETUP = "forward", "backward", "update", "leaf", "setup"


@dataclass(slots=True)
class GraphNode:
    """One operation that ran, or a value that was there before.

    `phase` is forward, backward, update, leaf, or setup: what `__init__` of modules records. What
    a program makes of gradients outside of modules, such as a norm to clip by, is update. A
    backward node stands for the gradient of the forward node `of`, and its number is that node's
    with a minus. Times and bytes are shares of those of the kernels. Of very large graphs, a node
    stands for `count` that are alike, and has what they took together.
    """

    number: int
    op: str
    phase: str
    shape: tuple[int, ...]
    dtype: str
    inputs: tuple[int, ...]
    name: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    module: str = ""
    attrs: str = ""
    nbytes: int = 0
    flops: int = 0
    of: int = 0
    kernels: tuple[int, ...] = ()
    seconds: float = 0.0
    stats: dict[str, Any] | None = None
    failed: bool = False
    count: int = 1
    requires_grad: bool = False

    @property
    def where(self) -> str:
        """`file.py:12`."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.line else ""

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        module = f"  {self.module}" if self.module else ""
        where = f"  {self.where}" if self.where else ""
        times = f" ×{self.count:,}" if self.count > 1 else ""
        return f"{self.op}{name}{times} {list(self.shape)} {self.dtype}{where}{module}"


@dataclass(slots=True)
class GraphKernel:
    """One kernel that ran: which nodes it computes, what it moved and how long it took."""

    number: int
    name: str
    kind: str
    ops: tuple[str, ...]
    shape: tuple[int, ...]
    nodes: tuple[int, ...]
    reads: tuple[int, ...] = ()  # kernels whose results it reads
    seconds: float | None = None
    nbytes: int = 0
    flops: int = 0
    plan: int = 0
    flush: int = 0
    tier: str = ""
    planned: str = ""  # if its plan was made in this step: why
    from_disk: bool | None = None
    # Of each op, the node it comes from; what was recorded as one op is often several here.
    op_nodes: tuple[int, ...] = ()
    # When it began, in nanoseconds of `time.perf_counter_ns`; 0 if it was not timed by itself.
    started: int = 0
    # Of each thread that took part: its number, and when it began and ended. () if one did it all.
    threads: tuple[tuple[int, int, int], ...] = ()
    # How often it ran, where what is alike is shown as one.
    count: int = 1

    @property
    def busy(self) -> float | None:
        """Which share of the time its threads had something to do; None if it is unknown."""
        if not self.threads or not self.seconds:
            return None
        worked = sum([ended - began for _, began, ended in self.threads]) / 1e9
        return min(1.0, worked / (self.seconds * len(self.threads)))

    def __str__(self) -> str:
        took = "" if self.seconds is None else f"  {self.seconds * 1e6:.1f} µs"
        times = f" ×{self.count:,}" if self.count > 1 else ""
        return f"{self.number}. {self.kind} {list(self.shape)}: {' '.join(self.ops)}{times}{took}"


@dataclass(slots=True)
class Life:
    """A stored value: from which kernel to which it is in memory."""

    node: int
    op: str
    nbytes: int
    first: int
    last: int
    what: str  # value, result, leaf
