"""`DistributedDataParallel`, which is in `livegrad.distributed`, found when first asked for."""

from __future__ import annotations

from typing import Any

from livegrad.graph.above import Above


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        return Above.data_parallel().DistributedDataParallel
    raise AttributeError(f"module 'livegrad.nn.parallel.distributed' has no attribute {name!r}")
