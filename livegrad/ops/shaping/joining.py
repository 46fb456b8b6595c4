"""Joining: tensors put together (cat, stack), repeated, padded or rolled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_items
from livegrad.graph.drawing import Shown, below_each_other
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.layout import Strides, viewed_strides
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op, as_suggested
from livegrad.graph.record import record
from livegrad.graph.views import row_major
from livegrad.native.hot import hot
from livegrad.ops.bookkeeping.in_place import formatted_like, laid_out_as, remembered
from livegrad.ops.elementwise.arithmetic import abs as magnitude, cast, clone, sub, where
from livegrad.ops.elementwise.comparison import clamp
from livegrad.ops.elementwise.division import remainder
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.picking.gathering import INDEX_SELECT
from livegrad.ops.shaping.movement import (
    EXPAND,
    INDEX,
    normal_dim,
    reshape,
    reshape_to,
    sizes_of,
    unsqueeze,
)
from livegrad.ops.shaping.reshaping import atleast_1d, atleast_2d, atleast_3d
from livegrad.ops.shaping.slicing import items_at, narrow
from livegrad.ops.support import batched, parts, samples as s
from livegrad.ops.support.autocast import casted
from livegrad.ops.support.numbers import number_for
from livegrad.ops.support.out import exact, joining

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]


class EachInput(tuple[Any, ...]):
    """Gradient rules of an op with any number of inputs: rule(i, g, y, *inputs) serves input i."""

    rule: Callable[..., Any]

    def __new__(cls, rule: Callable[..., Any]) -> EachInput:
        rules = super().__new__(cls)
        rules.rule = rule
        return rules

    def __getitem__(self, i: Any) -> Any:
        return partial(self.rule, i)

    def __iter__(self) -> Iterator[Any]:
        return (partial(self.rule, i) for i in count())


# ---------------------------------------------------------------------------------------- cat


# More tensors than this are many; bytes of all of them for which copying twice costs nothing.
MANY, _AT_ONCE, _LITTLE = 16, 32, 1 << 20


def _cat_infer(metas: tuple[Meta, ...], attrs: Attrs, shape: Any) -> Meta:
    dim = attrs[0]
    shapes = [m.shape for m in metas]
    first = shapes[0]
    for number, other in enumerate(shapes):
        if len(other) != len(first):
            raise RuntimeError(
                f"cat: tensors must have same number of dimensions: got {len(first)} and "
                f"{len(other)}"
            )
        for d, size in enumerate(other):
            if d != dim and size != first[d]:
                drawn = below_each_other(
                    [Shown(f"tensor {i}", s, {d} if i == number else ()) for i, s in
                     enumerate(shapes) if i in (0, number)]
                )  # fmt: skip
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size "
                    f"{first[d]} but got size {size} for tensor number {number} in the list.\n"
                    f"{drawn}\n"
                    f"cat: sizes of tensors must match except in dimension {dim}; got shapes "
                    f"{first} and {other}; expected size {first[d]} but got size {size} in dim {d} "
                    f"of tensor number {number}"
                )
    whole = sum([other[dim] for other in shapes])
    return meta_of(first[:dim] + (whole,) + first[dim + 1 :], metas[0].dtype)


def _cat_grad(i: int, g: Tensor, y: Tensor, *inputs: Tensor) -> Tensor:
    dim = y._node.attrs[0]
    before = sum([x.shape[dim] for x in inputs[:i]])
    return record_slice(g, dim, before, inputs[i].shape[dim])


def record_slice(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A run along one dim, not as a view."""
    shape = x.shape
    items = items_at(len(shape), dim, ("slice", 1))
    wanted = tuple(shape[:dim]) + (length,) + tuple(shape[dim + 1 :])
    return record(INDEX, (x,), (items,), (start,), wanted)


