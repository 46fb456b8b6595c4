"""Collectives: what the members of a group do together.

With one member, each of them gives what it was given; arguments are checked as with more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from livegrad.autograd import no_grad
from livegrad.distributed.groups import ProcessGroup, ReduceOp, Work, group_of
from livegrad.tensor import Tensor

_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
Group = ProcessGroup | None


def _done(group: Any, async_op: bool, *written: Any) -> Work | None:
    return Work(list(written)) if async_op else None


def _check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type livegrad.Tensor but "
            f"got {type(value)} instead."
        )


def _check_list(values: Any, name: str) -> None:
    if not isinstance(values, list) or not all([isinstance(x, Tensor) for x in values]):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[livegrad.Tensor] "
            f"but got {type(values)} instead."
        )


def _check_one(values: Sequence[Any], what: str) -> None:
    if len(values) != 1:
        raise RuntimeError(f"{what}: invalid tensor list (expected length 1, got {len(values)})")


def _write(to: Any, value: Any, what: str, any_shape: bool = False) -> None:
    """Copies a tensor to another of the same dtype and shape."""
    if to.dtype is not value.dtype:
        raise ValueError(
            f"Invalid usage of tensors with different dtypes: found {to.dtype} and {value.dtype}"
        )
    alike = to.numel() == value.numel() if any_shape else to.shape == value.shape
    if not alike:
        raise RuntimeError(
            f"{what}: invalid tensor size (expected {tuple(value.shape)}, got {tuple(to.shape)})"
        )
    if to is not value:
        with no_grad():
            to.copy_(value.reshape(to.shape))


def _check_op(op: Any, tensor: Any) -> None:
    if op in _BITWISE and tensor.is_floating_point():
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")


def _check_root(what: str, rank: int | None, group_rank: int | None) -> None:
    if rank is not None and group_rank is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    root = rank if rank is not None else group_rank
    if root is None:
        raise ValueError("Must specify global_rank or group_rank")
    if root != 0:
        raise RuntimeError(f"{what}: invalid root rank: {root}; the group has one process")


def _or_zero(rank: int | None, group_rank: int | None) -> int | None:
    return 0 if rank is None and group_rank is None else rank


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Waits for all members."""
    return _done(group_of(group), async_op)


