"""Collectives that give new tensors, which gradients go through: for one process, copies."""

from __future__ import annotations

from typing import Any

from livegrad.distributed.groups import group_of
from livegrad.tensor import Tensor


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor, once it is there: it is."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """What all processes have, combined."""
    _check(group)
    return self.clone()


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """What all processes have, one behind the other along a dim."""
    _check(group)
    return self.clone()


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """The part of this process of what all have, combined."""
    _check(group)
    return self.clone()


def all_to_all_single(
    self: Tensor, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = ""
) -> Tensor:
    """The parts that all processes have for this one."""
    _check(group)
    return self.clone()


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """What one process has."""
    _check(group)
    return self.clone()


def _check(group: Any) -> None:
    group_of(None if not hasattr(group, "rank") else group)


# Gradients go through all of them.
all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
