"""`torch._logging`: what PyTorch's compiler is to say. `LIVEGRAD_DEBUG` asks ours."""

from __future__ import annotations

from typing import Any


def set_logs(**options: Any) -> None:
    """Nothing: see `LIVEGRAD_DEBUG`, and `livegrad.explain()`."""
