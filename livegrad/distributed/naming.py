"""Names of parameters without the modules that wrap others for several processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from livegrad.distributed.data_parallel import DistributedDataParallel
from livegrad.distributed.fsdp.wrapper import FullyShardedDataParallel
from livegrad.nn.module import Module

# What these modules call the one inside, which is not part of a name.
_WRAPPERS = {DistributedDataParallel: "module", FullyShardedDataParallel: "_fsdp_wrapped_module"}


def named_members(module: Module, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Parameters and buffers by their names in the model itself."""
    for members in (module._parameters, module._buffers):
        yield from ((prefix + name, x) for name, x in members.items() if x is not None)
    hidden = _WRAPPERS.get(type(module))
    for name, child in module._modules.items():
        if child is not None:
            yield from named_members(child, prefix if name == hidden else f"{prefix}{name}.")


def short_names(model: Module) -> dict[str, str]:
    """The names in the model itself, by those in its state dict."""
    names = {id(x): name for name, x in named_members(model)}
    long = model.state_dict(keep_vars=True)
    return {key: names.get(id(x), key) for key, x in long.items()}
