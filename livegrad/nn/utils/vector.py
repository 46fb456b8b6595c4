"""Parameters as one long vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from livegrad.autograd import no_grad
from livegrad.ops.shaping.joining import cat
from livegrad.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Any]) -> Tensor:
    """All parameters in one vector; gradients flow through it."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Writes consecutive parts of `vec` to the parameters."""
    params = list(parameters)
    wanted = sum(p.numel() for p in params)
    if vec.numel() < wanted:
        raise RuntimeError(
            f"vector_to_parameters: got a vector of {vec.numel()} elements; expected {wanted}"
        )
    start = 0
    with no_grad():
        for p in params:
            stop = start + p.numel()
            p.copy_(vec[start:stop].reshape(tuple(p.shape)))
            start = stop
