"""Movement: operations that rearrange elements and compute nothing. Most give views."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import index as as_index
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.blame import as_items, one_or_several
from livegrad.graph.handle import Handle, may_be_stale, node_of
from livegrad.graph.index import FIRST, Along, Index, added, stepped
from livegrad.graph.infer import broadcast_shapes as common_shape
from livegrad.graph.layout import (
    Strides,
    expanded_strides,
    like_strides,
    repeats,
    viewed_strides,
)
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, Shape, Size, as_size, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, setting
from livegrad.graph.views import remember_view, view as record_view, view_found
from livegrad.native.calls import quotient, remainder
from livegrad.native.hot import hot
from livegrad.ops.making.generate import FULL as FULL, zeros_like
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.out import numpy_names

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]


def normal_dim(name: str, dim: Any, ndim: int) -> int:
    """`dim` counted from the front; IndexError outside [-ndim, ndim)."""
    if type(dim) is int and -ndim <= dim < ndim:  # most often
        return dim % ndim
    span = max(ndim, 1)
    number = whole(name, "dim", dim)
    if not -span <= number < span:
        raise IndexError(
            f"{name}: Dimension out of range (expected to be in range of [{-span}, {span - 1}], "
            f"but got {number})"
        )
    return number % span


def whole(name: str, what: str, value: Any) -> int:
    """An argument that must be an int, or stand for one, as a tensor of one integer does."""
    try:
        if type(value) is not bool:
            return as_index(value)
    except TypeError:
        pass
    raise TypeError(f"{name}(): argument {what!r} must be int, not {type(value).__name__}")


@hot
def are_ints(given: tuple[Any, ...]) -> bool:
    """Whether all that was given are plain integers."""
    return all([type(x) is int for x in given])


def sizes_of(name: str, given: tuple[Any, ...], keyword: Any = None) -> Shape:
    """Sizes or dims given as `f(2, 3)`, `f((2, 3))` or by keyword, as a tuple of int."""
    if keyword is not None:
        given = (keyword,)
    if are_ints(given):  # most often
        return given
    if len(given) == 1 and not isinstance(given[0], int):
        first = given[0]
        several = hasattr(first, "__iter__") and getattr(first, "ndim", 1) != 0
        given = tuple(first) if several else (first,)
    try:
        return tuple([as_size(x) for x in given])
    except TypeError:
        kinds = ", ".join([type(x).__name__ for x in given])
        raise TypeError(f"{name}(): expected integers for the sizes; got ({kinds})") from None


# ------------------------------------------------------------------------------------ reshape


@lru_cache(maxsize=4096)
def regrouping(old: Shape, new: Shape) -> tuple[tuple[int, int], ...]:
    """How a reshape regroups dims: (dims taken, dims made) per block of equal size.

    It follows from the sizes alone, so that plans never mistake a merge for a copy.
    """
    if 0 in old:
        return ((len(old), len(new)),)
    blocks = []
    i = j = 0
    while i < len(old) or j < len(new):
        start_i, start_j = i, j
        left = right = 1
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new):
            right, j = new[j], j + 1
        while left != right:
            if left < right and i < len(old):
                left, i = left * old[i], i + 1
            elif j < len(new):
                right, j = right * new[j], j + 1
            else:
                left, i = left * old[i], i + 1
        blocks.append((i - start_i, j - start_j))
    return tuple(blocks)


@lru_cache(maxsize=4096)
def _split_dims(
    old: Shape, new: Shape, blocks: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, ...], ...] | None:
    """For each dim before a reshape, the dims it becomes: none for one of size 1 that goes.

    None if dims are merged.
    """
    found: list[tuple[int, ...]] = [()] * len(old)
    i = j = 0
    for taken, made in blocks:
        olds = [d for d in range(i, i + taken) if old[d] != 1]
        if len(olds) > 1:
            return None
        if olds:
            found[olds[0]] = tuple([d for d in range(j, j + made) if new[d] != 1])
        i, j = i + taken, j + made
    return tuple(found)


def _reshape_view(n: Any, index: Index) -> Index | None:
    """Readable through if no dims are merged."""
    shape = n.meta.shape
    split = _split_dims(n.inputs[0].meta.shape, shape, n.attrs[0])
    if split is None:
        return None
    return tuple([_joined([index[d] for d in dims], [shape[d] for d in dims]) for dims in split])


def _joined(places: list[Along], sizes: list[int]) -> Along:
    """Where a dim is read that was split into dims of these sizes, which are read at `places`."""
    if not places:
        return FIRST
    at = places[0]
    for place, size in zip(places[1:], sizes[1:], strict=True):
        at = added(stepped(at, size, 0), place)
    return at


@hot
def _reshape_layout(metas: Metas, attrs: Attrs, meta: Meta) -> Strides | None:
    """Those of a view, where one can show the elements in that shape; else it is a copy.

    `squeeze` and `unsqueeze` say in a second attr which dims they keep or where theirs is.
    """
    before = metas[0]
    if len(attrs) == 1:
        if before.strides is None:
            return None
        return viewed_strides(before.shape, before.strides, meta.shape)
    return _strides_with_dims(before.shape, before.stride(), attrs[1])


def _strides_with_dims(shape: Shape, strides: Strides, at: Any) -> Strides:
    """Those of what `squeeze` makes, which keeps the dims `at`, or `unsqueeze`, whose is there."""
    if isinstance(at, tuple):
        return tuple([strides[d] for d in at])
    step = shape[at] * strides[at] if at < len(shape) else 1
    return (*strides[:at], step, *strides[at:])


@hot
def _as_asked(metas: Metas, attrs: Attrs, shape: Shape) -> Meta:
    """The meta of a result whose shape is said."""
    return meta_of(shape, metas[0].dtype)


RESHAPE = Op(
    "reshape",
    "movement",
    infer=lambda *given: _as_asked(*given),
    ref=lambda n, x: x.reshape(n.meta.shape),
    view=_reshape_view,
    write=lambda part, value, attrs, args: reshape_to(value, part.shape),
    grads=(lambda g, y, x: reshape_to(g, x.shape),),
    layout=lambda *given: _reshape_layout(*given),
    lower=lowered_by("movement.Reshape"),
    saves="",
    batch=lambda n, size, xs, batched: reshape_to(xs[0], (size, *n.meta.shape)),
    grad_fn=parts.reshape,
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 6),), lambda x: reshape(x, (3, 4))),
        lambda: s.Sample((s.uniform(2, 3, 4),), lambda x: reshape(x, (6, -1))),
        lambda: s.Sample((s.uniform(4),), lambda x: reshape(x, (4, 1, 1))),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: reshape(x, (3, 0))),
    ),
)


@hot
def reshape_to(x: Tensor, shape: Shape) -> Tensor:
    """`x` with another shape of as many elements, not as a view."""
    before = node_of(x).meta.shape
    if before == shape:
        return x
    return record(RESHAPE, (x,), (regrouping(before, shape),), (), shape)


def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The same elements in row-major order with another shape; one size may be -1.

    Args:
        input: a tensor.
        shape: the sizes, as numbers or as one tuple; one may be -1, which is computed.

    Example:
        >>> lg.reshape(lg.arange(6), (2, -1))
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
    named = shape is None and are_ints(sizes)
    found = view_found(RESHAPE, sizes, input) if named else None
    if found is not None:
        return found
    meta = node_of(input).meta
    wanted = resolved_shape(meta, sizes_of("reshape", sizes, shape))
    if is_viewable(meta, wanted):
        out = record_view(RESHAPE, input, (regrouping(meta.shape, wanted),), (), wanted)
        return remember_view(RESHAPE, sizes, input, out) if named else out
    return record(RESHAPE, (input,), (regrouping(meta.shape, wanted),), (), wanted)


def is_viewable(meta: Meta, shape: Shape) -> bool:
    """Whether PyTorch would show the elements in another shape without copying them."""
    return meta.strides is None or viewed_strides(meta.shape, meta.strides, shape) is not None


@hot
def is_shape_of(numel: int, shape: Shape) -> bool:
    """Whether a shape of plain sizes is one of so many elements; symbols are for others to see."""
    if type(numel) is not int:
        return False
    count = 1
    for size in shape:
        if type(size) is not int or size <= 0 or count > numel:
            return False
        count *= size
    return count == numel


@hot
def _with_rest(numel: int, shape: Shape) -> Shape | None:
    """A shape of plain sizes with its one -1 replaced; None if it is for others to see."""
    if type(numel) is not int:
        return None
    count = 1
    rest = 0
    for size in shape:
        if type(size) is not int or count > numel:
            return None
        if size == -1:
            rest += 1
        elif size <= 0:
            return None
        else:
            count *= size
    if rest != 1 or count > numel or remainder(numel, count) != 0:
        return None
    return tuple([quotient(numel, count) if size == -1 else size for size in shape])


def resolved_shape(meta: Meta, shape: Shape) -> Shape:
    """`shape` with -1 replaced, checked against the number of elements."""
    if is_shape_of(meta.numel, shape):  # most often
        return shape
    filled = _with_rest(meta.numel, shape)
    if filled is not None:
        return filled
    known = prod([size for size in shape if size != -1])
    if shape.count(-1) > 1:
        raise RuntimeError("reshape: only one dimension can be inferred")
    if any(size < -1 for size in shape):
        raise RuntimeError(f"reshape: invalid shape dimension in {list(shape)}")
    if -1 in shape and (known == 0 or meta.numel % known):
        reason = "unspecified dimension size -1 can be any value" if known == 0 else "is invalid"
        raise RuntimeError(
            f"reshape: shape '{list(shape)}' {reason} for input of size {meta.numel}"
        )
    sizes = tuple([meta.numel // known if size == -1 else int(size) for size in shape])
    if prod(sizes) != meta.numel:
        raise RuntimeError(
            f"reshape: shape '{list(shape)}' is invalid for input of size {meta.numel}"
        )
    return sizes


# ---------------------------------------------------------------------------- dims of size 1


@numpy_names
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None, *more: int) -> Tensor:
    """`input` without its dims of size 1, or without those of them named by `dim`.

    Args:
        input: a tensor.
        dim: one dim or several, also one by one; None: all of size 1.

    Example:
        >>> lg.squeeze(lg.ones(1, 3, 1)).shape
        livegrad.Size([3])
        >>> lg.squeeze(lg.ones(1, 3, 1), 0).shape
        livegrad.Size([3, 1])
    """
    shape = node_of(input).meta.shape
    if dim is None:
        drop = set(range(len(shape)))
    else:
        dims = one_or_several((dim, *more) if more else dim, "int")
        drop = {normal_dim("squeeze", d, len(shape)) for d in dims}
    kept = tuple([d for d, size in enumerate(shape) if size != 1 or d not in drop])
    wanted = tuple([shape[d] for d in kept])
    return record_view(RESHAPE, input, (regrouping(shape, wanted), kept), (), wanted)


@numpy_names
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """`input` with a new dim of size 1 at `dim`.

    Args:
        input: a tensor.
        dim: the place of the new dim.

    Example:
        >>> lg.unsqueeze(lg.ones(3), 1).shape
        livegrad.Size([3, 1])
    """
    found = view_found(RESHAPE, dim, input) if type(dim) is int else None
    if found is not None:
        return found
    shape = node_of(input).meta.shape
    d = normal_dim("unsqueeze", dim, len(shape) + 1)
    wanted = shape[:d] + (1,) + shape[d:]
    out = record_view(RESHAPE, input, (regrouping(shape, wanted), d), (), wanted)
    return remember_view(RESHAPE, dim, input, out) if type(dim) is int else out


# ------------------------------------------------------------------------------------ permute


def _permute_view(n: Any, index: Index) -> Index:
    result = [FIRST] * len(index)
    for out_dim, in_dim in enumerate(n.attrs[0]):
        result[in_dim] = index[out_dim]
    return tuple(result)


def inverse_order(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The order of dims that undoes a permutation."""
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