CAT = Op(
    "cat",
    "kernel",
    # Tensors one after the other along attrs (dim,); inputs have one dtype.
    infer=_cat_infer,
    ref=lambda n, *arrays: np.concatenate(arrays, n.attrs[0]),
    lower=lowered_by("parts.Cat"),
    layout=as_suggested,
    grads=EachInput(_cat_grad),
    saves="",
    batch=batched.along,
    grad_fn=parts.cat,
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 3), s.uniform(4, 3)), lambda a, b: cat((a, b))),
        lambda: s.Sample((s.uniform(2, 3), s.uniform(2, 1)), lambda a, b: cat((a, b, a), -1)),
        lambda: s.Sample((s.uniform(2, 0, 2), s.uniform(2, 3, 2)), lambda a, b: cat((a, b), 1)),
        lambda: s.Sample((s.uniform(5),), lambda a: cat((a,))),
    ),
)


@joining
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after the other along `dim`; dtypes are promoted.

    Args:
        tensors: of equal shape, but for `dim`.
        dim: along which.

    Example:
        >>> lg.cat([lg.tensor([[1, 2]]), lg.tensor([[3, 4], [5, 6]])])
        tensor([[1, 2],
                [3, 4],
                [5, 6]])
    """
    plain = _joined_plainly(tensors, dim)
    if plain is not None:
        return plain
    given = _listed("cat", tensors)
    if not given:
        raise ValueError("cat: expected a non-empty list of Tensors")
    check_tensors("cat", given)
    metas = [node_of(x).meta for x in given]
    if any([m.ndim == 0 for m in metas]):
        raise RuntimeError(
            "cat: zero-dimensional tensor cannot be concatenated. Use stack, or reshape(1)"
        )
    given = same_dtype(given, metas)
    if any([m.shape == (0,) for m in metas]):
        return _joined_with_nothing(given, metas, dim)
    dim = normal_dim("cat", dim, metas[0].ndim)
    return record(CAT, given, (dim,)) if len(given) <= MANY else _many_joined(given, dim)


@hot
def _joined_plainly(tensors: Any, dim: Any) -> Tensor | None:
    """`cat` of tensors of one dtype with elements, in a list or tuple; None of anything else."""
    if type(dim) is not int or (type(tensors) is not list and type(tensors) is not tuple):
        return None
    first: Meta | None = None
    alike = True
    for x in tensors:
        if not isinstance(x, Handle):
            return None
        meta = node_of(x).meta
        if first is None:
            first = meta
        if meta is not first:
            alike = False
            if meta.dtype is not first.dtype:
                return None
        if meta.ndim == 0 or meta.numel == 0:
            return None
    if first is None:
        return None
    if dim < 0:
        dim = dim + first.ndim
    if not 0 <= dim < first.ndim:
        return None
    if len(tensors) <= MANY:
        return record(CAT, tensors, (dim,))
    if alike and len(tensors) * first.nbytes <= _LITTLE:
        return _in_tree(tensors, dim)
    return _many_joined(tensors, dim)


def _many_joined(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Many tensors, in a tree of 2, 4, … 32 at a time if they are little.

    How many there are is often new: the steps of an episode, say. Such pieces are known, whatever
    their number is; one for each number would have to be made.
    """
    metas = [node_of(x).meta for x in tensors]
    shape = metas[0].shape
    around = [(m.ndim, m.shape[:dim], m.shape[dim + 1 :]) for m in metas]
    alike = all([x == (len(shape), shape[:dim], shape[dim + 1 :]) for x in around])
    if not alike or sum([m.nbytes for m in metas]) > _LITTLE:
        return record(CAT, tensors, (dim,))
    return _in_tree(tensors, dim)


