"""Nested tensors as dense ones with padding, and back; components."""

from __future__ import annotations

from typing import Any

from livegrad.creation import full
from livegrad.nested.ragged import Ragged, of_counts
from livegrad.nested.tensor import ANSWERS, NestedTensor, nested, plain
from livegrad.ops.picking.masking import where
from livegrad.ops.shaping import joining
from livegrad.ops.shaping.joining import pad

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def padded(x: NestedTensor, padding: Any, longest: int | None = None) -> Any:
    """The dense form: (components, …, longest, …), with `padding` where a component has ended."""
    ragged, at = x._ragged, x._ragged_idx
    most = ragged.longest if longest is None else longest
    values = plain(x).movedim(at - 1, 0)  # (total, …)
    if values.shape[0] == 0:
        out = full((ragged.batch, most, *values.shape[1:]), padding, dtype=values.dtype)
    else:
        places, there = ragged.places(most)
        there = there.reshape(*there.shape, *[1] * (values.ndim - 1))
        picked = values[places.clamp(0, values.shape[0] - 1)]
        out = where(there, picked, padding).to(values.dtype)
    return out.movedim(1, at)


def packed(x: Any, like: NestedTensor) -> Any:
    """The values (…, total, …) of a dense tensor that is padded as `padded` pads `like`."""
    at = like._ragged_idx
    return gathered(x, like._ragged, at, plain(like).shape[at - 1])


def gathered(x: Any, ragged: Ragged, at: int, total: int) -> Any:
    """The values of the components of a padded tensor whose dim `at` is ragged."""
    component, place = ragged.place_of_each(total)
    return x.movedim(at, 1)[component, place].movedim(0, at - 1)


def contiguous(x: NestedTensor) -> NestedTensor:
    """The tensor without gaps between components."""
    if x._ragged.lengths is None:
        return x
    counts, at = x._ragged.counts, x._ragged_idx
    ragged = of_counts(counts)
    component, place = ragged.place_of_each(sum(counts))
    from_start = x._ragged.offsets[:-1][component] + place
    return nested(plain(x).movedim(at - 1, 0)[from_start].movedim(0, at - 1), ragged, at)


def to_padded(input: NestedTensor, padding: Any, output_size: Any = None) -> Any:
    """The dense form, perhaps of a larger size."""
    if output_size is None:
        return padded(input, padding)
    at, sizes = input._ragged_idx, input._shape()
    # Where less than the longest is asked for, components are cut off.
    longest = input._ragged.longest if output_size[at] == -1 else output_size[at]
    out = padded(input, padding, longest)
    wanted = [s if o == -1 else o for o, s in zip(output_size, out.shape, strict=True)]
    if any([want < size for want, size in zip(wanted, out.shape, strict=True)]):
        raise RuntimeError(f"to_padded_tensor(): {sizes} does not fit into {list(output_size)}")
    if list(out.shape) == wanted:
        return out
    missing = [want - size for want, size in zip(wanted, out.shape, strict=True)]
    return pad(out, [n for size in reversed(missing) for n in (0, size)], value=padding)


def _unbind(func: Any, args: Args, kwargs: Kwargs) -> tuple[Any, ...]:
    x, dim = args[0], kwargs.get("dim", args[1] if len(args) > 1 else 0)
    if dim % x.ndim:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    ragged, at, values = x._ragged, x._ragged_idx, plain(x)
    if ragged.lengths is None:
        return tuple(values.split(ragged.counts, at - 1))
    places = zip(ragged.starts, ragged.counts, strict=True)
    return tuple([values.narrow(at - 1, start, count) for start, count in places])


def from_components(parts: list[Any], at: int = 1) -> NestedTensor:
    """A nested tensor of components that agree in all dims but one."""
    counts = [part.shape[at - 1] for part in parts]
    return nested(joining.cat(list(parts), at - 1), of_counts(counts), at)


def _contiguous(func: Any, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    if x._ragged.lengths is None:
        return x._like(func(plain(x), *args[1:], **kwargs))
    return contiguous(x)


ANSWERS["to_padded_tensor"] = lambda func, args, kwargs: to_padded(*args, **kwargs)
ANSWERS["unbind"] = _unbind
ANSWERS["contiguous"] = _contiguous
