"""PyTorch's names of the files that hold these classes."""

from __future__ import annotations

from livegrad.utils.benchmark.utils import (
    common as common,
    compare as compare,
    fuzzer as fuzzer,
    timer as timer,
)
