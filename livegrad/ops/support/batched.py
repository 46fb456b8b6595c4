"""Rules of `vmap` that several ops share: how an operation is done for many examples at once.

    rule(n, size, operands, batched) -> tensor of shape (size, *n.meta.shape)

A rule gets a traced node, the number of examples, and the node's operands, of which those that
differ from example to example are batched: they have one more dim, in front. It records the
operation for all examples, or gives NotImplemented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad.graph.record import record
from livegrad.ops.shaping.movement import aligned, reshape_to, wholes

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def elementwise(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """Operands are broadcast, and the op finds out itself what results."""
    return record(n.op, aligned_all(n.meta.ndim, xs, batched), n.attrs, n.args)


def aligned_all(ndim: int, xs: list[Tensor], batched: tuple[bool, ...]) -> list[Tensor]:
    """Operands to be broadcast, of which examples have `ndim` dims at most."""
    return [aligned(x, ndim) if b else x for x, b in zip(xs, batched, strict=True)]


def matrices(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """Ops on matrices in the last two dims, with dims in front that are broadcast."""
    ndim = max([x.meta.ndim for x in n.inputs])
    return record(n.op, aligned_all(ndim, xs, batched), n.attrs, n.args)


def as_it_is(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Any:
    """Ops that work on the last dims of their first operand, and take further ones in front."""
    return record(n.op, xs, n.attrs, n.args) if not any(batched[1:]) else NotImplemented


def all_batched(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """The same where all operands have the dims in front."""
    return record(n.op, wholes(xs, batched, size), n.attrs, n.args)


def folding(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """Ops whose attrs begin with the dims they fold, which are one further on."""
    xs = wholes(xs, batched, size)
    dims, *rest = n.attrs
    if not dims:  # a number each: they get a dim to be folded
        xs = [reshape_to(x, (size, 1)) for x in xs]
        return reshape_to(record(n.op, xs, ((1,), *rest), n.args), (size, *n.meta.shape))
    moved = tuple([d + 1 for d in dims])
    return record(n.op, xs, (moved, *rest), n.args)


# --------------------------------------------------------------------------- ops along one dim


def moved_dim(dim: int) -> int:
    """A dim of an example as one of the batch; one that counts from the end stays."""
    return dim if dim < 0 else dim + 1


def along(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """Ops whose attrs begin with a dim, on operands of one rank; an example may be a number."""
    operands = wholes(xs, batched, size)
    attrs = (moved_dim(n.attrs[0]), *n.attrs[1:])
    if not n.inputs[0].meta.ndim:
        operands = [reshape_to(x, (size, 1)) for x in operands]
        attrs = (1, *n.attrs[1:])
        return reshape_to(record(n.op, operands, attrs, n.args), (size, *n.meta.shape))
    return record(n.op, operands, attrs, n.args)


def along_shaped(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Any:
    """The same for ops that are told the shape of their result."""
    if not n.inputs[0].meta.ndim:
        return NotImplemented
    attrs = (moved_dim(n.attrs[0]), *n.attrs[1:])
    return record(n.op, wholes(xs, batched, size), attrs, n.args, (size, *n.meta.shape))
