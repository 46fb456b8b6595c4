"""Gradients at NaN of what clips or shrinks, as livegrad has them: 0.

PyTorch's are 0 where it computes in vectors, and what comes from above where it does not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

RULES = ("hardtanh_backward", "hardshrink_backward", "softshrink_backward")


class Clipping(TorchDispatchMode):
    """These gradients by livegrad's rule; `changed` counts those of a tensor with a NaN in it."""

    changed = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.name.split("::")[-1] in RULES:
            missing = torch.isnan(args[1])
            Clipping.changed += bool(missing.any())
            out.masked_fill_(missing, 0)
        return out
