"""Calls as PyTorch's first years wrote them: factors in front of what they multiply.

    x.add_(0.9, y)                       x.add_(y, alpha=0.9)
    x.addcmul_(0.1, g, g)                x.addcmul_(g, g, value=0.1)
    addmm(beta, x, alpha, a, b)          addmm(x, a, b, beta=beta, alpha=alpha)

Many optimisers still do, and PyTorch takes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad.graph.handle import Handle

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def in_new_order(
    function: Callable[..., Tensor], given: tuple[Any, ...], count: int, factors: str
) -> Tensor:
    """A call as it is written now: `count` tensors by place, the factors by name.

    Of `factors`, those that were given are the first.
    """
    name = function.__name__
    tensors = [x for x in given if isinstance(x, Handle)]
    numbers = [x for x in given if not isinstance(x, Handle)]
    known = factors.split()
    wrong = [x for x in numbers if not isinstance(x, int | float | complex)]
    if len(tensors) != count or len(numbers) > len(known) or wrong:
        raise TypeError(f"{name}(): takes {count} positional arguments but {len(given)} were given")
    named = ", ".join(known[: len(numbers)])
    warnings.warn(
        f"This overload of {name} is deprecated: {named} in front. Give {named} by name instead",
        UserWarning,
        stacklevel=4,
    )
    return function(*tensors, **dict(zip(known, numbers, strict=False)))
