"""Python's multiprocessing, with tensors that stay the same memory on both sides.

A tensor that is sent to another process, as an argument or through a queue, moves to shared memory
first (`share_memory_`): what one process writes, the others see. Gradients are not sent.
"""

from __future__ import annotations

from multiprocessing import *  # noqa: F403

from livegrad.multiprocessing import reductions as reductions
from livegrad.multiprocessing.reductions import init_reductions as init_reductions
from livegrad.multiprocessing.spawn import (
    ProcessContext as ProcessContext,
    ProcessException as ProcessException,
    ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException,
    SpawnContext as SpawnContext,
    spawn as spawn,  # the function, not the submodule of that name
    start_processes as start_processes,
)


class _Sharing:
    strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's names of ways to share memory."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The name that was set last."""
    return _Sharing.strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepts both names; memory is shared by file descriptors with either."""
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            f"set_sharing_strategy: got {new_strategy!r}; expected one of "
            f"{sorted(get_all_sharing_strategies())}"
        )
    _Sharing.strategy = new_strategy
