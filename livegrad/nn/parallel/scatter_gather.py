"""Tensors on several GPUs: there are none, and a call says so, as PyTorch without GPUs does."""

from __future__ import annotations

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


def _no_gpu(what: str) -> RuntimeError:
    return RuntimeError(f"{what}: there is no GPU here; call the module itself")


__all__ = ["gather", "scatter", "scatter_kwargs"]
