"""`torch.xpu` where there is none: programs ask first, and run on the CPU."""

from __future__ import annotations

from livegrad.absent import MEMORY, SEEDS, NoContext, NoEvent, NoStream, constants, refusals


class Stream(NoStream):
    """RuntimeError: there is no GPU."""


class Event(NoEvent):
    """RuntimeError: there is no GPU."""


class StreamContext(NoContext):
    """`with stream(s)`: nothing changes."""


class device(NoContext):
    """`with device(0)`: nothing changes."""


stream = StreamContext


def is_available() -> bool:
    """False: livegrad runs on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


globals().update(
    constants(
        **MEMORY,
        **SEEDS,
        is_initialized=False,
        is_bf16_supported=False,
        is_tf32_supported=False,
        memory_snapshot=[],
        get_arch_list=[],
        get_gencode_flags="",
        get_rng_state_all=[],
        set_rng_state_all=None,
    )
)
globals().update(
    refusals(
        "xpu",
        AssertionError,
        "current_device current_stream get_device_capability get_device_name "
        "get_device_properties get_rng_state set_rng_state init initial_seed mem_get_info "
        "set_device set_stream synchronize",
    )
)
