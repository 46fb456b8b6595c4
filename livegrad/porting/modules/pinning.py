"""`torch.utils.data._utils.pin_memory`: batches in memory that a GPU can read."""

from __future__ import annotations

from typing import Any

from livegrad.func import tree
from livegrad.tensor import Tensor


def pin_memory(data: Any, device: Any = None) -> Any:
    """A batch whose tensors are pinned, which changes nothing without a GPU."""
    return tree.mapped(lambda x: x.pin_memory() if isinstance(x, Tensor) else x, data)
