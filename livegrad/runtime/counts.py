"""Numbers in the states of parameters (`optim/counting.py`): those of equal age have one node.

Here, and not there, because hot functions are the same for all programs, also those without an
optimiser: native code is kept for them together.
"""

from __future__ import annotations

from typing import Any

from livegrad import dtypes
from livegrad.graph.handle import Handle, leaf_node
from livegrad.graph.meta import meta_of
from livegrad.native.hot import hot
from livegrad.runtime.values import buffer_of_floats

State = dict[str, Any]

# Of most numbers in states.
_META = meta_of((), dtypes.float32)


@hot
def counted(states: list[State], name: str, value: Any) -> bool:
    """Whether the numbers could be made to refer to a new node: nothing else shows their memory."""
    if type(value) is not float:
        return False
    for state in states:
        count = state[name]
        if not isinstance(count, Handle):
            return False
        if count._share is not None or count._node.meta is not _META:
            return False
    buffer = buffer_of_floats((value,))
    if buffer is None:  # it is not finite
        return False
    node = leaf_node(_META, buffer)
    for state in states:
        state[name]._node = node
    return True


@hot
def equally_old(states: list[State], names: list[str]) -> bool:
    """Whether all states are there, and their numbers are known to be the same."""
    for name in names:
        first = states[0].get(name)
        if not isinstance(first, Handle) or first._share is not None:
            return False
        node = first._node
        for state in states:
            count = state.get(name)
            if count is not first:
                if not isinstance(count, Handle) or count._node is not node:
                    return False
                if count._share is not None:
                    return False
    return True


__all__ = ["counted", "equally_old"]
