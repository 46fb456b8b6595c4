"""Nested tensors, as `torch.nested` has them: components that differ in size, without padding.

| layout | class | components may differ in |
|---|---|---|
| `livegrad.jagged` | `NestedTensor` | one dim |
| `livegrad.strided` | `StridedNestedTensor` | any dims; what is not elementwise goes one by one |

Importing this makes the public functions ask their arguments (docs/design.md, *Overrides*); a
program without nested tensors never does.
"""

from __future__ import annotations

from math import prod
from typing import Any

from livegrad import creation
from livegrad.dtypes import int64
from livegrad.nested import (
    components as components,
    pointwise as pointwise,
    products as products,
    reductions as reductions,
    shapes as shapes,
)
from livegrad.nested.components import of_components
from livegrad.nested.padding import from_components
from livegrad.nested.ragged import NestedInt as NestedInt, Ragged, of_counts
from livegrad.nested.tensor import (
    Nested,
    NestedTensor as NestedTensor,
    StridedNestedTensor as StridedNestedTensor,
    nested as _nested,
    strided_nested,
)
from livegrad.ops.reductions import scan
from livegrad.ops.shaping import joining, movement
from livegrad.overrides import DisableTorchFunctionSubclass
from livegrad.sequences import arange
from livegrad.settings import jagged, strided
from livegrad.tensor import Tensor

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A nested tensor with copies of components: tensors, arrays or lists of numbers.

    It has no history; see `as_nested_tensor`.
    """
    if isinstance(tensor_list, Tensor):
        raise TypeError("nested_tensor(): argument 'tensor_list' must be list, not Tensor")
    with DisableTorchFunctionSubclass():
        parts = [_component(x, dtype, device).detach() for x in tensor_list]
        dtype = parts[0].dtype if parts else None
        parts = [part.to(dtype) for part in parts]
        out = _made(parts, _layout(layout, strided), copied=True)
    return out.requires_grad_() if requires_grad else out


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Any:
    """A nested tensor of components whose gradients are those of the list, or of one tensor."""
    if isinstance(ts, Nested):
        if layout is not None and layout is not ts.layout:
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not supported"
            )
        return ts if dtype is None and device is None else ts.to(device=device, dtype=dtype)
    with DisableTorchFunctionSubclass():
        if isinstance(ts, Tensor):
            if ts.ndim == 0:
                raise RuntimeError("as_nested_tensor(): expected a tensor of at least one dim")
            ts = ts if dtype is None and device is None else ts.to(device=device, dtype=dtype)
            if _layout(layout, strided) is jagged:
                ragged = of_counts([ts.shape[1]] * ts.shape[0])
                return _nested(movement.alias(ts.flatten(0, 1)), ragged)
            return of_components(list(ts.unbind()))
        if not isinstance(ts, tuple | list) or not all([isinstance(x, Tensor) for x in ts]):
            raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list")
        parts = [x.to(device=device, dtype=ts[0].dtype if dtype is None else dtype) for x in ts]
        return _made(parts, _layout(layout, strided), copied=True)


def _layout(given: Any, default: Any) -> Any:
    layout = default if given is None else given
    if layout is not jagged and layout is not strided:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout


def _component(x: Any, dtype: Any, device: Any) -> Any:
    if isinstance(x, Tensor):
        return x.to(device=device, dtype=dtype)
    return creation.tensor(x, dtype=dtype, device=device)


def _made(parts: list[Any], layout: Any, copied: bool) -> Any:
    if layout is jagged and not parts:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    for i, part in enumerate(parts):
        if part.ndim != parts[0].ndim:
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{part.ndim} for Tensor at index {i} and dimension {parts[0].ndim} for Tensor at "
                "index 0."
            )
    if layout is strided:
        return of_components(parts)
    shapes = [tuple(part.shape) for part in parts]
    differing = [d for d, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
    if len(differing) > 1 or not shapes[0]:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            "that the jagged layout only allows for a single ragged dimension. For example: "
            "(B, *, D_0, D_1, ..., D_N), with ragged * dim."
        )
    return from_components(parts, differing[0] + 1 if differing else 1)


def nested_tensor_from_jagged(
    values: Any,
    offsets: Any = None,
    lengths: Any = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """The values, a tensor of all components after each other, as a nested tensor: a view of them.

    Args:
        offsets: where each component begins, and where the last ends; or
        lengths: how long each is; with offsets, there are gaps between them.
        jagged_dim: which dim of the result is ragged.
        min_seqlen, max_seqlen: of the lengths, if they are known.
    """
    with DisableTorchFunctionSubclass():
        if offsets is None:
            if lengths is None:
                raise RuntimeError(
                    "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
                )
            ends = scan.cumsum(lengths, 0)
            zero = creation.zeros(1, dtype=ends.dtype)
            offsets, lengths = joining.cat([zero, ends]), None
        at = 1 if jagged_dim is None else jagged_dim
        ragged = Ragged(offsets, lengths, None, min_seqlen, max_seqlen)
        return _nested(movement.alias(values), ragged, at)


def narrow(tensor: Any, dim: int, start: Any, length: Any, layout: Any = None) -> Any:
    """A nested tensor whose components are parts of the rows of a dense tensor.

    Of the layout jagged it is a view, with gaps between components; start and length may be
    tensors.
    """
    kind = _layout(layout, strided)
    if kind is strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(tensor.narrow(dim, start, length), layout=strided)
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    with DisableTorchFunctionSubclass():
        batch, size = tensor.shape[:2]
        begins, counts = [
            x.to(int64) if isinstance(x, Tensor) else creation.full((batch,), x, dtype=int64)
            for x in (start, length)
        ]
        places = arange(batch) * size + begins
        offsets = joining.cat([places, places[-1:] + counts[-1:]])
        return _nested(tensor.flatten(0, 1), Ragged(offsets, counts))


def masked_select(tensor: Any, mask: Any) -> Any:
    """The elements that a mask keeps, row by row: a nested tensor of the layout jagged."""
    if tensor.layout is not strided:
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}"
        )
    with DisableTorchFunctionSubclass():
        mask = mask.expand_as(tensor)
        counts = mask.sum(-1 if mask.ndim > 1 else None).reshape(-1).tolist()
        return _nested(tensor.masked_select(mask), of_counts(counts))


def to_padded_tensor(input: Any, padding: float, output_size: Any = None, out: Any = None) -> Any:
    """The dense form of a nested tensor: as large as its largest component, the rest `padding`."""
    result = input.to_padded_tensor(padding, output_size)
    return result if out is None else out.copy_(result)


def _to_padded_tensor(self: Any, padding: float, output_size: Any = None, out: Any = None) -> Any:
    """See `livegrad.nested.to_padded_tensor`."""
    return self._answers["to_padded_tensor"](None, (self, padding, output_size), {})


def from_saved(saved: dict[str, Any]) -> Any:
    """A nested tensor from what its `_saved` gave; ValueError if it cannot be one."""
    values, learned = saved["values"], saved["requires_grad"]
    if "sizes" in saved:
        sizes = [tuple(size) for size in saved["sizes"]]
        if values.ndim != 1 or sum([prod(size) for size in sizes]) != values.shape[0]:
            raise ValueError("the sizes of its components do not fit its values")
        out: Any = strided_nested(movement.alias(values), sizes)
    else:
        offsets, lengths, dim = saved["offsets"], saved["lengths"], saved["dim"]
        if offsets.ndim != 1 or offsets.shape[0] < 1 or not 1 <= dim <= values.ndim:
            raise ValueError("its offsets do not fit its values")
        ends = offsets if lengths is None else offsets[:-1] + lengths
        starts = offsets[1:] >= offsets[:-1] if lengths is None else lengths >= 0
        within = (offsets >= 0).all() & (ends <= values.shape[dim - 1]).all() & starts.all()
        if not within.item():
            raise ValueError("its offsets do not fit its values")
        out = _nested(movement.alias(values), Ragged(offsets, lengths), dim)
    return out.detach().requires_grad_(learned)


def _inside(method: Any) -> Any:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with DisableTorchFunctionSubclass():
            return method(self, *args, **kwargs)

    run.__doc__ = method.__doc__
    return run


Nested.to_padded_tensor = _inside(_to_padded_tensor)  # type: ignore[attr-defined]
Nested.unbind = _inside(Nested.unbind)  # type: ignore[method-assign]