def _in_tree(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Many tensors that fit, 32 at a time, then 32 of these."""
    found = list(tensors)
    while len(found) > 1:
        found = [x[0] if len(x) == 1 else record(CAT, x, (dim,)) for x in _groups(found)]
    return found[0]


def _groups(items: list[Tensor]) -> Iterator[list[Tensor]]:
    """Items in their order, in groups of which each is as many as a power of two."""
    at, size = 0, _AT_ONCE
    while at < len(items):
        while size > len(items) - at:
            size //= 2
        yield items[at : at + size]
        at += size


def _joined_with_nothing(given: list[Tensor], metas: list[Meta], dim: int) -> Tensor:
    """PyTorch lets a tensor of shape (0,) be joined with anything, where it adds nothing."""
    shape = next((m.shape for m in metas if m.shape != (0,)), None)
    if shape is None:
        return record(CAT, given, (0,))
    dim = normal_dim("cat", dim, len(shape))
    nothing = (*shape[:dim], 0, *shape[dim + 1 :])
    shaped = [
        reshape_to(x, nothing) if m.shape == (0,) else x for x, m in zip(given, metas, strict=True)
    ]
    return record(CAT, shaped, (dim,))


def _listed(name: str, tensors: Any) -> list[Any]:
    if isinstance(tensors, Handle):
        raise TypeError(f"{name}(): argument 'tensors' must be tuple of Tensors, not Tensor")
    return list(as_items(tensors, "tuple of Tensors"))


def check_tensors(name: str, given: list[Any]) -> None:
    """TypeError unless all of `given` are tensors."""
    for i, x in enumerate(given):
        if not isinstance(x, Handle):
            raise TypeError(
                f"{name}(): expected Tensor as element {i} in argument 0, "
                f"but got {type(x).__name__}"
            )


def same_dtype(tensors: list[Tensor], metas: list[Meta]) -> list[Tensor]:
    """The tensors cast to the dtype they promote to."""
    dtype = metas[0].dtype
    if all(m.dtype is dtype for m in metas):
        return tensors
    dtype = dtypes.result_dtype(tuple([(m.dtype, 2) for m in metas]))
    return [cast(x, dtype) for x in tensors]


@joining
def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """See `cat`."""
    return cat(tensors, dim)


@joining
def concatenate(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """See `cat`."""
    return cat(tensors, dim)


@joining
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors, all of one shape, side by side along a new dim.

    Args:
        tensors: of equal shape.
        dim: the place of the new dim.

    Example:
        >>> lg.stack([lg.tensor([1, 2]), lg.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """
    given = _listed("stack", tensors)
    if not given:
        raise RuntimeError("stack: expects a non-empty TensorList")
    check_tensors("stack", given)
    shape = node_of(given[0]).meta.shape
    for i, x in enumerate(given):
        if node_of(x).meta.shape != shape:
            raise RuntimeError(
                f"stack: expects each tensor to be equal size; got {list(shape)} at entry 0 and "
                f"{list(node_of(x).meta.shape)} at entry {i}"
            )
    d = normal_dim("stack", dim, len(shape) + 1)
    metas = [node_of(x).meta for x in given]
    if d == len(shape) and any([m.strides is not None for m in metas]):
        return cat([unsqueeze(x, d) for x in given], d)  # as PyTorch does, with these strides
    wide = shape[:d] + (1,) + shape[d:]
    return laid_out_as(cat([reshape_to(x, wide) for x in given], d), _stack_strides(metas, d))


def _stack_strides(metas: list[Meta], dim: int) -> Strides | None:
    """The strides of a stack: PyTorch joins along `dim` and splits that, unless it is the last."""
    shape, count = metas[0].shape, len(metas)
    joined = (*shape[:dim], count * shape[dim], *shape[dim + 1 :]) if dim < len(shape) else None
    if joined is None or all([m.strides is None for m in metas]):
        return None
    strides = as_suggested(tuple(metas), (), meta_of(joined, metas[0].dtype))
    wanted = (*shape[:dim], count, *shape[dim:])
    return None if strides is None else viewed_strides(joined, strides, wanted)


def _stacked(name: str, tensors: Sequence[Tensor], shaped: Callable[..., Any]) -> list[Tensor]:
    """The tensors, `shaped` by a function of one."""
    given = _listed(name, tensors)
    if not given:
        raise RuntimeError(f"{name}: expects a non-empty TensorList")
    check_tensors(name, given)
    return [shaped(x) for x in given]


@joining
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one after the other along dim 1 (dim 0 if they have one dim)."""
    given = _stacked("hstack", tensors, atleast_1d)
    return cat(given, 0 if node_of(given[0]).meta.ndim == 1 else 1)


@joining
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors, as matrices at least, one below the other."""
    return cat(_stacked("vstack", tensors, atleast_2d), 0)


@joining
def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """See `vstack`."""
    return vstack(tensors)


@joining
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors, with three dims at least, one after the other along dim 2."""
    return cat(_stacked("dstack", tensors, atleast_3d), 2)


@joining
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """1-d tensors as the columns of a matrix."""
    return cat(_stacked("column_stack", tensors, _as_column), 1)


def _as_column(x: Tensor) -> Tensor:
    meta = node_of(x).meta
    return x if meta.ndim > 1 else reshape(x, (meta.numel, 1))


@exact
def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """The tensors cut into chunks along `dim`, filled up with zeros, flattened, side by side.

    Row i of `dim` has the i-th chunk of every tensor; the dims after it are merged.
    """
    name = "_chunk_cat"
    given = list(tensors)
    if not given:
        raise RuntimeError(f"{name}: expects a non-empty input tensor list")
    check_tensors(name, given)
    metas = [node_of(x).meta for x in given]
    lowest = min([m.ndim for m in metas])
    if dim >= lowest or (dim < 0 and any(m.ndim != lowest for m in metas)):
        raise RuntimeError(
            f"{name}: expects dim < ndim for all input tensors, and non-negative if they have "
            f"different ndims; got {dim} for {metas}"
        )
    d = normal_dim(name, dim, lowest)
    lead = metas[0].shape[:d]
    if num_chunks < 1:
        raise RuntimeError(f"{name}: expects positive num_chunks; got {num_chunks}")
    if any(m.numel == 0 or m.shape[:d] != lead or m.dtype is not metas[0].dtype for m in metas):
        raise RuntimeError(
            f"{name}: expects non-empty tensors of one dtype with equal sizes before dim {d}; got "
            f"{metas}"
        )
    parts = []
    for x, meta in zip(given, metas, strict=True):
        chunk = -(-meta.shape[d] // num_chunks)
        filled_up = padded(x, d, 0, chunk * num_chunks)
        parts.append(reshape_to(filled_up, (*lead, num_chunks, chunk * prod(meta.shape[d + 1 :]))))
    return cat(parts, d + 1)


# ---------------------------------------------------------------------------- repeat and roll


def repeat(input: Tensor, *sizes: Any, repeats: Any = None) -> Tensor:
    """`input` repeated so many times along each dim; new dims come first.

    Args:
        repeats: for each dim, as numbers or as one tuple.

    Example:
        >>> lg.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    times = sizes_of("repeat", sizes, repeats)
    shape = node_of(input).meta.shape
    lead = len(times) - len(shape)
    if lead < 0:
        raise RuntimeError(
            "repeat: number of dimensions of repeat dims can not be smaller than number of "
            f"dimensions of tensor; got {times} for shape {shape}"
        )
    if any(t < 0 for t in times):
        raise RuntimeError(f"repeat: got negative repeats {times}")
    old = (1,) * lead + shape
    spaced = tuple([n for size in old for n in (1, size)])
    wide = tuple([n for t, size in zip(times, old, strict=True) for n in (t, size)])
    final = tuple([t * size for t, size in zip(times, old, strict=True)])
    if final == shape:
        return row_major(clone(input))
    wider = record(EXPAND, (reshape_to(input, spaced),), (), (), wide)
    return row_major(reshape_to(wider, final))


def tile(input: Tensor, *sizes: Any, dims: Any = None) -> Tensor:
    """Like `repeat`, but missing leading repeats are 1.

    Example:
        >>> lg.tile(lg.tensor([1, 2]), (2,))
        tensor([1, 2, 1, 2])
    """
    times = sizes_of("tile", sizes, dims)
    lead = node_of(input).meta.ndim - len(times)
    return repeat(input, (1,) * lead + times)


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved along `dims`; those moved past the end come in again at the front.

    Args:
        input: a tensor.
        shifts: how far, for each of `dims`.
        dims: None: as if flattened.

    Example:
        >>> lg.roll(lg.tensor([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """
    by = sizes_of("roll", (shifts,))
    shape = node_of(input).meta.shape
    if not by:
        raise RuntimeError("roll: `shifts` required")
    if dims is None or (isinstance(dims, tuple | list) and not dims):
        if len(by) != 1:
            raise RuntimeError(f"roll: shifts and dimensions must align; got {by} and no dims")
        flat = reshape_to(input, (prod(shape),))
        return reshape_to(roll(flat, by, (0,)), shape)
    along = sizes_of("roll", (dims,))
    if len(by) != len(along):
        raise RuntimeError(f"roll: shifts and dimensions must align; got {by} and {along}")
    out = clone(input)
    for shift, dim in zip(by, along, strict=True):
        if not shape:
            raise IndexError(f"roll: Dimension specified as {dim} but tensor has no dimensions")
        d = normal_dim("roll", dim, len(shape))
        first = shape[d] - shift % shape[d] if shape and shape[d] else 0
        if 0 not in shape and 0 < first < shape[d]:
            parts = record_slice(out, d, first, shape[d] - first), record_slice(out, d, 0, first)
            out = record(CAT, parts, (d,))
        elif 0 not in shape:
            out = row_major(out)
    return out


# ---------------------------------------------------------------------------------------- pad


def _pad_key(n: Any, shape: Shape) -> tuple[slice, ...]:
    before = iter(n.args[1:])
    starts = [next(before) if padded else 0 for padded in n.attrs[0]]
    return tuple([slice(b, b + size) for b, size in zip(starts, shape, strict=True)])


def _pad_ref(n: Any, x: Array) -> Array:
    out = np.full(n.meta.shape, n.args[0], x.dtype)
    out[_pad_key(n, x.shape)] = x
    return out


def _pad_grad(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    items = tuple([("slice", 1) if padded else ("all",) for padded in y._node.attrs[0]])
    # A new tensor in PyTorch: what repeats elements, as the gradient of a sum does, ends here.
    return clone(record(INDEX, (g,), (items,), y._node.args[1:], x.shape))


PAD: Op = Op(
    "pad",
    "kernel",
    # One number around the input: attrs (which dims are padded,), args (number, size before each).
    infer=lambda metas, attrs, shape: meta_of(shape, metas[0].dtype),
    ref=_pad_ref,
    lower=lowered_by("parts.Pad"),
    layout=as_suggested,
    grads=(_pad_grad,),
    saves="",
    batch=lambda n, size, xs, batched: record(
        PAD, xs, ((False, *n.attrs[0]),), n.args, (size, *n.meta.shape)
    ),
    grad_fn="ConstantPadNdBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 3),), lambda x: pad(x, (1, 2))),
        lambda: s.Sample((s.uniform(2, 3),), lambda x: pad(x, (0, 1, 2, 0), value=1.5)),
        lambda: s.Sample((s.uniform(2, 5),), lambda x: pad(x, (-1, 2))),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: pad(x, (1, 1, 1, 1))),
        lambda: s.Sample((s.uniform(4),), lambda x: pad(x, (1, 0))),
    ),
)


def padded(x: Tensor, dim: int, before: int, size: int) -> Tensor:
    """`x` with zeros around it along one dim, `before` of them in front, to make it `size` long."""
    shape = x.shape
    if shape[dim] == size:
        return x
    which = tuple([d == dim for d in range(len(shape))])
    wanted = tuple(shape[:dim]) + (size,) + tuple(shape[dim + 1 :])
    zero = 0.0 if x.dtype.category >= dtypes.FLOAT else 0
    return record(PAD, (x,), (which,), (zero, before), wanted)


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """`input` with elements added (or, where negative, removed) around it.

    Args:
        pad: (before, after) of the last dim, then of the dim before it, …
        mode: "constant" (`value`), "reflect", "replicate" or "circular".
        value: what constant padding is of; 0 if None.

    Example:
        >>> F.pad(lg.tensor([1, 2]), (1, 2))
        tensor([0, 1, 2, 0, 0])
        >>> F.pad(lg.tensor([[1.0, 2.0, 3.0]]), (1, 1), mode="reflect")
        tensor([[2., 1., 2., 3., 2.]])
    """
    shape = node_of(input).meta.shape
    pad = as_items(pad)
    if len(pad) % 2 or len(pad) > 2 * len(shape):
        raise RuntimeError(
            f"pad: got {len(pad)} amounts {tuple(pad)} for a tensor of {len(shape)} dims; expected "
            "two for each padded dim"
        )
    amounts = {len(shape) - 1 - i // 2: (pad[i], pad[i + 1]) for i in range(0, len(pad), 2)}
    for d, (before, after) in amounts.items():
        if shape[d] + before + after < 0:
            raise RuntimeError(
                f"pad: the resulting size of dim {d} would be negative; got size {shape[d]} and "
                f"padding {before}, {after}"
            )
    if mode == "constant":
        return _pad_constant(input, amounts, 0 if value is None else value)
    if mode not in _SOURCES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if len(shape) - len(pad) // 2 not in (1, 2) or len(pad) not in (2, 4, 6):
        raise NotImplementedError(
            f"pad: padding of {len(pad)} amounts is not supported for a tensor of {len(shape)} "
            f"dims in mode {mode}; expected one or two dims in front of one to three padded ones"
        )
    if mode != "circular":
        (input,) = casted("float32", input)
    x = input if mode == "circular" else remembered(input)
    out = x
    for d, (before, after) in sorted(amounts.items()):
        if before or after:
            out = _pad_from_itself(out, d, before, after, mode)
    out = clone(x) if out is x else out
    return row_major(out) if mode == "circular" else formatted_like(out, input)


pad_function = pad  # whose name is also that of an argument


def _pad_constant(input: Tensor, amounts: dict[int, tuple[int, int]], value: float) -> Tensor:
    value, x = number_for("pad", value, input.dtype), input
    for d, (before, after) in amounts.items():
        if before < 0 or after < 0:
            start, end = max(-before, 0), max(-after, 0)
            x = narrow(x, d, start, x.shape[d] - start - end)
    shape = x.shape
    grown = {d: (max(b, 0), max(a, 0)) for d, (b, a) in amounts.items() if b > 0 or a > 0}
    if not grown:
        return clone(x)
    which = tuple([d in grown for d in range(len(shape))])
    wanted = tuple([size + sum(grown.get(d, (0, 0))) for d, size in enumerate(shape)])
    starts = tuple([grown[d][0] for d in sorted(grown)])
    if isinstance(value, complex):  # run-time numbers are real
        inside = filled(shape, 1, dtypes.bool_)
        mask = record(PAD, (inside,), (which,), (0, *starts), wanted)
        out = where(mask, record(PAD, (x,), (which,), (0.0, *starts), wanted), value)
    else:
        fill = float(value) if x.dtype.category >= dtypes.FLOAT else int(value)
        out = record(PAD, (x,), (which,), (fill, *starts), wanted)
    return out if x is input else formatted_like(out, input)


def _reflected(i: Tensor, size: int) -> Tensor:
    return sub(size - 1, magnitude(sub(size - 1, magnitude(i))))


def _replicated(i: Tensor, size: int) -> Tensor:
    return clamp(i, 0, size - 1)


def _circular(i: Tensor, size: int) -> Tensor:
    return remainder(i, size)


# mode: (index read for position i before clipping, greatest padding for a size)
_SOURCES: dict[str, tuple[Callable[[Tensor, int], Tensor], Callable[[int], float]]] = {
    "reflect": (_reflected, lambda size: size - 1),
    "replicate": (_replicated, lambda size: float("inf")),
    "circular": (_circular, lambda size: size),
}


def _pad_from_itself(x: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    size = x.shape[dim]
    source, most = _SOURCES[mode]
    if max(before, after) > most(size) or size == 0:
        raise RuntimeError(
            f"pad: padding size should be at most {most(size)} in mode {mode!r}; got ({before}, "
            f"{after}) at dimension {dim} of input {list(x.shape)}"
        )
    if mode == "circular" and min(before, after) < 0:
        # What is left after cutting goes round.
        start, end = max(-before, 0), max(-after, 0)
        x = record_slice(x, dim, start, size - start - end)
        size, before, after = size - start - end, max(before, 0), max(after, 0)
    index = source(sub(counting(size + before + after), before), size)
    return record(INDEX_SELECT, (x, index), (dim,))


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """`pad` in mode "constant"."""
    return pad_function(input, pad, "constant", value)
