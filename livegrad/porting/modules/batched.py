"""`torch._C._functorch`: what packages ask PyTorch's transforms of functions for.

Functions are transformed by recording what they do (`livegrad.func`): no tensor is wrapped.
"""

from __future__ import annotations

from typing import Any, NoReturn

from livegrad.graph.handle import Handle, node_of
from livegrad.graph.state import LOCAL


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a transform is running, and the values of a tensor cannot be had before its end."""
    waits = isinstance(tensor, Handle) and node_of(tensor).buffer is None
    return waits and LOCAL.state.flusher is not None


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Whether a tensor is wrapped for gradients: none is."""
    return False


is_functorch_wrapped_tensor = is_batchedtensor


def get_unwrapped(tensor: Any) -> Any:
    """A tensor is what it is."""
    return tensor


def refused(*args: Any) -> NoReturn:
    """Says what to do instead."""
    raise NotImplementedError(
        "livegrad.func.vmap records a function for one entry of a batch; the batch dim cannot be "
        "added to a tensor by hand. Pass the tensors themselves to vmap"
    )


_add_batch_dim = _remove_batch_dim = _vmap_increment_nesting = _vmap_decrement_nesting = refused
