"""What code that runs in a worker can learn about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker of a loader: its number, how many there are, its seed, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class Here:
    """What is particular to this process: `info` is None unless it is a worker."""

    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker this code runs in; None in the main process.

    `seed` is the loader's seed of this epoch plus the worker's number.
    """
    return Here.info
