"""`torch.utils.dlpack`."""

from __future__ import annotations

from typing import Any

from livegrad.creation import from_dlpack as from_dlpack


def to_dlpack(tensor: Any) -> Any:
    """The tensor's memory as a DLPack capsule."""
    return tensor.__dlpack__()
