"""Own functions inside of autocast: decorators for `forward` and `backward` of a Function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from livegrad import dtypes
from livegrad.amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_enabled
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, node_of
from livegrad.ops.elementwise.arithmetic import cast


def _cast(value: Any, dtype: DType) -> Any:
    """`value` with the floating tensors in it cast, float64 excepted."""
    if isinstance(value, Handle):
        have = node_of(value).meta.dtype
        eligible = have.is_floating_point and have is not dtypes.float64
        return cast(value, dtype) if eligible else value
    if isinstance(value, Mapping):
        return {_cast(k, dtype): _cast(v, dtype) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_cast(v, dtype) for v in value])
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str = "cpu",
    cast_inputs: DType | None = None,
) -> Any:
    """Decorates `forward` of a Function: how autocast treats it, and with it its `backward`.

    Args:
        cast_inputs: inside of autocast, floating tensors arrive as this dtype, and `forward` runs
            with autocast off. None: `forward` runs as it is called.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def run(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        inside = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = inside and cast_inputs is None
        if not inside or cast_inputs is None:
            return forward(ctx, *args, **kwargs)
        dtype = dtypes.as_dtype(cast_inputs)
        with autocast(device_type, enabled=False):
            return forward(ctx, *_cast(args, dtype), **_cast(kwargs, dtype))

    return run


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cpu") -> Any:
    """Decorates `backward` of a Function: it runs in the autocast that its `forward` ran in."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def run(ctx: Any, *grads: Any, **kwargs: Any) -> Any:
        with autocast(device_type, ctx._dtype, ctx._fwd_used_autocast):
            return backward(ctx, *grads, **kwargs)

    return run
