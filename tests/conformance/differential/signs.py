"""Complex numbers negated as livegrad negates them: each part changes its sign, also a 0.

PyTorch subtracts from 0 where it computes in vectors, and changes signs where it does not. Who
looks at the bits of a part, or divides by it, sees that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Negating(TorchDispatchMode):
    """Negatives of complex numbers, by livegrad's rule; `changed` counts those with a 0 in them."""

    changed = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[-1].rstrip("_")
        turned = None
        if name == "neg" and args[0].is_complex():
            parts = torch.view_as_real(args[0].detach().clone().resolve_conj())
            turned = torch.view_as_complex(-parts)
            Negating.changed += bool((parts == 0).any())
        out = func(*args, **(kwargs or {}))
        return out if turned is None else out.copy_(turned)
