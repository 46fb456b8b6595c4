"""Names of `torch.optim.optimizer` that optimisers written elsewhere import."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

F = TypeVar("F")

ParamsT = Iterable[Any]
StateDict: TypeAlias = dict[str, Any]
# What such optimisers end their docstrings with.
_foreach_doc = _fused_doc = _capturable_doc = _differentiable_doc = _maximize_doc = ""
_params_doc = ""


def _use_grad_for_differentiable(func: F) -> F:
    """The method: `step` decides by itself whether gradients flow through it."""
    return func


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[F], F]:
    """A decorator that changes nothing."""
    return lambda function: function


def _default_to_fused_or_foreach(
    params: Any, differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(False, False): one tensor after the other, which is fused anyway."""
    return False, False


def _get_value(x: Any) -> Any:
    """A number, of a tensor or as it is."""
    return x.item() if hasattr(x, "item") else x


def _stack_if_compiling(x: F) -> F:
    """As it is."""
    return x


def _dispatch_sqrt(x: Any) -> Any:
    """The square root of a tensor or a number."""
    return x.sqrt() if hasattr(x, "sqrt") else x**0.5


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """[]: there is no GPU."""
    return []
