"""The CPU as one device among others: its memory, and what it can do."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from livegrad.compiler.plan import Plan
from livegrad.device import register
from livegrad.graph.meta import Meta
from livegrad.runtime.cpu.assemble import assemble
from livegrad.runtime.cpu.jit import host_target
from livegrad.runtime.cpu.segments import Segments
from livegrad.runtime.cpu.threads import pool
from livegrad.runtime.memory import Buffer, allocate

Array = np.ndarray[Any, Any]


class Host:
    """The backend of the CPU."""

    def copy_in(self, values: Array, meta: Meta) -> Buffer:
        """A copy in memory of our own."""
        return Buffer.from_array(np.array(values))

    def copy_out(self, buffer: Buffer, meta: Meta) -> Array:
        """A read-only view."""
        return buffer.view(meta.dtype.storage, meta.shape, writeable=False)

    def allocate(self, nbytes: int) -> Buffer:
        """Memory from the free lists."""
        return allocate(nbytes)

    def assemble(self, plan: Plan) -> Segments:
        """The plan as native programs, and NumPy where there is no native code."""
        return assemble(plan)

    def capability(self) -> str:
        """The widest vectors that kernels use: "AVX512", "AVX2" or "DEFAULT"."""
        target = host_target()
        if target.has("avx512f"):
            return "AVX512"
        return "AVX2" if target.has("avx2") else "DEFAULT"


HOST = Host()
register("cpu", HOST)


def set_num_threads(number: int) -> None:
    """Set the number of threads for parallel kernels; results do not depend on it."""
    try:
        count = operator.index(number)
    except TypeError:
        raise RuntimeError(
            f"set_num_threads expects an int, but got {type(number).__name__}"
        ) from None
    pool.resize(count)


def get_num_threads() -> int:
    """The number of threads for parallel kernels."""
    return pool.num_threads
