"""The layout `strided`: what is not of each element for itself is done component by component."""

from __future__ import annotations

from math import prod
from typing import Any

from livegrad.creation import full
from livegrad.nested.tensor import (
    STRIDED_ANSWERS,
    StridedNestedTensor,
    plain,
    short_name,
    strided_nested,
)
from livegrad.ops.shaping import joining
from livegrad.ops.shaping.joining import pad

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def of_components(parts: list[Any]) -> StridedNestedTensor:
    """A nested tensor of components of any shapes."""
    sizes = [tuple(part.shape) for part in parts]
    if not parts:
        return strided_nested(full((0,), 0.0), sizes)
    return strided_nested(joining.cat([part.reshape(-1) for part in parts]), sizes)


def components(x: Any) -> list[Any]:
    """The components of a nested tensor."""
    values = plain(x)
    parts = values.split([prod(size) for size in x._sizes]) if x._sizes else ()
    return [part.reshape(size) for part, size in zip(parts, x._sizes, strict=True)]


def _unbind(func: Any, args: Args, kwargs: Kwargs) -> tuple[Any, ...]:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    if dim % max(args[0].ndim, 1):
        raise RuntimeError(
            f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead."
        )
    return tuple(components(args[0]))


def _each(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A function of each component; operands that are not nested go with all."""
    nested = [x for x in args if isinstance(x, StridedNestedTensor)]
    if len({len(x) for x in nested}) != 1:
        raise RuntimeError(f"{short_name(func)}: expected nested tensors of as many components")
    parts = [components(x) if isinstance(x, StridedNestedTensor) else None for x in args]
    results = []
    for i in range(len(nested[0])):
        given = [x if p is None else p[i] for x, p in zip(args, parts, strict=True)]
        results.append(func(*given, **kwargs))
    if results and isinstance(results[0], tuple):
        return tuple([of_components(list(group)) for group in zip(*results, strict=True)])
    return of_components(results)


def _along(*names: str) -> Any:
    """A function of each component, whose dims (arguments of these names) count one more."""

    def run(func: Any, args: Args, kwargs: Kwargs) -> Any:
        x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
        ndim = x.ndim + (short_name(func) == "unsqueeze")
        for place, name in enumerate(names):
            given = kwargs[name] if name in kwargs else rest[place] if place < len(rest) else None
            if given is None:
                continue
            many = isinstance(given, tuple | list)
            inner = [d % ndim - 1 for d in (given if many else (given,))]
            if min(inner, default=0) < 0:
                raise RuntimeError(f"{short_name(func)}(): not supported for NestedTensor on dim=0")
            new = inner if many else inner[0]
            if name in kwargs:
                kwargs[name] = new
            else:
                rest[place] = new
        return _each(func, (x, *rest), kwargs)

    return run


def _sum(func: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 1 and "dim" not in kwargs:
        return func(plain(args[0]), **kwargs)
    return _along("dim")(func, args, kwargs)


def _chunk(func: Any, args: Args, kwargs: Kwargs) -> Any:
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    dim = kwargs.pop("dim", rest[1] if len(rest) > 1 else 0) % x.ndim
    if dim == 0:
        raise RuntimeError(f"{short_name(func)}(): not supported for NestedTensor on dim=0")
    how = rest[0] if rest else kwargs.popitem()[1]
    return _each(func, (x, how, dim - 1), {})


def _view(func: Any, args: Args, kwargs: Kwargs) -> Any:
    x, shape = args[0], args[1:]
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if not shape or shape[0] not in (-1, len(x)):
        raise RuntimeError(f"view(): expected the first size to be {len(x)}; got {list(shape)}")
    sizes = list(shape[1:])
    old = x._shape()
    out = []
    for part in components(x):
        # -1 is the size that the component has there
        own = [
            part.shape[d] if s == -1 and d < part.ndim and old[d + 1] is None else s
            for d, s in enumerate(sizes)
        ]
        out.append(part.reshape(own))
    return of_components(out)


def _getitem(func: Any, args: Args, kwargs: Kwargs) -> Any:
    x, key = args
    key = key if isinstance(key, tuple) else (key,)
    if isinstance(key[0], int):
        return components(x)[key[0]][tuple(key[1:])]
    if key[0] != slice(None):
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    return of_components([part[tuple(key[1:])] for part in components(x)])


def _to_padded_tensor(func: Any, args: Args, kwargs: Kwargs) -> Any:
    return to_padded(*args, **kwargs)


def to_padded(input: StridedNestedTensor, padding: Any, output_size: Any = None) -> Any:
    """The dense form, with `padding` where a component has ended."""
    sizes = input._sizes
    most = [max(x) for x in zip(*sizes, strict=True)]
    wanted = most if output_size is None else list(output_size[1:])
    if any([want < need for want, need in zip(wanted, most, strict=True)]):
        raise RuntimeError(
            "Value in output_size is less than NestedTensor padded size. Truncation is not "
            "supported."
        )
    rows = []
    for part in components(input):
        missing = [want - have for want, have in zip(wanted, part.shape, strict=True)]
        rows.append(pad(part, [n for size in reversed(missing) for n in (0, size)], value=padding))
    return joining.stack(rows)


def _attention(func: Any, args: Args, kwargs: Kwargs) -> Any:
    return _each(func, args, kwargs)


STRIDED_ANSWERS.update(
    unbind=_unbind, to_padded_tensor=_to_padded_tensor, sum=_sum, mean=_sum, chunk=_chunk,
    split=_chunk, view=_view, reshape=_view, __getitem__=_getitem,
    transpose=_along("dim0", "dim1"), softmax=_along("dim"), log_softmax=_along("dim"),
    squeeze=_along("dim"), unsqueeze=_along("dim"), select=_along("dim"), narrow=_along("dim"),
    scaled_dot_product_attention=_attention,
)  # fmt: skip
for _name in ("linear", "layer_norm", "rms_norm", "embedding", "matmul", "bmm", "__matmul__"):
    STRIDED_ANSWERS[_name] = _each