PERMUTE: Op = Op(
    "permute",
    "movement",
    infer=lambda metas, attrs, shape: meta_of(
        tuple([metas[0].shape[d] for d in attrs[0]]), metas[0].dtype
    ),
    ref=lambda n, x: x.transpose(n.attrs[0]),
    view=_permute_view,
    write=lambda part, value, attrs, args: record(PERMUTE, (value,), (inverse_order(attrs[0]),)),
    grads=(lambda g, y, x: record(PERMUTE, (g,), (inverse_order(y._node.attrs[0]),)),),
    layout=lambda metas, attrs, meta: tuple([metas[0].stride()[d] for d in attrs[0]]),
    saves="",
    batch=lambda n, size, xs, batched: record(PERMUTE, xs, ((0, *[d + 1 for d in n.attrs[0]]),)),
    grad_fn=parts.permute,
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 3, 4),), lambda x: permute(x, (2, 0, 1))),
        lambda: s.Sample((s.uniform(3, 5),), lambda x: permute(x, (1, 0))),
    ),
)


def permute(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """The dims of `input` in another order.

    Args:
        input: a tensor.
        dims: all of them, in the new order.

    Example:
        >>> lg.permute(lg.ones(2, 3, 4), (2, 0, 1)).shape
        livegrad.Size([4, 2, 3])
    """
    ndim = node_of(input).meta.ndim
    given = sizes_of("permute", order, dims)
    if len(given) != ndim:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the "
            f"desired ordering of dimensions; got {ndim} dims and {given}"
        )
    order = tuple([normal_dim("permute", d, ndim) for d in given])
    if sorted(order) != list(range(ndim)):
        raise RuntimeError(
            f"permute: got dims {given} for a tensor of {ndim} dims; expected each dim once"
        )
    return record_view(PERMUTE, input, (order,))


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """`input` with two dims exchanged.

    Args:
        input: a tensor.
        dim0: one dim.
        dim1: the other.

    Example:
        >>> lg.transpose(lg.ones(2, 3, 4), 0, 2).shape
        livegrad.Size([4, 3, 2])
    """
    return record_view(PERMUTE, input, (_exchanged(node_of(input).meta.ndim, dim0, dim1),))


