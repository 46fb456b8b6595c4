"""What the programs share: parameters with the same values in every framework."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.frameworks import Namespace

Step = Callable[[], Any]
"""Does one step and returns a loss, or another tensor of one element, which nobody has read."""


def weights(t: Namespace, rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[Any]:
    """Parameters, normal as by the size of their last dim."""
    arrays = [rng.standard_normal(shape).astype("f") * (shape[-1] ** -0.5) for shape in shapes]
    return [t.xp.tensor(a, requires_grad=True) for a in arrays]


def filled(t: Namespace, rng: np.random.Generator, module: Any) -> Any:
    """`module`, with parameters drawn by NumPy: frameworks draw other numbers from one seed."""
    drawn = {}
    for name, parameter in sorted(module.named_parameters()):
        shape = tuple(parameter.shape)
        if len(shape) == 1 and name.endswith("weight"):
            continue  # of a norm: ones
        bound = shape[-1] ** -0.5
        values = t.xp.tensor(rng.uniform(-bound, bound, shape))
        drawn[name] = values.to(parameter.dtype)
    module.load_state_dict(drawn, strict=False)
    return module
