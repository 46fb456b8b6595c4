"""`autocast`: products in a low dtype, delicate operations in float32, per thread.

    with autocast("cpu", dtype=livegrad.bfloat16):
        loss = F.cross_entropy(model(x), y)    # linear, conv, attention: bfloat16; loss: float32
    loss.backward()                            # gradients have the dtypes of the parameters

Which operation does what is on the operations' records (`Op.autocast`); casts are ordinary nodes.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

from livegrad import dtypes
from livegrad.autograd.modes import generator_in_mode
from livegrad.dtypes import DType
from livegrad.graph.state import LOCAL
from livegrad.ops.support.autocast import Caster

# Device types that PyTorch knows; tensors live on the first.
_DEVICES = ("cpu", "cuda", "hpu", "ipu", "mps", "mtia", "xla", "xpu")
_LOW = (dtypes.bfloat16, dtypes.float16)


class _Local(threading.local):
    """The dtype in force, or that would be; whether casts may be shared; how deep we are."""

    dtype = dtypes.bfloat16
    cache = True
    depth = 0


_local = _Local()


def _check_device(device_type: Any) -> bool:
    """Whether autocast for a device type concerns any tensor; RuntimeError for unknown ones."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if device_type not in _DEVICES:
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    return device_type == "cpu"


class autocast:
    """Inside, each operation runs in the dtype that suits it; a context manager and a decorator.

    Matrix products, linear layers, convolutions, attention and recurrent layers run in `dtype`;
    losses, linear algebra, Fourier transforms and the like in float32; operations that need one
    dtype take the widest. Others run in the dtype their inputs have. float64 is left alone.

    Args:
        device_type: "cpu"; other devices have no tensors, and autocast is off for them.
        dtype: bfloat16 (the default) or float16.
        enabled: False switches an outer autocast off.
        cache_enabled: accepted; equal casts of one flush are computed once in any case.

    Example:
        >>> with lg.autocast("cpu", dtype=lg.bfloat16):
        ...     lg.nn.Linear(4, 2)(lg.ones(1, 4)).dtype
        livegrad.bfloat16
    """

    def __init__(
        self,
        device_type: str = "cpu",
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        here = _check_device(device_type)
        self.device = device_type
        self.fast_dtype = _local.dtype if dtype is None else dtypes.as_dtype(dtype)
        self._cache_enabled = _local.cache if cache_enabled is None else bool(cache_enabled)
        if enabled and not here:
            warnings.warn(
                f"User provided device_type of '{device_type}', but there is no such device. "
                "Disabling autocast.",
                stacklevel=2,
            )
        elif enabled and self.fast_dtype not in _LOW:
            warnings.warn(
                f"In CPU autocast, but the target dtype {self.fast_dtype.name} is not supported. "
                "Disabling autocast.\nCPU Autocast only supports dtypes of bfloat16, float16 "
                "currently.",
                stacklevel=2,
            )
            enabled = False
        self._here = here
        self._enabled = bool(enabled)
        self._before: list[tuple[Any, DType, bool]] = []

    def __enter__(self) -> autocast:
        state = LOCAL.state
        self._before.append((state.caster, _local.dtype, _local.cache))
        _local.depth += 1
        if self._here:
            state.caster = Caster(self.fast_dtype) if self._enabled else None
            _local.dtype = self.fast_dtype
        _local.cache = self._cache_enabled
        return self

    def __exit__(self, *exception: object) -> None:
        LOCAL.state.caster, _local.dtype, _local.cache = self._before.pop()
        _local.depth -= 1

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """`func`, running inside of this autocast."""
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you "
                "mean to use autocast as a context manager: with livegrad.autocast('cpu'): ..."
            )
        if inspect.isgeneratorfunction(func):
            return generator_in_mode(self._again, func)

        @functools.wraps(func)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return func(*args, **kwargs)

        return run

    def _again(self) -> autocast:
        """One like this, so that threads and recursion do not share it."""
        enabled = self._enabled and self._here
        return autocast(
            "cpu" if enabled else self.device, self.fast_dtype, enabled, self._cache_enabled
        )


# ------------------------------------------------------------------------------- single settings


def is_autocast_available(device_type: str) -> bool:
    """Whether there is an autocast for tensors of this device type."""
    if not isinstance(device_type, str):
        raise TypeError(f"is_autocast_available(): expected str, got {type(device_type).__name__}")
    return device_type in _DEVICES


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether this thread is inside of an enabled autocast."""
    return _check_device(device_type) and LOCAL.state.caster is not None


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switches autocast on or off: `set_autocast_enabled("cpu", True)`, or just the flag."""
    if enabled is None:
        device_type, enabled = "cpu", device_type
    if _check_device(device_type):
        LOCAL.state.caster = Caster(_local.dtype) if enabled else None


def get_autocast_dtype(device_type: str = "cpu") -> DType:
    """The dtype that autocast has, or would have."""
    return _local.dtype if _check_device(device_type) else dtypes.float16


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Sets the dtype of autocast for this thread."""
    if _check_device(device_type):
        _local.dtype = dtypes.as_dtype(dtype)
        if LOCAL.state.caster is not None:
            LOCAL.state.caster = Caster(_local.dtype)


def is_autocast_cpu_enabled() -> bool:
    """See `is_autocast_enabled`."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """See `set_autocast_enabled`."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """See `get_autocast_dtype`."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """See `set_autocast_dtype`."""
    set_autocast_dtype("cpu", dtype)


def is_autocast_cache_enabled() -> bool:
    """What `cache_enabled` says; equal casts of one flush are computed once in any case."""
    return _local.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """See `is_autocast_cache_enabled`."""
    _local.cache = bool(enabled)


def clear_autocast_cache() -> None:
    """Does nothing: casts are recorded, not kept."""


def autocast_increment_nesting() -> int:
    """Counts one more autocast around; for code that enters it by hand."""
    _local.depth += 1
    return _local.depth


def autocast_decrement_nesting() -> int:
    """Counts one autocast fewer around."""
    _local.depth -= 1
    return _local.depth
