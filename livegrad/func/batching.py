"""Batching rules: how each operation is done for many examples at once.

A rule gets a traced node, the number of examples, and the node's operands, of which those that
differ from example to example are batched: they have one more dim, in front. It records the
operation for all examples and gives its result with that dim in front.

    rule(n, size, operands, batched) -> tensor of shape (size, *n.meta.shape)

Operations without a rule are expanded if they are composites, else done example by example
(`one_by_one`). Every op's samples are run through vmap by tests/func/test_every_op.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from livegrad.device import CPU
from livegrad.dtypes import DType
from livegrad.graph import elsewhere
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Shape, meta_of, on_device
from livegrad.graph.op import REGISTRY
from livegrad.graph.record import append, record
from livegrad.ops.making.generate import filled_as
from livegrad.ops.shaping.joining import stack
from livegrad.ops.shaping.movement import EXPAND, INDEX, PERMUTE, reshape_to
from livegrad.ops.support.batched import aligned, whole, wholes

if TYPE_CHECKING:
    from livegrad.graph.node import Node, Spec
    from livegrad.tensor import Tensor

Rule = Callable[[Any, int, "list[Tensor]", tuple[bool, ...]], Any]


def find_rule(node: Node) -> Rule | None:
    """The rule for a node: of its op, or of the op's kind."""
    named = node.op.batch
    if named is not None:
        return RULES[named] if isinstance(named, str) else named
    found = _KINDS.get(node.op.kind)
    return broadcast_rule if found is None and _is_host_elementwise(node) else found


def _is_host_elementwise(node: Node) -> bool:
    """Whether an op works on each element, although NumPy does it: `host_functions.py`."""
    attrs = node.attrs
    return (
        node.op.kind == "host"
        and len(attrs) == 3
        and isinstance(attrs[0], DType)
        and isinstance(attrs[1], str)
        and set(attrs[1]) <= {"t", "s"}
    )


# ---------------------------------------------------------------------------------- operands


def example(x: Tensor, i: int) -> Tensor:
    """The i-th example of a batched tensor."""
    shape = node_of(x).meta.shape
    items = (("int",), *[("all",)] * (len(shape) - 1))
    return record(INDEX, (x,), (items,), (i,), shape[1:])


def one_by_one(
    n: Any,
    size: int,
    xs: list[Tensor],
    batched: tuple[bool, ...],
    args: Sequence[tuple[Any, ...]] | None = None,
) -> Tensor:
    """The operation for each example (with args of its own), and the results side by side."""
    if size == 0:
        return filled_as(on_device(meta_of((0, *n.meta.shape), n.meta.dtype), xs[0].device), 0)
    results = []
    for i in range(size):
        inputs = [node_of(example(x, i) if b else x) for x, b in zip(xs, batched, strict=True)]
        flows = any(x.grad_to is not None for x in inputs)
        numbers = n.args if args is None else args[i]
        results.append(_appended(n.spec, tuple(inputs), numbers, n.spec.grad if flows else None))
    return stack(results)


# ----------------------------------------------------------------------------- kinds of ops


