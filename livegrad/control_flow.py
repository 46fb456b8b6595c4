"""`cond` and `while_loop`: branches and loops as functions. Python's own do the same here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad.tensor import Tensor


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """`true_fn(*operands)` if `pred` is true, else `false_fn(*operands)`; with gradients.

    Only the branch that is taken runs. `pred` is a number, or a tensor with one element.
    """
    if not isinstance(pred, int | float):
        if not isinstance(pred, Tensor):
            raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
        if pred.numel() != 1:
            raise RuntimeError(
                f"Expected pred to be bool or single-element tensor, but got {pred}."
            )
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> Any:
    """Replaces what is carried by `body_fn(*carried)` as long as `cond_fn(*carried)` is true."""
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        out = body_fn(*carried)
        carried = tuple(out) if isinstance(out, tuple | list) else (out,)
    return carried
