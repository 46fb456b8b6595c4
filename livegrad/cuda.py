"""`torch.cuda` where there is none: programs ask first, and run on the CPU."""

from __future__ import annotations

from typing import Any, NoReturn

from livegrad import amp as amp


def is_available() -> bool:
    """False: livegrad runs on the CPU."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator on a GPU. `livegrad.manual_seed` seeds the one there is."""


def manual_seed_all(seed: int) -> None:
    """Nothing, as `manual_seed`."""


def empty_cache() -> None:
    """Nothing: nothing is cached on a GPU."""


def memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """0."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """0."""
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing."""


def _needs_a_gpu(name: str) -> NoReturn:
    raise AssertionError(  # PyTorch's class, where it was built without CUDA
        f"cuda.{name}: there is no GPU here, livegrad runs on the CPU. "
        "Ask cuda.is_available() first"
    )


def current_device() -> int:
    """AssertionError: there is no GPU."""
    _needs_a_gpu("current_device")


def set_device(device: Any) -> None:
    """AssertionError: there is no GPU."""
    _needs_a_gpu("set_device")


def synchronize(device: Any = None) -> None:
    """AssertionError: there is no GPU."""
    _needs_a_gpu("synchronize")


def get_device_name(device: Any = None) -> str:
    """AssertionError: there is no GPU."""
    _needs_a_gpu("get_device_name")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """AssertionError: there is no GPU."""
    _needs_a_gpu("get_device_capability")


def get_device_properties(device: Any = None) -> Any:
    """AssertionError: there is no GPU."""
    _needs_a_gpu("get_device_properties")
