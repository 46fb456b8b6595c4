"""`torch.nn.utils._named_member_accessor`: other tensors for those of a module."""

from __future__ import annotations

from typing import Any

from livegrad.nn import Module
from livegrad.tensor import Tensor

_MISSING: Any = object()


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Puts `tensor` in the place of a parameter, buffer or attribute, and gives what was there.

    `_MISSING` stands for nothing.
    """
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if not name or "." in name:
        raise KeyError(f"got tensor name {name!r}; expected one that is not empty and has no '.'")
    tables: list[Any] = [module._parameters, module._buffers, vars(module)]
    table = next((table for table in tables if name in table), tables[-1])
    before = table.get(name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    if tensor is not _MISSING:
        table[name] = tensor
    elif before is not _MISSING:
        del table[name]
    return before