def transposed(value: Tensor, dim0: int, dim1: int) -> Tensor:
    """A value nobody else has seen with two dims exchanged: no view, to whoever asks."""
    return record(PERMUTE, (value,), (_exchanged(node_of(value).meta.ndim, dim0, dim1),))


def _exchanged(ndim: int, dim0: Any, dim1: Any) -> tuple[int, ...]:
    """The order of dims after two of them have changed places."""
    if type(dim0) is int and type(dim1) is int:  # what may be looked up by its value
        return _exchanged_plain(ndim, dim0, dim1)
    a, b = normal_dim("transpose", dim0, ndim), normal_dim("transpose", dim1, ndim)
    return _exchanged_plain(ndim, a, b)


@lru_cache(maxsize=1024)
def _exchanged_plain(ndim: int, dim0: int, dim1: int) -> tuple[int, ...]:
    order = list(range(ndim))
    a, b = normal_dim("transpose", dim0, ndim), normal_dim("transpose", dim1, ndim)
    if ndim:
        order[a], order[b] = order[b], order[a]
    return tuple(order)


def in_reverse(input: Tensor) -> Tensor:
    """The dims of `input` in reverse order: `input.T`."""
    return record_view(PERMUTE, input, (_backwards(node_of(input).meta.ndim),))


