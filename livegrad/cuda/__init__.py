"""`torch.cuda` where there is none: programs ask first, and run on the CPU."""

from __future__ import annotations

import sys
from typing import Any

from livegrad.absent import MEMORY, SEEDS, NoContext, NoEvent, NoStream, NoType, constants, refusals
from livegrad.cuda import amp as amp, nvtx as nvtx


class Stream(NoStream):
    """RuntimeError: there is no GPU."""


class ExternalStream(NoStream):
    """RuntimeError: there is no GPU."""


class Event(NoEvent):
    """RuntimeError: there is no GPU."""


class CUDAGraph(NoStream):
    """RuntimeError: there is no GPU. What repeats is recognised here without being told."""


class OutOfMemoryError(RuntimeError):
    """A GPU's memory is full: never raised here. The CPU's is `MemoryError`."""


class StreamContext(NoContext):
    """`with stream(s)`: nothing changes."""


class device(NoContext):
    """`with device(0)`: nothing changes."""


class device_of(NoContext):
    """`with device_of(x)`: nothing changes."""


stream = StreamContext
has_half = True
has_magma = False
_initialized = False  # what programs that save generators' states ask
default_generators: tuple[Any, ...] = ()


def is_available() -> bool:
    """False: livegrad runs on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


# Functions that have an answer without a GPU, and those that do not.
globals().update(
    constants(
        **MEMORY,
        **SEEDS,
        is_initialized=False,
        is_bf16_supported=False,
        is_tf32_supported=False,
        is_current_stream_capturing=False,
        memory_cached=0,
        max_memory_cached=0,
        host_memory_stats={},
        memory_snapshot=[],
        memory_summary="there is no GPU, and no memory on it",
        reset_max_memory_allocated=None,
        reset_max_memory_cached=None,
        get_arch_list=[],
        get_gencode_flags="",
        get_rng_state_all=[],
        set_rng_state_all=None,
        list_gpu_processes="there is no GPU, and no process on it",
    )
)
globals().update(
    refusals(
        "cuda",
        AssertionError,
        "can_device_access_peer current_blas_handle current_device current_stream cudart "
        "default_stream get_device_capability get_device_name get_device_properties "
        "get_rng_state set_rng_state get_per_process_memory_fraction get_stream_from_external "
        "get_sync_debug_mode graph graph_pool_handle init initial_seed ipc_collect "
        "make_graphed_callables mem_get_info set_device set_per_process_memory_fraction "
        "set_stream set_sync_debug_mode synchronize utilization temperature power_draw "
        "clock_rate memory_usage",
    )
)

# `Tensor = cuda.FloatTensor if cuda.is_available() else FloatTensor`: the name must be there.
for _name in "BFloat16 Bool Byte Char Double Float Half Int Long Short".split():
    globals()[f"{_name}Tensor"] = type(f"{_name}Tensor", (NoType,), {"__module__": __name__})

# `torch.cuda.random` and the like are files of PyTorch's that programs import by name.
for _name in ("random", "memory", "streams", "graphs"):
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = sys.modules[__name__]


def _lazy_call(callable: Any, **options: Any) -> None:
    """Nothing: it would be called once CUDA begins, which is never."""
