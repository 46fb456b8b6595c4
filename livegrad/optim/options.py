"""Options of optimisers: reading them as numbers, and PyTorch's errors for wrong ones."""

from __future__ import annotations

from math import sqrt
from typing import Any

from livegrad.graph.state import LOCAL
from livegrad.tensor import Tensor


def number(value: Any) -> Any:
    """An option as a Python float.

    A tensor is read; within a step of an optimiser that is differentiable, one that requires a
    gradient stays a (0-d) tensor.
    """
    return float(value) if type(value) in _PLAIN else _as_number(value)


_PLAIN = (float, int)


def _as_number(value: Any) -> Any:
    if isinstance(value, Tensor) and value.requires_grad and LOCAL.state.grad:
        return value.reshape(()) if value.ndim else value
    return float(value)


def root(value: Any) -> Any:
    """The square root of what `number` gives."""
    return value.sqrt() if isinstance(value, Tensor) else sqrt(value)


def betas_of(group: dict[str, Any]) -> tuple[Any, Any]:
    """The two betas of a group as numbers."""
    betas: tuple[Any, Any] = group["betas"]
    if type(betas[0]) is float and type(betas[1]) is float:
        return betas
    return number(betas[0]), number(betas[1])


def check_range(
    name: str, value: Any, low: float, high: float = float("inf"), *, zero: bool = True
) -> None:
    """ValueError unless `low <= value < high`, or not even `low` unless `zero`."""
    if not low <= value < high or (not zero and value == low):
        raise ValueError(f"Invalid {name}: {value}")


def check_one_element(name: str, value: Any) -> None:
    """ValueError if `value` is a tensor of any but one element."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


def check_rate(lr: Any, *, zero: bool = True) -> None:
    """ValueError unless `lr` is a number that is not negative (nor 0, unless `zero`)."""
    check_one_element("lr", lr)
    check_range("learning rate", lr, 0.0, zero=zero)


def check_betas(betas: tuple[Any, Any]) -> None:
    """ValueError unless both are in [0, 1), and both numbers or both tensors."""
    for i, beta in enumerate(betas):
        check_range(f"beta parameter at index {i}", beta, 0.0, 1.0)
    if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        check_one_element(f"betas[{i}]", beta)


def check_common(lr: Any, eps: float, weight_decay: float) -> None:
    """ValueError unless none is negative."""
    check_rate(lr)
    check_range("epsilon value", eps, 0.0)
    check_range("weight_decay value", weight_decay, 0.0)


def check_ways(foreach: bool | None, differentiable: bool, fused: bool | None) -> None:
    """RuntimeError for ways of running that exclude each other.

    Apart from `differentiable`, they say how PyTorch should run, and change nothing here.
    """
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def check_plain(**options: Any) -> None:
    """ValueError for an option that is a tensor, which `foreach` without `capturable` excludes."""
    for name, value in options.items():
        if isinstance(value, Tensor):
            raise ValueError(
                f"{name} as a Tensor is not supported for capturable=False and foreach=True"
            )
