"""functional_call under its old name; see `livegrad.func.functional_call`."""

from __future__ import annotations

from typing import Any


def functional_call(
    module: Any,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with other tensors for (some of) its parameters and buffers."""
    from livegrad.func.modules import functional_call  # only those who use it wait for it

    return functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
