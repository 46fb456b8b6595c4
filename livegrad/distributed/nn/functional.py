"""Collectives that give new tensors, which gradients go through.

With one member they are copies; the collectives that write in place check the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad.distributed import collectives
from livegrad.distributed.collectives import Group
from livegrad.distributed.groups import ReduceOp
from livegrad.tensor import Tensor


def _checked(write: Any, value: Tensor, *args: Any, group: Group) -> Tensor:
    """A copy, after the collective that works in place has taken one."""
    found = value.clone()
    write(found.detach(), *args, group=group)
    return found


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Tensor:
    """The tensor of member `src`."""
    return _checked(collectives.broadcast, tensor, src, group=group)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Group = None) -> Tensor:
    """The tensors of all members, combined."""
    return _checked(collectives.all_reduce, tensor, op, group=group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Group = None) -> Tensor:
    """The tensors of all members, combined, for member `dst`."""
    return _checked(collectives.reduce, tensor, dst, op, group=group)


def all_gather(tensor: Tensor, group: Group = None) -> tuple[Tensor, ...]:
    """The tensors of all members."""
    found = tensor.clone()
    collectives.all_gather([found.detach()], tensor.detach(), group=group)
    return (found,)


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> tuple[Tensor, ...]:
    """The tensors of all members, for member `dst`."""
    found = tensor.clone()
    collectives.gather(tensor.detach(), [found.detach()], dst, group=group)
    return (found,)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Tensor:
    """This member's part of what member `src` has."""
    found = tensors[0].clone()
    collectives.scatter(found.detach(), [x.detach() for x in tensors], src, group=group)
    return found


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Group = None
) -> Tensor:
    """This member's part of the tensors of all, combined; it is written to `output`, too."""
    collectives.reduce_scatter(output.detach(), [x.detach() for x in input_list], op, group=group)
    return input_list[0].clone()


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Group = None
) -> tuple[Tensor, ...]:
    """A part of each member for each; they are written to the outputs, too."""
    given = [x.detach() for x in input_tensor_list]
    collectives.all_to_all([x.detach() for x in output_tensor_list], given, group=group)
    return tuple([x.clone() for x in input_tensor_list])


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Group = None,
) -> Tensor:
    """A part of each member for each, in one tensor; it is written to `output`, too."""
    splits = (output_split_sizes, input_split_sizes)
    collectives.all_to_all_single(output.detach(), input.detach(), *splits, group=group)
    return input.clone().view(output.shape)


__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
