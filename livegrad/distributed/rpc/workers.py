"""Calls in other processes by their names: there is this one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from livegrad.distributed import groups
from livegrad.futures import Future

T = TypeVar("T")

DEFAULT_TIMEOUT = 60.0


@dataclass(frozen=True)
class WorkerInfo:
    """The name and number of a process."""

    name: str
    id: int


class RpcBackendOptions:
    """How processes reach each other; with one, they need not."""

    def __init__(
        self,
        rpc_timeout: float = DEFAULT_TIMEOUT,
        init_method: str = "env://",
    ) -> None:
        self.rpc_timeout, self.init_method = rpc_timeout, init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """... in PyTorch's only way."""

    def __init__(
        self,
        *,
        num_worker_threads: int = 16,
        rpc_timeout: float = DEFAULT_TIMEOUT,
        init_method: str = "env://",
        device_maps: dict[str, Any] | None = None,
        devices: list[Any] | None = None,
        _transports: Any = None,
        _channels: Any = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method)
        self.num_worker_threads = num_worker_threads
        self.device_maps: dict[str, Any] = dict(device_maps or {})
        self.devices = list(devices or ())

    def set_device_map(self, to: str, device_map: dict[Any, Any]) -> None:
        """Which device of another process is which of this one."""
        self.device_maps[to] = device_map

    def set_devices(self, devices: list[Any]) -> None:
        """The devices of this process."""
        self.devices = list(devices)


class _State:
    """The process, once `init_rpc` was called."""

    worker: WorkerInfo | None = None
    timeout: float = DEFAULT_TIMEOUT


def current() -> WorkerInfo:
    """This process."""
    if _State.worker is None:
        raise RuntimeError(
            "RPC has not been initialized. Call torch.distributed.rpc.init_rpc first."
        )
    return _State.worker


def init_rpc(
    name: str,
    backend: Any = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Gives this process a name; number and rank come from the environment if not given."""
    if _State.worker is not None:
        raise RuntimeError("RPC is initialized already: call shutdown() first")
    if not isinstance(name, str) or not name:
        raise ValueError(f"init_rpc: expected a name; got {name!r}")
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    wanted = -1 if world_size is None else world_size
    if rank < 0 or wanted < 0:
        _, rank, wanted = groups.rendezvous(options.init_method, rank, wanted)
    if wanted != 1:
        raise RuntimeError(
            f"init_rpc: got world_size={wanted}; livegrad runs programs of one process for now. "
            "Start one process, and call the functions by its own name"
        )
    if rank != 0:
        raise ValueError(f"init_rpc: got rank={rank}; expected 0, of one process")
    _State.worker, _State.timeout = WorkerInfo(name, rank), options.rpc_timeout


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Ends it; nothing is left to wait for."""
    current()
    _State.worker = None


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """The process of a name; this one, if none is given."""
    return current() if worker_name is None else _worker(worker_name)


def get_rpc_timeout() -> float:
    """After how many seconds calls give up, if nothing else is said."""
    current()
    return _State.timeout


def _worker(to: Any) -> WorkerInfo:
    here = current()
    if to not in (here, here.name, here.id):
        raise RuntimeError(f"there is no worker {to!r}: the one process is called {here.name!r}")
    return here


def rpc_sync(
    to: Any, func: Callable[..., T], args: Any = None, kwargs: Any = None, timeout: float = -1.0
) -> T:
    """Calls `func` in a process, and gives the result."""
    return rpc_async(to, func, args, kwargs, timeout).wait()


def rpc_async(
    to: Any, func: Callable[..., T], args: Any = None, kwargs: Any = None, timeout: float = -1.0
) -> Future[T]:
    """Calls `func` in a process, and gives a future."""
    _worker(to)
    if not callable(func):
        raise TypeError("function should be callable.")
    future: Future[Any] = Future()
    try:
        result = func(*(args or ()), **(kwargs or {}))
    except Exception as error:
        future.set_exception(error)
        return future
    if getattr(func, "_is_async_execution", False):
        if not isinstance(result, Future):
            raise RuntimeError(
                "Functions decorated with @rpc.async_function must return a torch.futures.Future "
                f"object, but got {type(result)}"
            )
        return result
    future.set_result(result)
    return future