@lru_cache(maxsize=64)
def _backwards(ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim - 1, -1, -1))


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; 0-d and 1-d tensors are themselves.

    Example:
        >>> lg.tensor([[1, 2], [3, 4]]).t()
        tensor([[1, 3],
                [2, 4]])
    """
    ndim = node_of(input).meta.ndim
    if ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {ndim}D. Use transpose(d0, d1)"
        )
    return transpose(input, 0, -1)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """`input` with two dims exchanged."""
    return transpose(input, axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """`input` with two dims exchanged."""
    return transpose(input, dim0, dim1)


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """`input` with the dims `source` moved to the places `destination`; the others keep order.

    Args:
        input: a tensor.
        source: one dim or several.
        destination: where they go.

    Example:
        >>> lg.movedim(lg.ones(2, 3, 4), 0, -1).shape
        livegrad.Size([3, 4, 2])
    """
    ndim = node_of(input).meta.ndim
    given = [one_or_several(x) for x in (source, destination)]
    old, new = [tuple([normal_dim("movedim", d, ndim) for d in dims]) for dims in given]
    if len(old) != len(new) or len(set(old)) != len(old) or len(set(new)) != len(new):
        raise RuntimeError(
            f"movedim: got source {given[0]} and destination {given[1]}; expected as many, each "
            "dim once"
        )
    rest = iter([d for d in range(ndim) if d not in old])
    places = dict(zip(new, old, strict=True))
    return permute(input, [places[d] if d in places else next(rest) for d in range(ndim)])


def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """See `movedim`."""
    return movedim(input, source, destination)


# ------------------------------------------------------------------------------------- expand


def _expand_view(n: Any, index: Index) -> Index:
    source = n.inputs[0].meta.shape
    lead = len(index) - len(source)
    return tuple([FIRST if source[d] == 1 else index[lead + d] for d in range(len(source))])


EXPAND = Op(
    "expand",
    "movement",
    infer=lambda metas, attrs, shape: meta_of(shape, metas[0].dtype),
    ref=lambda n, x: np.broadcast_to(x, n.meta.shape),
    view=_expand_view,
    grads=(lambda g, y, x: g,),  # backward sums over broadcast dims by itself
    layout=lambda metas, attrs, meta: expanded_strides(
        metas[0].shape, metas[0].stride(), meta.shape
    ),
    saves="",
    grad_fn=parts.expand,
    batch=lambda n, size, xs, batched: expanded(aligned(xs[0], n.meta.ndim), (size, *n.meta.shape)),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 1),), lambda x: expand(x, (2, 3, 4))),
        lambda: s.Sample((s.uniform(),), lambda x: expand(x, (2,))),
    ),
)


def expand(input: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """`input` repeated along dims of size 1 (and new leading dims) without copying; -1 keeps.

    Args:
        sizes, size: as numbers or as one tuple.

    Example:
        >>> lg.tensor([[1], [2]]).expand(2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    shape = node_of(input).meta.shape
    wanted = sizes_of("expand", sizes, size)
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(wanted)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(shape)})"
        )
    out = []
    for i, want in enumerate(wanted):
        have = shape[i - lead] if i >= lead else 1
        if want == -1 and i < lead:
            raise RuntimeError("expand: -1 is not allowed in a leading, non-existing dimension")
        if want not in (-1, have) and have != 1:
            raise RuntimeError(
                f"expand: the expanded size of the tensor ({want}) must match the existing size "
                f"({have}) at non-singleton dimension {i}"
            )
        out.append(have if want == -1 else want)
    return record_view(EXPAND, input, (), (), tuple(out))


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` expanded to the shape of `other`.

    Example:
        >>> lg.tensor([[1], [2]]).expand_as(lg.zeros(2, 3))
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    return expand(input, node_of(other).meta.shape)


def broadcast_to(input: Tensor, size: Any, *more: int) -> Tensor:
    """`input` expanded to `size`.

    Args:
        input: a tensor.
        size: the shape, also one number after the other.

    Example:
        >>> lg.broadcast_to(lg.tensor([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    return expand(input, size, *more)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape."""
    given = tensors
    if len(tensors) == 1 and not isinstance(tensors[0], Handle):
        given = as_items(tensors[0], "Tensor")
    if not given:
        return ()
    shape = common_shape("broadcast_tensors", [node_of(x).meta.shape for x in given])
    return tuple([x if node_of(x).meta.shape == shape else expand(x, shape) for x in given])


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes (tuples, or ints for one dim) broadcast to."""
    for shape in shapes:
        if not isinstance(shape, int | tuple | list):
            raise RuntimeError(
                "broadcast_shapes: Input shapes should be of type ints, a tuple of ints, or a list "
                f"of ints; got {shape!r}"
            )
    sizes = [
        (shape,) if isinstance(shape, int) else sizes_of("broadcast_shapes", tuple(shape))
        for shape in shapes
    ]
    for size in [size for shape in sizes for size in shape]:
        if size < 0:
            raise ValueError(
                f"broadcast_shapes: trying to create tensor with negative dimension ({size})"
            )
    return Size(common_shape("broadcast_shapes", sizes) if sizes else ())


# ---------------------------------------------------------- operands of `vmap`, for its rules


def expanded(x: Tensor, shape: Shape) -> Tensor:
    """`x` repeated to `shape`."""
    return x if node_of(x).meta.shape == shape else record(EXPAND, (x,), (), (), shape)


def wholes(xs: Sequence[Tensor], batched: tuple[bool, ...], size: int) -> list[Tensor]:
    """All operands with the dim of the examples in front, also those that are the same for all."""
    return [
        x if b else expanded(x, (size, *node_of(x).meta.shape))
        for x, b in zip(xs, batched, strict=True)
    ]


def aligned(x: Tensor, ndim: int) -> Tensor:
    """A batched `x` with dims of size 1 after the first, so that each example has `ndim` dims."""
    size, *rest = node_of(x).meta.shape
    return reshape_to(x, (size, *[1] * (ndim - len(rest)), *rest))


# --------------------------------------------------------------------------- detach, aliases

DETACH = Op(
    "detach",
    "movement",
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, x: x,
    view=lambda n, index: index,
    write=lambda part, value, attrs, args: value,
    layout=lambda metas, attrs, meta: metas[0].strides,
    saves="",
    batch=lambda n, size, xs, batched: record(n.op, xs),
    samples=s.calls(lambda: s.Sample((s.uniform(3),), lambda x: detach(x), smooth=False)),
)


def detach(input: Tensor) -> Tensor:
    """A view through which no gradient flows.

    Example:
        >>> lg.ones(2, requires_grad=True).detach().requires_grad
        False
    """
    if isinstance(input, Handle) and may_be_stale(input):
        with setting(grad=False):  # also if its history was given up
            return record_view(DETACH, input)
    return record_view(DETACH, input)


def constant(x: Tensor) -> Tensor:
    """`x` for a gradient rule that is constant in it: a gradient made of it does not need `x`'s.

    Only where gradients are recorded to be differentiated does that make a difference.
    """
    if LOCAL.state.grad and isinstance(x, Handle) and x._node.grad_to is not None:
        return record(DETACH, (x,))
    return x


ALIAS = Op(
    "alias",
    "movement",
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, x: x,
    view=lambda n, index: index,
    write=lambda part, value, attrs, args: value,
    layout=lambda metas, attrs, meta: metas[0].strides,
    grads=(lambda g, y, x: g,),
    saves="",
    batch=lambda n, size, xs, batched: record(n.op, xs),
    samples=s.calls(lambda: s.Sample((s.uniform(3),), lambda x: alias(x))),
)


def alias(input: Tensor) -> Tensor:
    """A view of the whole tensor."""
    return record_view(ALIAS, input)


# ------------------------------------------------------------------------------ basic indexing

# One item per dim consumed or made: ("all",) keeps a dim, ("slice", step) takes every step-th from
# a start given in args, ("int",) selects the index given in args and drops the dim, ("new",)
# makes a dim of size 1. The sizes of sliced dims are those of the result.
Items = tuple[tuple[Any, ...], ...]


def _index_view(n: Any, index: Index) -> Index:
    starts = iter(n.args)
    along = iter(index)
    result = []
    for item in n.attrs[0]:
        if item[0] == "new":
            next(along)
        elif item[0] == "all":
            result.append(next(along))
        elif item[0] == "slice":
            result.append(stepped(next(along), item[1], next(starts)))
        else:
            result.append(stepped(FIRST, 1, next(starts)))
    return tuple(result)


def index_key(items: Items, args: tuple[int, ...], shape: Shape) -> tuple[Any, ...]:
    """The NumPy index that the items stand for, where the result has `shape`."""
    starts = iter(args)
    lengths = iter(shape)
    key: list[Any] = []
    for item in items:
        if item[0] == "int":
            key.append(next(starts))
            continue
        length = next(lengths)
        if item[0] == "new":
            key.append(None)
        elif item[0] == "all":
            key.append(slice(None))
        else:
            start, step = next(starts), item[1]
            stop = start + step * length
            key.append(slice(start, None if stop < 0 else stop, step))
    return tuple(key)


@hot
def _index_layout(metas: Metas, attrs: Attrs, meta: Meta) -> Strides:
    shape = metas[0].shape
    strides = metas[0].stride()
    out: list[int] = []
    d = 0
    for item in attrs[0]:
        what = item[0]
        if what == "new":
            out.append(shape[d] * strides[d] if d < len(shape) else 1)
            continue
        if what == "slice":
            out.append(strides[d] * item[1])
        elif what != "int":
            out.append(strides[d])
        d += 1
    return tuple(out)


def _index_offset(before: int, meta: Meta, attrs: Attrs, args: tuple[int, ...]) -> int:
    starts = iter(args)
    strides = iter(meta.stride())
    for item in attrs[0]:
        if item[0] != "new":
            stride = next(strides)
            before += 0 if item[0] == "all" else next(starts) * stride
    return before


INDEX: Op = Op(
    "index",
    "movement",
    infer=lambda *given: _as_asked(*given),
    ref=lambda n, x: x[index_key(n.attrs[0], n.args, n.meta.shape)],
    view=_index_view,
    write=lambda part, value, attrs, args: record(INDEX_WRITE, (part, value), attrs, args),
    grads=(lambda g, y, x: record(INDEX_WRITE, (zeros_like(x), g), y._node.attrs, y._node.args),),
    layout=lambda *given: _index_layout(*given),
    offset=_index_offset,
    picks=True,
    saves="",
    batch=lambda n, size, xs, batched: record(
        INDEX, xs, ((("all",), *n.attrs[0]),), n.args, (size, *n.meta.shape)
    ),
    grad_fn=parts.index,
    samples=s.calls(
        lambda: s.Sample((s.uniform(5, 6),), lambda x: x[1:4, ::2]),
        lambda: s.Sample((s.uniform(5, 6),), lambda x: x[-1, None, 2:]),
        lambda: s.Sample((s.uniform(4),), lambda x: x[2]),
    ),
)


def _index_write_ref(n: Any, base: Any, value: Any) -> Any:
    out = np.array(base)
    out[index_key(n.attrs[0], n.args, value.shape)] = value
    return out


def _written_layout(metas: Metas, attrs: Attrs, meta: Meta) -> Strides | None:
    """Those of what is written to, unless that repeats elements: not all are the same then."""
    strides = metas[0].strides
    if strides is not None and repeats(meta.shape, strides):
        return like_strides(meta.shape, strides)
    return strides


INDEX_WRITE: Op = Op(
    "index_write",
    "kernel",
    # `base` with the elements that INDEX with the same attrs and args would read replaced.
    infer=lambda metas, attrs, shape: metas[0],
    ref=_index_write_ref,
    layout=_written_layout,
    lower=lowered_by("parts.IndexWrite"),
    grads=(
        lambda g, y, base, value: record(
            INDEX_WRITE, (g, zeros_like(value)), y._node.attrs, y._node.args
        ),
        lambda g, y, base, value: record(INDEX, (g,), y._node.attrs, y._node.args, value.shape),
    ),
    saves="",
    batch=lambda n, size, xs, batched: record(
        INDEX_WRITE, wholes(xs, batched, size), ((("all",), *n.attrs[0]),), n.args
    ),
    grad_fn=parts.index_write,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 6), s.uniform(3, 6)),
            lambda x, v: record(INDEX_WRITE, (x, v), ((("slice", 1), ("all",)),), (1,)),
        )
    ),
)
