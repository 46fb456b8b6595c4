"""Settings that PyTorch's programs make. Most say what is so anyway: results do not vary from run
to run, and float32 products are computed in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from livegrad.device import Device, default_device, set_default
from livegrad.dtypes import Namespace

F = TypeVar("F", bound=Callable[..., Any])


class _Settings:
    deterministic = False
    warn_only = False
    precision = "highest"
    interop_threads = 1
    warn_always = False


def compile(model: F | None = None, **options: Any) -> F | Callable[[F], F]:
    """The model or function itself: what runs is compiled anyway. Options are accepted.

    Also as a decorator, with or without options.
    """
    if model is None:
        return lambda function: function
    if not callable(model):
        raise TypeError(f"compile(): argument 'model' must be callable, not {type(model).__name__}")
    return model


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remembers the wish; all operations are deterministic, whatever it is."""
    _Settings.deterministic, _Settings.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was given; operations are deterministic anyway."""
    return _Settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` was given as `warn_only`."""
    return _Settings.warn_only


def set_float32_matmul_precision(precision: str) -> None:
    """Remembers "highest", "high" or "medium"; products are of the highest, whatever it is."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"set_float32_matmul_precision: got {precision!r}; "
            "expected 'highest', 'high' or 'medium'"
        )
    _Settings.precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given."""
    return _Settings.precision


def set_flush_denormal(mode: bool) -> bool:
    """False: the setting of the CPU is not touched, small numbers are kept."""
    return False


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was given; one plan runs after the other, whatever it is."""
    return _Settings.interop_threads


def set_num_interop_threads(num: int) -> None:
    """Remembers the number; one plan runs after the other, whatever it is."""
    if num <= 0:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer; got {num}")
    _Settings.interop_threads = num


def get_default_device() -> Device:
    """Where tensors are made when nothing else is said: the CPU, at first."""
    return default_device()


def set_default_device(device: Any) -> None:
    """Makes `device` the one where tensors are made when nothing else is said; None: the CPU.

    It holds for the thread that calls. "meta" makes tensors without data.
    """
    set_default(device)


def set_warn_always(mode: bool) -> None:
    """Remembers the wish; Python's own filters decide how often a warning is shown."""
    _Settings.warn_always = bool(mode)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given."""
    return _Settings.warn_always


class MemoryFormat:
    """How a value lies in PyTorch's memory: what strides say, and so what is copied or shared. In
    our memory every value lies row by row, whatever its format."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{Namespace.name}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")


class Layout(MemoryFormat):
    """Which elements a tensor holds: all of them, or those that are said to be there."""

    @property
    def name(self) -> str:
        """Its name, such as "sparse_coo"."""
        return self._name


strided = Layout("strided")
sparse_coo = Layout("sparse_coo")
sparse_csr = Layout("sparse_csr")
sparse_csc = Layout("sparse_csc")
sparse_bsr = Layout("sparse_bsr")
sparse_bsc = Layout("sparse_bsc")
jagged = Layout("jagged")


def check_layout(name: str, given: dict[str, Any]) -> None:
    """Options about where values lie are taken, and mean nothing; others are errors."""
    for key, value in given.items():
        if key not in ("layout", "memory_format", "pin_memory"):
            raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
        kind = {"pin_memory": bool, "layout": Layout}.get(key, MemoryFormat)
        if value is not None and not isinstance(value, kind):
            wanted = "bool" if kind is bool else key
            raise TypeError(
                f"{name}(): argument '{key}' must be {wanted}, not {type(value).__name__}"
            )
    if is_sparse_layout(given.get("layout")) and name not in MADE_SPARSE:
        if name in ("ones", "full"):
            raise RuntimeError("full(...) is not implemented for sparse layout")
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend. Make it "
            "dense, then say .to_sparse()"
        )


# Functions that make sparse tensors if asked to: without elements.
MADE_SPARSE = frozenset(("zeros", "empty", "zeros_like", "empty_like"))


def is_sparse_layout(layout: Any) -> bool:
    """Whether a `layout=` argument asks for a sparse tensor."""
    return layout is not None and layout is not strided
