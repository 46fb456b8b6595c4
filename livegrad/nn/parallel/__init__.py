"""Modules on several devices or in several processes."""

from __future__ import annotations

from typing import Any

from livegrad.nn.parallel import distributed as distributed
from livegrad.nn.parallel.data_parallel import (
    DataParallel as DataParallel,
    data_parallel as data_parallel,
)
from livegrad.nn.parallel.scatter_gather import (
    gather as gather,
    parallel_apply as parallel_apply,
    replicate as replicate,
    scatter as scatter,
)


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        return distributed.DistributedDataParallel
    raise AttributeError(f"module 'livegrad.nn.parallel' has no attribute {name!r}")
