"""Numbers in the state of a parameter: how many steps it has taken, and what depends on that.

PyTorch keeps them as tensors without dims, each parameter its own, and counts in place: whoever
holds one sees it move. So do we; but parameters of equal age have one node in common, so that a
step reads one number and writes one.

    state[p]["step"] ──► Tensor ──┐
    state[q]["step"] ──► Tensor ──┴──► Node 3.0        after the step: the same with 4.0, or another
                                                       node if somebody else refers to one of these

They are not with the optimisers, because hot functions are the same for all programs, also those
that import none: native code is kept for them together.
"""

from __future__ import annotations

from typing import Any

from livegrad import dtypes
from livegrad.graph.handle import COUNTS_ARE_KNOWN, Handle, leaf, leaf_node
from livegrad.graph.meta import meta_of
from livegrad.graph.state import LOCAL, setting
from livegrad.native.calls import half_at, put_single
from livegrad.native.hot import hot
from livegrad.native.layout import REFERENCES
from livegrad.runtime.liveness import may_overwrite
from livegrad.runtime.values import LARGEST, buffer_of, buffer_of_floats, number_of

State = dict[str, Any]

# Of most numbers in states.
_META = meta_of((), dtypes.float32)


def as_count(value: float) -> Any:
    """A number as PyTorch keeps it in a state; float64 if that is the default dtype."""
    wide = dtypes.get_default_dtype() is dtypes.float64
    meta = meta_of((), dtypes.float64) if wide else _META
    return leaf(meta, buffer_of(float(value), meta.dtype))


def number_in(state: State, name: str) -> Any:
    """A number of a state, which may be plain; one through which gradients flow stays a tensor."""
    value = state[name]
    if not isinstance(value, Handle) or (value.requires_grad and LOCAL.state.grad):
        return value
    return value.item()


@hot
def are_equal(states: list[State], names: list[str], numbers: State) -> bool:
    """Whether all states are there, and their numbers are known to be the same: `numbers` gets
    them. Nobody is told that they were read."""
    for name in names:
        node: Any = None
        for state in states:
            count = state.get(name)
            if not isinstance(count, Handle) or count._share is not None:
                return False
            if node is None:
                node = count._node
            elif count._node is not node:
                return False
        if node.buffer is None or node.grad_to is not None:
            return False
        numbers[name] = number_of(node)
    return True


def count_on(states: list[State], new: State) -> None:
    """Gives the numbers of these names in all states, which are the same, other values."""
    for name, value in new.items():
        if not _moved(states, name, value):
            _write(states, name, value)


@hot
def _moved(states: list[State], name: str, value: Any) -> bool:
    """Whether a number could be written, or a node made for it: nothing else shows its memory."""
    if type(value) is not float or not -LARGEST <= value <= LARGEST:
        return False
    node: Any = None
    alone = COUNTS_ARE_KNOWN
    for state in states:
        count = state[name]
        if not isinstance(count, Handle) or count._share is not None:
            return False
        if count._node.meta is not _META:
            return False
        if node is None:
            node = count._node
        # The state refers to it, and we: each tensor counts once among those of the node.
        if count._node is not node or half_at(id(count) + REFERENCES) != 2:
            alone = False
    count = None
    buffer = node.buffer
    if alone and buffer is not None:
        others = half_at(id(node) + REFERENCES) - len(states) - 1
        others_of_buffer = half_at(id(buffer) + REFERENCES) - 2
        if may_overwrite(others, buffer, others_of_buffer):
            put_single(buffer.ptr, value)
            return True
    node = leaf_node(_META, buffer_of_floats((value,)))
    for state in states:
        state[name]._node = node
    return True


def _write(states: list[State], name: str, value: Any) -> None:
    if not isinstance(states[0][name], Handle):
        for state in states:
            state[name] = value
    elif isinstance(value, Handle):
        for state in states:
            state[name].copy_(value)
    else:
        with setting(grad=False):
            for state in states:
                state[name].fill_(value)


__all__ = ["are_equal", "as_count", "count_on", "number_in"]
