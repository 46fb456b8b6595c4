"""Tensors on several GPUs: there are none, and a call says so, as PyTorch without GPUs does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> NoReturn:
    """Parts of tensors, one for each GPU."""
    raise _no_gpu("scatter")


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> NoReturn:
    """Parts of arguments, one for each GPU."""
    raise _no_gpu("scatter_kwargs")


def gather(outputs: Any, target_device: Any, dim: int = 0) -> NoReturn:
    """Tensors of all GPUs, as one."""
    raise _no_gpu("gather")


def replicate(network: Any, devices: Any, detach: bool = False) -> NoReturn:
    """Copies of a module, one on each GPU."""
    raise _no_gpu("replicate")


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None
) -> list[Any]:
    """What each module gives for its inputs."""
    named = kwargs_tup or [{}] * len(modules)
    given = [x if isinstance(x, list | tuple) else (x,) for x in inputs]
    return [m(*x, **k) for m, x, k in zip(modules, given, named, strict=True)]


def _no_gpu(what: str) -> RuntimeError:
    return RuntimeError(f"{what}: there is no GPU here; call the module itself")


__all__ = ["gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]
