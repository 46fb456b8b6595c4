"""Python's multiprocessing, with tensors that stay the same memory on both sides.

A tensor that is sent to another process, as an argument or through a queue, moves to shared memory
first (`share_memory_`): what one process writes, the others see. Gradients are not sent.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from livegrad.creation import as_leaf
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Shape, meta_of
from livegrad.nn.parameter import Buffer, Parameter
from livegrad.runtime.lent import Spread
from livegrad.runtime.shared import on_memory, place_of, spread
from livegrad.tensor import Tensor


def _reduced(x: Any) -> tuple[Any, ...]:
    node = node_of(x)
    if x.requires_grad and not x.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if not node.meta.numel:
        return x.__reduce_ex__(2)  # type: ignore[no-any-return]
    spread(x)
    memory, meta, offset = place_of(x)
    assert isinstance(memory, Spread)
    where = (meta.shape, meta.stride(), offset, meta.dtype)
    return _restored, (
        type(x), DupFd(memory.file), memory.array.nbytes, *where, x.requires_grad,
    )  # fmt: skip


def _restored(
    cls: Any,
    file: Any,
    nbytes: int,
    shape: Shape,
    strides: tuple[int, ...],
    offset: int,
    dtype: DType,
    requires_grad: bool,
) -> Any:
    memory = Spread(file.detach(), nbytes)
    meta = meta_of(shape, dtype).with_strides(strides)
    return as_leaf(on_memory(memory, meta, offset), requires_grad)._become(cls)


for _cls in (Tensor, Parameter, Buffer):
    ForkingPickler.register(_cls, _reduced)


# ------------------------------------------------------------------------- PyTorch's additions


def get_all_sharing_strategies() -> set[str]:
    """The one way memory is shared: by file descriptors."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """How memory is shared."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepts the only strategy there is."""
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"set_sharing_strategy: got {new_strategy!r}; expected 'file_descriptor'")


class ProcessRaisedException(Exception):
    """A process that `spawn` started ended with an error."""


def spawn(
    fn: Callable[..., None],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> list[Any] | None:
    """Runs `fn(i, *args)` in `nprocs` processes, i from 0 on, and waits for them if `join`.

    If one fails, the others are ended and its traceback is raised as `ProcessRaisedException`;
    without `join`, the processes are returned.
    """
    context: Any = multiprocessing.get_context(start_method)
    errors = context.SimpleQueue()
    processes = [
        context.Process(target=_run, args=(fn, i, args, errors), daemon=daemon)
        for i in range(nprocs)
    ]
    for process in processes:
        process.start()
    if not join:
        return processes
    _join(processes, errors)
    return None


def _run(fn: Callable[..., None], i: int, args: tuple[Any, ...], errors: Any) -> None:
    import sys
    import traceback

    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted too, and says so
    except Exception:
        errors.put((i, traceback.format_exc()))
        sys.exit(1)


def _join(processes: list[Any], errors: Any) -> None:
    from multiprocessing.connection import wait

    waiting = {process.sentinel: process for process in processes}
    while waiting:
        for sentinel in wait(list(waiting)):
            process = waiting.pop(sentinel)
            process.join()
            if process.exitcode:
                for other in waiting.values():
                    other.terminate()
                    other.join()
                raise _failure(processes.index(process), process.exitcode, errors)


def _failure(place: int, code: int, errors: Any) -> ProcessRaisedException:
    if errors.empty():
        return ProcessRaisedException(f"process {place} terminated with exit code {code}")
    i, text = errors.get()
    return ProcessRaisedException(
        f"\n\n-- Process {i} terminated with the following error:\n{text}"
    )
