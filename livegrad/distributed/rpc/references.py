"""RRef: a value of another process, which is this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from livegrad.distributed import autograd
from livegrad.distributed.rpc import workers
from livegrad.futures import Future

T = TypeVar("T")


class RRef(Generic[T]):
    """A reference to a value, and who owns it."""

    def __init__(self, value: T, type_hint: Any = None) -> None:
        self._owner = workers.current()
        self._future: Future[T] = Future()
        self._future.set_result(value)

    @classmethod
    def of_future(cls, future: Future[T]) -> RRef[T]:
        """A reference to what a call gives, or to the error that it ended with."""
        out: RRef[T] = cls.__new__(cls)
        out._owner = workers.current()
        out._future = future
        return out

    def owner(self) -> workers.WorkerInfo:
        """The process that has the value."""
        return self._owner

    def owner_name(self) -> str:
        """Its name."""
        return self._owner.name

    def is_owner(self) -> bool:
        """Whether that is this process: yes."""
        return True

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows of it: yes."""
        return True

    def local_value(self) -> T:
        """The value, at its owner."""
        return self._future.wait()

    def to_here(self, timeout: float = -1.0) -> T:
        """The value, fetched from its owner."""
        return self._future.wait()

    def rpc_sync(self, timeout: float = -1.0) -> Any:
        """`ref.rpc_sync().f(x)` calls the value's method `f` at its owner, and gives the result."""
        return _Methods(self, workers.rpc_sync)

    def rpc_async(self, timeout: float = -1.0) -> Any:
        """... and gives a future."""
        return _Methods(self, workers.rpc_async)

    def remote(self, timeout: float = -1.0) -> Any:
        """... and gives a reference."""
        return _Methods(self, remote)

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """A backward pass from the value, in a context if one is given."""
        value: Any = self.local_value()
        if dist_autograd_ctx_id == -1:
            value.backward(retain_graph=retain_graph)
        else:
            autograd.backward(dist_autograd_ctx_id, [value], retain_graph)

    def _get_future(self) -> Future[T]:
        return self._future

    def __repr__(self) -> str:
        return f"OwnerRRef({self.owner_name()!r})"


class _Methods:
    """The methods of a reference's value, called at its owner."""

    def __init__(self, ref: RRef[Any], call: Callable[..., Any]) -> None:
        self._ref, self._call = ref, call

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._ref.local_value(), name)
        return lambda *args, **kwargs: self._call(self._ref.owner(), method, args, kwargs)


def remote(
    to: Any, func: Callable[..., T], args: Any = None, kwargs: Any = None, timeout: float = -1.0
) -> RRef[T]:
    """Calls `func` in a process, and gives a reference to the result."""
    return RRef.of_future(workers.rpc_async(to, func, args, kwargs))
