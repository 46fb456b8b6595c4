"""Devices that are not there: what their modules have in common.

Programs ask `is_available()` first, and run on the CPU. What they call without asking either has
nothing to do (`empty_cache`), or refuses with PyTorch's class of error.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NoReturn


def refusals(
    device: str, error: type[Exception], names: str, what: str = "GPU"
) -> dict[str, Callable[..., NoReturn]]:
    """Functions that say that there is no such device, by their names."""
    return {name: _refusal(device, error, name, what) for name in names.split()}


def _refusal(device: str, error: type[Exception], name: str, what: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise error(
            f"{device}.{name}: there is no {what} here, livegrad runs on the CPU. "
            f"Ask {device}.is_available() first"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"{error.__name__}: there is no {what}."
    return refuse


def constants(**values: Any) -> dict[str, Callable[..., Any]]:
    """Functions that have nothing to do, by name: each returns a value, whatever it is given."""
    return {name: _constant(name, value) for name, value in values.items()}


def _constant(name: str, value: Any) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return type(value)() if isinstance(value, dict | list) else value

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"{value!r}: there is nothing to do." if value is None else f"{value!r}."
    return answer


MEMORY: dict[str, Any] = {
    "memory_allocated": 0,
    "max_memory_allocated": 0,
    "memory_reserved": 0,
    "max_memory_reserved": 0,
    "memory_stats": OrderedDict(),
    "memory_stats_as_nested_dict": {},
    "reset_peak_memory_stats": None,
    "reset_accumulated_memory_stats": None,
    "empty_cache": None,
}
SEEDS = dict.fromkeys(["manual_seed", "manual_seed_all", "seed", "seed_all"])


class NoStream:
    """A queue of work of a device that is not there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__module__}.{type(self).__name__}: there is no GPU here. "
            "Work runs on the CPU, when its values are needed"
        )


class NoEvent(NoStream):
    """A mark in such a queue. Clocks measure the CPU: `time.perf_counter`."""


class NoType:
    """A type of tensors on a device that is not there: `cuda.FloatTensor`."""

    def __init__(self, *args: Any) -> None:
        raise TypeError(f"type {type(self).__name__} of a GPU is not available: there is none here")


class NoContext:
    """`with cuda.stream(s)`, `with cuda.device(0)`: nothing changes, as there is one device."""

    def __init__(self, what: Any = None) -> None:
        self.idx = -1

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None
