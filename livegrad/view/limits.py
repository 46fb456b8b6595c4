"""What this machine can do, measured once: bytes and operations per second, on all threads."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from livegrad.runtime.values import Array

_SIZE = 768
_BYTES = 1 << 26


@cache
def measured_limits() -> dict[str, float]:
    """Bytes per second of memory, and float32 operations per second; takes some tenths of a
    second the first time."""
    return {"bytes": _bandwidth(), "flops": _arithmetic()}


def _best(seconds: list[float]) -> float:
    return max(min(seconds), 1e-9)


def _bandwidth() -> float:
    source: Array = np.ones(_BYTES // 4, np.float32)
    target = np.empty_like(source)
    taken = []
    for _ in range(8):
        began = time.perf_counter()
        np.copyto(target, source)
        taken.append(time.perf_counter() - began)
    return 2 * _BYTES / _best(taken)


def _arithmetic() -> float:
    a: Array = np.ones((_SIZE, _SIZE), np.float32)
    taken = []
    for _ in range(8):
        began = time.perf_counter()
        a @ a
        taken.append(time.perf_counter() - began)
    return 2 * _SIZE**3 / _best(taken)
