"""`torch.accelerator` where there is none: programs ask first, and run on the CPU."""

from __future__ import annotations

from livegrad.absent import NoContext, constants, refusals


class device_index(NoContext):
    """`with device_index(0)`: nothing changes."""


def is_available() -> bool:
    """False: livegrad runs on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


globals().update(constants(current_accelerator=None))
globals().update(
    refusals(
        "accelerator",
        RuntimeError,
        "current_device_idx current_device_index current_stream empty_cache "
        "get_device_capability get_memory_info max_memory_allocated max_memory_reserved "
        "memory_allocated memory_reserved memory_stats reset_accumulated_memory_stats "
        "reset_peak_memory_stats set_device_idx set_device_index set_stream synchronize",
        "accelerator",
    )
)
