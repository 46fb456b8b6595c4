"""Numbers that no integer stands for, made integers as livegrad makes them.

PyTorch leaves NaN, infinities and numbers out of range to the processor. livegrad has a rule: at 32
bits, or 64, they end at the nearest integer there is, NaN is 0, and narrower integers have the
lowest bits of that. A PyTorch with this rule must give what livegrad gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

CONVERSIONS = {"_to_copy": 0, "copy": 1, "fill": 1}  # which argument is converted
FOLDS = ("sum", "prod", "cumsum", "cumprod")  # of integers, if their result is one


class Saturating(TorchDispatchMode):
    """Conversions of floating-point numbers to integers, by livegrad's rule.

    `changed` counts those that gave something else by it.
    """

    changed = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[-1].rstrip("_")
        if name in FOLDS:
            args = (folded(args[0], kwargs or {}), *args[1:])
        place = CONVERSIONS.get(name)
        given = None if place is None else args[place]
        source = given.detach().clone() if isinstance(given, torch.Tensor) else None
        out = func(*args, **(kwargs or {}))
        if source is not None and source.is_floating_point() and is_integer(out):
            Saturating.changed += saturate(source, out)
        return out


def folded(x: torch.Tensor, options: Mapping[str, Any]) -> torch.Tensor:
    """What is folded: integers, if the result is to be of them."""
    out = options.get("out")
    dtype = options.get("dtype") or (None if out is None else out.dtype)
    if dtype is None or not x.is_floating_point() or not is_integer(torch.empty(0, dtype=dtype)):
        return x
    integers = x.to(dtype)
    Saturating.changed += saturate(x, integers)
    return integers


def is_integer(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and not x.is_complex() and x.dtype is not torch.bool


def saturate(source: torch.Tensor, out: torch.Tensor) -> bool:
    """Gives `out`, to which `source` was converted, livegrad's integers where there is none.

    Whether there was such a place.
    """
    wide = torch.int64 if out.dtype is torch.int64 else torch.int32
    least, most = torch.iinfo(wide).min, torch.iinfo(wide).max
    numbers = source.double()
    lost = ~((numbers >= least) & (numbers < most + 1.0))  # so is NaN
    if not lost.any():
        return False
    ends = np.where(numbers.numpy() > 0, most, least)
    nearest = np.where(np.isnan(numbers.numpy()), 0, ends).astype(np.int64)
    out.copy_(torch.where(lost, torch.from_numpy(nearest).to(out.dtype), out))
    return True
