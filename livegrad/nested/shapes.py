"""Other shapes of nested tensors: what happens to the dims of the values."""

from __future__ import annotations

from math import prod
from typing import Any

from livegrad.nested.padding import contiguous, from_components
from livegrad.nested.ragged import NestedInt
from livegrad.nested.reductions import dims_of
from livegrad.nested.tensor import ANSWERS, NestedTensor, nested, plain, short_name

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def _dense_dim(name: str, x: NestedTensor, dim: int, ndim: int | None = None) -> int:
    """A dim of the values, from one of the nested tensor that is neither ragged nor the first."""
    ndim = x.ndim if ndim is None else ndim
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got "
            f"{dim})"
        )
    dim %= ndim
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return dim - 1


def _not_ragged(name: str, x: NestedTensor, dim: int) -> int:
    inner = _dense_dim(name, x, dim)
    if inner == x._ragged_idx - 1:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return inner


def _named(kwargs: Kwargs, args: list[Any], name: str, default: Any = None) -> Any:
    return kwargs.pop(name) if name in kwargs else args.pop(0) if args else default


def transpose(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Two dims exchanged; neither is that of the components."""
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    pair = [_named(kwargs, rest, "dim0"), _named(kwargs, rest, "dim1")]
    first, second = [dims_of("transpose", x, d)[0] for d in pair]
    if first == second:
        return x._like(plain(x))
    if 0 in (first, second):
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    moved = {first: second, second: first}
    at = moved.get(x._ragged_idx, x._ragged_idx)
    return nested(plain(x).transpose(first - 1, second - 1), x._ragged, at)


def permute(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Dims in another order, those of the components first."""
    x, rest = args[0], args[1:]
    order: Any = kwargs.get(
        "dims", rest[0] if len(rest) == 1 and not isinstance(rest[0], int) else rest
    )
    order = [d % x.ndim for d in order]
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    at = order.index(x._ragged_idx)
    return nested(plain(x).permute([d - 1 for d in order[1:]]), x._ragged, at)


def view(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Dense dims cut or joined; the ragged dim stays one."""
    x, shape = args[0], args[1:]
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = tuple(shape[0])
    if len(shape) == 1 and not isinstance(shape[0], int | NestedInt):  # another dtype
        return x._like(func(plain(x), *shape))
    x = contiguous(x) if short_name(func) == "reshape" else x
    shape = kwargs.get("shape", shape)
    old, values = x._shape(), plain(x)
    at = _ragged_place(x, shape)
    if at is None:
        raise RuntimeError(f"view(): cannot view shape {old} as {list(shape)}")
    sizes = list(shape[1:])
    sizes[at - 1] = values.shape[x._ragged_idx - 1]
    return nested(func(values, sizes), x._ragged, at)


def _ragged_place(x: NestedTensor, shape: Args) -> int | None:
    """Which of the new dims is the ragged one; None if it cannot be so."""
    old = x._shape()
    if len(shape) < 2 or shape[0] not in (-1, old[0]):
        return None
    places = [d for d, size in enumerate(shape) if d and size == x._ragged.size]
    if not places:  # -1 where the ragged dim would be
        places = [d for d, size in enumerate(shape) if d and size == -1]
    if len(places) != 1:
        return None
    at = places[0]
    before, after = old[1 : x._ragged_idx], old[x._ragged_idx + 1 :]
    new = (shape[1:at], shape[at + 1 :])
    for have, want in ((before, new[0]), (after, new[1])):
        if -1 not in want and prod(have) != prod(want):
            return None
    return at


def flatten(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Dense dims joined."""
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    start = _dense_dim("flatten", x, _named(kwargs, rest, "start_dim", 0))
    end = _dense_dim("flatten", x, _named(kwargs, rest, "end_dim", -1))
    at = x._ragged_idx - 1
    if start <= at <= end and start != end:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    moved = end - start if end < at else 0
    return nested(plain(x).flatten(start, end), x._ragged, at + 1 - moved)


def unflatten(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A dense dim cut."""
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    inner = _not_ragged("unflatten", x, _named(kwargs, rest, "dim"))
    sizes = _named(kwargs, rest, "sizes")
    more = len(sizes) - 1 if inner < x._ragged_idx - 1 else 0
    return nested(plain(x).unflatten(inner, sizes), x._ragged, x._ragged_idx + more)


def unsqueeze(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A new dim of size 1."""
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    inner = _dense_dim("unsqueeze", x, _named(kwargs, rest, "dim"), x.ndim + 1)
    return nested(plain(x).unsqueeze(inner), x._ragged, x._ragged_idx + (inner < x._ragged_idx))


def squeeze(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Without dims of size 1."""
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    dim = _named(kwargs, rest, "dim")
    if dim is None:
        raise RuntimeError("squeeze(): For NestedTensors, squeeze without dim is not supported")
    inner = [_not_ragged("squeeze", x, d) for d in dims_of("squeeze", x, dim)]
    values = plain(x)
    gone = [d for d in inner if values.shape[d] == 1]
    at = x._ragged_idx - sum([d < x._ragged_idx - 1 for d in gone])
    return nested(values.squeeze(inner), x._ragged, at)


def expand(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Dims of size 1 repeated."""
    x, sizes = args[0], args[1:]
    sizes = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    sizes = kwargs.get("size", sizes)
    ragged = sizes[x._ragged_idx] if len(sizes) == x.ndim else None
    right = len(sizes) == x.ndim and sizes[0] in (-1, len(x)) and ragged in (-1, x._ragged.size)
    if not right:
        raise RuntimeError(f"expand(): cannot expand shape {x._shape()} -> {list(sizes)}")
    inner = [-1 if d + 1 == x._ragged_idx else s for d, s in enumerate(sizes[1:])]
    return x._like(plain(x).expand(inner))


def split(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """`chunk`, `split`, `tensor_split`: along a dense dim, or `chunk` of the components."""
    name = short_name(func)
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    options = ("chunks", "split_size_or_sections", "split_size", "indices_or_sections")
    how = next((kwargs.pop(k) for k in options if k in kwargs), None)
    how = rest.pop(0) if how is None else how
    dim = _named(kwargs, rest, "dim", 0)
    if dim % x.ndim == 0 and name == "chunk":
        parts = x.unbind()
        each = -(-len(parts) // how)
        groups = [parts[i : i + each] for i in range(0, len(parts), each)]
        return tuple([from_components(list(group), x._ragged_idx) for group in groups])
    inner = _not_ragged(name, x, dim)
    return tuple([x._like(part) for part in func(plain(x), how, inner)])


def one_dim(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """`narrow`, `select`: of a dense dim; `select` also of the components."""
    name = short_name(func)
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    dim = _named(kwargs, rest, "dim")
    if name == "select" and dim % x.ndim == 0:
        return x.unbind()[_named(kwargs, rest, "index")]
    inner = _not_ragged(name, x, dim)
    gone = name == "select" and inner < x._ragged_idx - 1
    return nested(func(plain(x), inner, *rest, **kwargs), x._ragged, x._ragged_idx - gone)


def getitem(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A component, or parts of dense dims."""
    x, key = args
    key = key if isinstance(key, tuple) else (key,)
    if isinstance(key[0], int) and not isinstance(key[0], bool):
        found = x.unbind()[key[0]]
        return found[key[1:]] if len(key) > 1 else found
    key = _without_ellipsis(key, x.ndim)
    dims = [i for i, k in enumerate(key) if k is not None]
    consumed = [key[i] for i in dims]
    at = x._ragged_idx
    whole = slice(None)
    if consumed[0] != whole:
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    if len(consumed) > at and consumed[at] != whole:
        raise RuntimeError("slice(): not supported for NestedTensor on ragged dim")
    place, seen = 0, -1
    for k in key:
        seen += k is not None
        if seen == at and k is not None:
            break
        place += not isinstance(k, int)
    if any([not (k is None or isinstance(k, slice | int)) for k in key]):
        raise RuntimeError("indexing a NestedTensor: expected numbers and slices of dense dims")
    return nested(plain(x)[tuple(key[dims[0] + 1 :])], x._ragged, place if seen == at else at)


def _without_ellipsis(key: Args, ndim: int) -> Args:
    if not any([k is ... for k in key]):
        missing = ndim - sum([k is not None for k in key])
        return (*key, *[slice(None)] * missing)
    where = next(i for i, k in enumerate(key) if k is ...)
    used = sum([k is not None for k in key]) - 1
    return (*key[:where], *[slice(None)] * (ndim - used), *key[where + 1 :])


def cat(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """`cat`, `stack` along a dense dim of tensors that are nested alike."""
    name = short_name(func)
    tensors: Any = kwargs.get("tensors", args[0] if args else ())
    dim: Any = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    first = next(x for x in tensors if isinstance(x, NestedTensor))
    for x in tensors:
        if not isinstance(x, NestedTensor) or x._ragged is not first._ragged:
            raise RuntimeError(f"{name}(): expected all tensors to be nested alike")
    more = name == "stack"
    inner = _dense_dim(name, first, dim, first.ndim + more)
    if not more and inner == first._ragged_idx - 1:
        raise RuntimeError("cat(): not supported for NestedTensor on ragged dim")
    at = first._ragged_idx + (more and inner < first._ragged_idx)
    return nested(func([plain(x) for x in tensors], inner), first._ragged, at)


ANSWERS.update(
    transpose=transpose, swapaxes=transpose, swapdims=transpose, permute=permute, view=view,
    reshape=view, flatten=flatten, unflatten=unflatten, unsqueeze=unsqueeze, squeeze=squeeze,
    expand=expand, chunk=split, split=split, tensor_split=split, narrow=one_dim, select=one_dim,
    __getitem__=getitem, cat=cat, concat=cat, concatenate=cat, stack=cat,
    view_as=lambda func, args, kwargs: view(func, (args[0], *args[1].shape), kwargs),
    reshape_as=lambda func, args, kwargs: view(func, (args[0], *args[1].shape), kwargs),
    expand_as=lambda func, args, kwargs: expand(func, (args[0], *args[1].shape), kwargs),
)  # fmt: skip
