"""Memory shared with NumPy, and deep copies."""

from __future__ import annotations

import numpy as np
import torch

from .pen import Pen


def statement(pen: Pen) -> str:
    arrays = pen.named(lambda x: isinstance(x, np.ndarray))
    if arrays and pen.chance(0.6):
        return of_array(pen, pen.choose(*arrays))
    x = pen.tensor(lambda x: x.dtype not in (torch.bfloat16, torch.bool))
    name = pen.fresh()
    return str(
        pen.choose(
            f"{name} = {x}.detach().numpy()",
            f"{name} = {x}.numpy()",
            f"{name} = {x}.detach().__array__()",
            f"{name} = __import__('numpy').asarray({x}.detach())",
            f"{name} = T.from_numpy({x}.detach().numpy())",
            f"{name} = __import__('copy').deepcopy({x})",
        )
    )


def of_array(pen: Pen, a: str) -> str:
    """A write to an array, or a tensor on its memory."""
    value = pen.value(a)
    if pen.chance(0.5) and value.size and value.flags.writeable:
        return str(pen.choose(f"{a}[...] = {a} + 1", f"{a} *= 2", f"{a}.fill(3)"))
    name = pen.fresh()
    return str(
        pen.choose(
            f"{name} = T.from_numpy({a})",
            f"{name} = T.as_tensor({a})",
            f"{name} = T.tensor({a})",
            f"{name} = T.from_dlpack({a})",
            f"{name} = {a}.T",
        )
    )