def elementwise_rule(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """Dims are aligned; dtypes stay what they are, although a 0-d operand now has a dim."""
    ndim = n.meta.ndim
    nodes = tuple([node_of(aligned(x, ndim) if b else x) for x, b in zip(xs, batched, strict=True)])
    return same_spec(n, nodes, (size, *n.meta.shape), n.attrs)


def broadcast_rule(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """Operands are broadcast, and the op finds out itself what results."""
    ndim = n.meta.ndim
    operands = [aligned(x, ndim) if b else x for x, b in zip(xs, batched, strict=True)]
    return record(n.op, operands, n.attrs, n.args)


def same_spec(n: Any, nodes: tuple[Node, ...], shape: Shape, attrs: tuple[Any, ...]) -> Tensor:
    """The node's operation on other inputs, without asking its inference rule for the result."""
    op = n.op
    metas = tuple([on_device(x.meta, CPU) for x in nodes])
    key = ("batched", metas, attrs, n.meta.dtype)
    spec = op.cache.get(key)
    if spec is None:
        spec = op.remember(key, attrs, metas, meta_of(shape, n.meta.dtype))
    flows = any(x.grad_to is not None for x in nodes)
    return _appended(spec, nodes, n.args, spec.grad if flows else None)


def _appended(spec: Spec, nodes: tuple[Node, ...], args: tuple[Any, ...], grad: Any) -> Tensor:
    """The node of an operation whose spec is known."""
    for x in nodes:
        if x.meta.device is not CPU:
            return elsewhere.recorded(spec, nodes, args, grad, x.meta.device)
    return append(spec, nodes, args, grad)


def reduce_rule(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """The folded dims are one further on: attrs (dims, keepdim, …)."""
    return over_dims(n, size, wholes(xs, batched, size))


def over_dims(n: Any, size: int, xs: list[Tensor]) -> Tensor:
    """An op whose attrs begin with the dims it folds, on operands that are all batched."""
    dims, *rest = n.attrs
    if not dims:  # a number each: they get a dim to be folded
        xs = [reshape_to(x, (size, 1)) for x in xs]
        return reshape_to(record(n.op, xs, ((1,), *rest), n.args), (size, *n.meta.shape))
    if n.op.name in ("argmax", "argmin") and len(dims) > 1:  # the place among all
        flat = [reshape_to(x, (size, prod(x.shape[1:]))) for x in xs]
        return reshape_to(record(n.op, flat, ((1,), *rest), n.args), (size, *n.meta.shape))
    moved = tuple([d + 1 for d in dims])
    return record(n.op, xs, (moved, *rest), n.args)


_KINDS: dict[str, Rule] = {"elementwise": elementwise_rule, "reduce": reduce_rule}


# ------------------------------------------------------------------------------------ movement


def _reshape(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return reshape_to(xs[0], (size, *n.meta.shape))


def _permute(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return record(PERMUTE, xs, ((0, *[d + 1 for d in n.attrs[0]]),))


def _expand(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return record(EXPAND, (aligned(xs[0], n.meta.ndim),), (), (), (size, *n.meta.shape))


def same(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return record(n.op, xs)


def _index(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return record(INDEX, xs, ((("all",), *n.attrs[0]),), n.args, (size, *n.meta.shape))


def _index_write(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return record(n.op, wholes(xs, batched, size), ((("all",), *n.attrs[0]),), n.args)


def _flip(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return record(n.op, xs, (tuple([d + 1 for d in n.attrs[0]]),), n.args)


def _diagonal(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    dims = tuple([d + 1 for d in n.attrs])
    return record(n.op, xs, dims, n.args, (size, *n.meta.shape))


def _pad(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return record(n.op, xs, ((False, *n.attrs[0]),), n.args, (size, *n.meta.shape))


# ------------------------------------------------------------------------------------ products


def _matmul(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    a, b = xs
    first, second = (node_of(x).meta.shape for x in xs)
    if batched == (True, False) and len(second) == 2:  # one product of all rows
        rows = record(n.op, (reshape_to(a, (prod(first[:-1]), first[-1])), b))
        return reshape_to(rows, (size, *n.meta.shape))
    ndim = n.meta.ndim
    operands = [aligned(x, ndim) if one else x for x, one in zip(xs, batched, strict=True)]
    return record(n.op, operands)


def _linear(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Any:
    return record(n.op, xs, n.attrs) if not any(batched[1:]) else NotImplemented


def _recurrent(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Any:
    """Sequences of all examples are run side by side, if one weight serves all of them."""
    from livegrad.ops.layers.recurrent import Layout

    layout = Layout(*n.attrs)
    of_sequences = [name in ("gates", "h", "c") for name in layout.names]
    one_weight = not any(b for b, own in zip(batched, of_sequences, strict=True) if not own)
    count = n.inputs[1].meta.shape[0]
    if layout.packed or not one_weight or not count:
        return NotImplemented
    steps = n.meta.shape[0] // count

    def side_by_side(x: Tensor, b: bool) -> Tensor:
        """(size, steps * count, width) as rows: step by step, example by example."""
        x = whole(x, b, size)
        _, rows, width = node_of(x).meta.shape
        split = reshape_to(x, (size, rows // count, count, width))
        return reshape_to(record(PERMUTE, (split,), ((1, 0, 2, 3),)), (rows * size, width))

    operands = [
        side_by_side(x, b) if own else x
        for x, b, own in zip(xs, batched, of_sequences, strict=True)
    ]
    y = reshape_to(record(n.op, operands, n.attrs), (steps, size, count, n.meta.shape[1]))
    return reshape_to(record(PERMUTE, (y,), ((1, 0, 2, 3),)), (size, *n.meta.shape))


# ----------------------------------------------------------------------- ops along one dim


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


def shifted_dims(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return over_dims(n, size, wholes(xs, batched, size))


def as_it_is(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Any:
    """Ops that work on the last dims of their first operand, and take further ones in front."""
    return record(n.op, xs, n.attrs, n.args) if not any(batched[1:]) else NotImplemented


def all_batched(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """The same where all operands have the dims in front."""
    return record(n.op, wholes(xs, batched, size), n.attrs, n.args)


# ------------------------------------------------------------------------------------ indexing


def _index_select(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    x, index = xs
    dim = n.attrs[0]
    if batched == (True, False):
        return record(n.op, (x, index), (dim + 1,))
    if batched == (False, True):
        out = record(n.op, (x, index), (dim,))  # (dims before, size, index, dims after)
        rest = [d for d in range(node_of(out).meta.ndim) if d != dim]
        return record(PERMUTE, (out,), ((dim, *rest),))
    picked = _spread_index(index, x, dim + 1)
    out = record(REGISTRY["gather"], (x, picked), (dim + 1,))
    return reshape_to(out, (size, *n.meta.shape))


def _spread_index(index: Tensor, x: Tensor, dim: int) -> Tensor:
    """One index per example, repeated for the other dims of a batched `x`, as gather wants it."""
    shape = node_of(x).meta.shape
    size, *rest = node_of(index).meta.shape
    count = prod(rest)
    narrow = [size] + [1] * (len(shape) - 1)
    narrow[dim] = count
    wide = (*shape[:dim], count, *shape[dim + 1 :])
    return record(EXPAND, (reshape_to(index, tuple(narrow)),), (), (), wide)


def write_rows(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    base, index, source = xs
    dim = n.attrs[0] + 1
    base = whole(base, batched[0], size)
    source = whole(source, batched[2], size)
    attrs = (dim, *n.attrs[1:])
    if not batched[1]:
        return record(n.op, (base, index, source), attrs)
    picked = _spread_index(index, base, dim)
    flat = reshape_to(source, node_of(picked).meta.shape)
    return record(REGISTRY[_SCATTERS[n.op.name]], (base, picked, flat), attrs)


_SCATTERS = {"index_add": "scatter_add", "index_put": "scatter", "index_fold": "scatter_fold"}


# ------------------------------------------------------------------------------ linear algebra


def matrices(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """Ops on matrices in the last two dims, with dims in front that are broadcast."""
    ndim = max([x.meta.ndim for x in n.inputs])
    operands = [aligned(x, ndim) if one else x for x, one in zip(xs, batched, strict=True)]
    return record(n.op, operands, n.attrs, n.args)


def permutation(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return record(n.op, xs, n.attrs, n.args, (size, *n.meta.shape))


# What the `batch` of an op names.
RULES: dict[str, Rule] = {
    rule.__name__.removeprefix("_"): rule
    for rule in (
        _reshape, _permute, _expand, _index, _index_write, _flip, _diagonal, _pad, _matmul, _linear,
        _recurrent, _index_select, same, along, along_shaped, shifted_dims, as_it_is, all_batched,
        write_rows, matrices, permutation,
    )
}  # fmt: skip
