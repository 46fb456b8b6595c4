"""Arguments of conversions to sparse tensors, checked."""

from __future__ import annotations

from typing import Any

from livegrad.ops.shaping.movement import whole


def int_of(name: str, what: str, value: Any) -> int:
    """An argument that must be an int, and no bool."""
    if isinstance(value, bool):
        raise TypeError(f"{name}(): argument {what!r} must be int, not bool")
    return whole(name, what, value)


def block_of(name: str, blocksize: Any) -> tuple[int, ...]:
    """Height and width of blocks, or one number for both, as a tuple."""
    if isinstance(blocksize, tuple | list):
        for i, n in enumerate(blocksize):
            if isinstance(n, bool) or not hasattr(n, "__index__"):
                raise TypeError(
                    f"{name}(): argument 'blocksize' must be tuple of ints, but found element of "
                    f"type {type(n).__name__} at pos {i}"
                )
        return tuple([whole(name, "blocksize", n) for n in blocksize])
    if isinstance(blocksize, bool) or not hasattr(blocksize, "__index__"):
        kind = type(blocksize).__name__
        raise TypeError(f"{name}(): argument 'blocksize' must be tuple of ints, not {kind}")
    return (whole(name, "blocksize", blocksize),) * 2
