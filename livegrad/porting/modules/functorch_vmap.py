"""`torch._functorch.vmap`: parts of PyTorch's vmap that packages import, or put their own in."""

from __future__ import annotations

from typing import Any

from livegrad.func import vmap as vmap
from livegrad.func.tree import (
    flatten as tree_flatten,
    flatten_up_to as _broadcast_to_and_flatten,
    unflatten as tree_unflatten,
)
from livegrad.porting.modules.batched import refused
from livegrad.tensor import Tensor

__all__ = ["Tensor", "_broadcast_to_and_flatten", "tree_flatten", "tree_unflatten", "vmap"]

_add_batch_dim = _remove_batch_dim = _maybe_remove_batch_dim = refused
_create_batched_inputs = _unwrap_batched = _process_batched_inputs = refused


def _get_name(func: Any) -> str:
    """What messages call a function."""
    return getattr(func, "__name__", None) or repr(func)
