"""`torch.mps` where there is none: programs ask first, and run on the CPU."""

from __future__ import annotations

from livegrad.absent import constants, refusals


def is_available() -> bool:
    """False: livegrad runs on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


globals().update(constants(manual_seed=None, empty_cache=None))
globals().update(
    refusals(
        "mps",
        RuntimeError,
        "Event compile_shader current_allocated_memory driver_allocated_memory get_rng_state "
        "recommended_max_memory seed set_per_process_memory_fraction set_rng_state synchronize",
    )
)
