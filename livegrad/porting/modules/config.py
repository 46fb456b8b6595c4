"""`torch.__config__`: how what computes was built."""

from __future__ import annotations

import livegrad
from livegrad.__about__ import __version__


def show() -> str:
    """What runs in torch's place, for reports of faults."""
    return f"livegrad {__version__} in PyTorch's place\n"


def parallel_info() -> str:
    """How many threads are used."""
    return f"livegrad parallel info:\n\tget_num_threads() : {livegrad.get_num_threads()}\n"
