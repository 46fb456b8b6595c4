"""skip_init: a module without initial values."""

from __future__ import annotations

import inspect
from typing import Any

from livegrad.nn.module import Module
from livegrad.random import get_rng_state, set_rng_state


def skip_init(module_cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """`module_cls(*args, **kwargs)` whose parameters and buffers are still to be written.

    What the constructor draws is never computed, and the random numbers that follow are those that
    would have come without it.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    state = get_rng_state()
    module = module_cls(*args, **kwargs)
    set_rng_state(state)
    return module.to_empty(device=kwargs.get("device"))