def monitored_barrier(
    group: Group = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Waits for all members, and says who is late."""
    group_of(group)


def all_reduce(
    tensor: Any, op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Combines a tensor of all members, in place."""
    _check_tensor(tensor, "tensor")
    found = group_of(group)
    _check_op(op, tensor)
    return _done(found, async_op, tensor)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Combines several tensors of all members, in place."""
    values = [tensors] if isinstance(tensors, Tensor) else tensors
    _check_list(values, "tensors")
    return _done(group_of(group), async_op, *values)


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combines a tensor of all members, in place, for one of them."""
    _check_tensor(tensor, "tensor")
    found = group_of(group)
    _check_root("reduce", dst, group_dst)
    _check_op(op, tensor)
    return _done(found, async_op, tensor)


def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Gives a tensor of one member to all."""
    _check_tensor(tensor, "tensor")
    found = group_of(group)
    _check_root("broadcast", src, group_src)
    return _done(found, async_op, tensor)


def all_gather(
    tensor_list: Any, tensor: Any, group: Group = None, async_op: bool = False
) -> Work | None:
    """Gives the tensors of all members to all, as a list."""
    _check_list(tensor_list, "tensor_list")
    _check_tensor(tensor, "tensor")
    found = group_of(group)
    _check_one(tensor_list, "all_gather")
    _write(tensor_list[0], tensor, "all_gather")
    return _done(found, async_op, *tensor_list)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Group = None, async_op: bool = False
) -> Work | None:
    """Gives the tensors of all members to all, as one."""
    _check_tensor(output_tensor, "output_tensor")
    _check_tensor(input_tensor, "input_tensor")
    found = group_of(group)
    _write(output_tensor, input_tensor, "all_gather_into_tensor", any_shape=True)
    return _done(found, async_op, output_tensor)


def gather(
    tensor: Any,
    gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Gives the tensors of all members to one of them."""
    _check_tensor(tensor, "tensor")
    found = group_of(group)
    dst = _or_zero(dst, group_dst)
    here = (dst or 0) == 0 and (group_dst or 0) == 0
    if gather_list and not here:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    if here and not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _check_root("gather", dst, group_dst)
    assert gather_list is not None
    _check_list(gather_list, "gather_list")
    _check_one(gather_list, "gather")
    _write(gather_list[0], tensor, "gather")
    return _done(found, async_op, *gather_list)


def scatter(
    tensor: Any,
    scatter_list: list[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Gives each member one of the tensors that one of them has."""
    _check_tensor(tensor, "tensor")
    found = group_of(group)
    _check_root("scatter", _or_zero(src, group_src), group_src)
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    _check_list(scatter_list, "scatter_list")
    _check_one(scatter_list, "scatter")
    _write(tensor, scatter_list[0], "scatter")
    return _done(found, async_op, tensor)


def reduce_scatter(
    output: Any,
    input_list: Any,
    op: Any = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Combines lists of tensors; each member gets one of the results."""
    _check_tensor(output, "output")
    _check_list(input_list, "input_list")
    found = group_of(group)
    _check_one(input_list, "reduce_scatter")
    _check_op(op, output)
    _write(output, input_list[0], "reduce_scatter")
    return _done(found, async_op, output)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Combines tensors; each member gets a part of the result."""
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    found = group_of(group)
    _check_op(op, output)
    _write(output, input, "reduce_scatter_tensor", any_shape=True)
    return _done(found, async_op, output)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Group = None, async_op: bool = False
) -> Work | None:
    """Gives each member one tensor of each."""
    _check_list(output_tensor_list, "output_tensor_list")
    _check_list(input_tensor_list, "input_tensor_list")
    found = group_of(group)
    _check_one(output_tensor_list, "all_to_all")
    _check_one(input_tensor_list, "all_to_all")
    _write(output_tensor_list[0], input_tensor_list[0], "all_to_all")
    return _done(found, async_op, *output_tensor_list)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Gives each member one part of the tensor of each."""
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    found = group_of(group)
    for sizes, tensor in ((output_split_sizes, output), (input_split_sizes, input)):
        if sizes and sum(sizes) != tensor.shape[0]:
            raise RuntimeError("Split sizes doesn't match total dim 0 size")
    _write(output, input, "all_to_all_single")
    return _done(found, async_op, output)


# ------------------------------------------------------------------------------- one to another


def _refuse(what: str, rank: int | None, group_rank: int | None) -> None:
    other = rank if rank is not None else group_rank
    if other == 0:
        raise ValueError(
            f"Invalid {what} rank: {what} rank should not be the same as the rank of the current "
            "process."
        )
    raise ValueError(f"Invalid {what} rank: {other}; the group has one process, of rank 0")


def send(
    tensor: Any,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """ValueError: there is nobody to send to."""
    _check_tensor(tensor, "tensor")
    group_of(group)
    _refuse("destination", dst, group_dst)


def recv(
    tensor: Any,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """ValueError: there is nobody who sends."""
    _check_tensor(tensor, "tensor")
    group_of(group)
    _refuse("source", src, group_src)
    return 0


def isend(
    tensor: Any,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """`send` without waiting."""
    send(tensor, dst, group, tag, group_dst)
    return None


def irecv(
    tensor: Any,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """`recv` without waiting."""
    recv(tensor, src, group, tag, group_src)
    return None


class P2POp:
    """One `isend` or `irecv`, for `batch_isend_irecv`."""

    def __init__(
        self,
        op: Any,
        tensor: Any,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``isend`` or ``irecv``")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Several of them."""
    works = [x.op(x.tensor, x.peer, x.group, x.tag, x.group_peer) for x in p2p_op_list]
    return [work for work in works if work is not None]


all_gather_single = all_gather_into_tensor
reduce_scatter_single = reduce_scatter_tensor

__all__ = [
    "P2POp",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "gather",
    "irecv",
    "isend",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "send",
]
