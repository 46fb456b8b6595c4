"""Numbers in the state of a parameter: how many steps it has taken, and what depends on that.

PyTorch keeps them as tensors without dims, each parameter its own, and counts in place: whoever
holds one sees it move. So do we; but parameters of equal age have one node in common, so that a
step reads one number and makes one.

    state[p]["step"] ──► Tensor ──┐
    state[q]["step"] ──► Tensor ──┴──► Node 3.0        after the step: ──► Node 4.0
"""

from __future__ import annotations

from typing import Any

from livegrad import dtypes
from livegrad.autograd import no_grad
from livegrad.creation import tensor
from livegrad.graph.state import LOCAL
from livegrad.runtime.counts import counted
from livegrad.runtime.values import number_of
from livegrad.tensor import Tensor

State = dict[str, Any]


def as_count(value: float) -> Tensor:
    """A number as PyTorch keeps it in a state; float64 if that is the default dtype."""
    wide = dtypes.get_default_dtype() is dtypes.float64
    return tensor(float(value), dtype=dtypes.float64 if wide else dtypes.float32, device="cpu")


def number_in(state: State, name: str) -> Any:
    """A number of a state, which may be plain; one through which gradients flow stays a tensor."""
    value = state[name]
    if type(value) is Tensor:
        node = value._node
        if node.buffer is not None and node.grad_to is None and value._share is None:
            return number_of(node)  # no reading that anybody should be told of
    if not isinstance(value, Tensor) or (value.requires_grad and LOCAL.state.grad):
        return value
    return value.item()


def count_on(states: list[State], name: str, value: Any) -> None:
    """Gives the number of this name in all states, which is the same, another value."""
    if counted(states, name, value):
        return
    if not isinstance(states[0][name], Tensor):
        for state in states:
            state[name] = value
    elif isinstance(value, Tensor):
        for state in states:
            state[name].copy_(value)
    else:
        with no_grad():
            for state in states:
                state[name].fill_(value)


__all__ = ["as_count", "count_on", "number_in"]
