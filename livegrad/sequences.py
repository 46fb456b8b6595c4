"""Sequences: tensors whose values follow from their position."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.creation import as_leaf
from livegrad.graph.blame import as_index, check_number
from livegrad.graph.elsewhere import placed
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import not_implemented
from livegrad.ops.elementwise.complex_parts import complex as from_parts
from livegrad.ops.making import generate
from livegrad.ops.making.constants import from_array
from livegrad.ops.support.numbers import number_for
from livegrad.ops.support.out import creating, taking_expanded
from livegrad.settings import check_layout

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


@creating
def arange(
    *bounds: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """`start`, `start + step`, … without `end`: arange(end), arange(start, end[, step]).

    Args:
        start: the first number; 0 if only `end` is given.
        end: where it stops, itself left out.
        step: from one number to the next.
        dtype: None: int64 if all are integers, else the default float.

    Example:
        >>> lg.arange(4)
        tensor([0, 1, 2, 3])
        >>> lg.arange(1, 2, 0.25)
        tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
    check_layout("arange", layout)
    if len(bounds) == 1 and end is None:
        end = bounds[0]
    elif len(bounds) == 1:
        start = bounds[0]
    elif len(bounds) > 1:
        start, end = bounds[0], bounds[1]
        step = bounds[2] if len(bounds) > 2 else step
    start, end, step = [_number(v, d) for v, d in ((start, 0), (end, None), (step, 1))]
    check_number(start, end, step)
    if step == 0:
        raise RuntimeError("arange: step must be nonzero")
    if not math.isfinite(start) or not math.isfinite(end):
        raise RuntimeError(f"arange: unsupported range: {start} -> {end}; expected finite bounds")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"arange: upper bound and lower bound inconsistent with step sign; got start {start}, "
            f"end {end}, step {step}"
        )
    floating = any(isinstance(v, float) for v in (start, end, step))
    default = dtypes.get_default_dtype() if floating else dtypes.int64
    target = default if dtype is None else dtypes.as_dtype(dtype)
    if target.is_complex or target is dtypes.bool_:
        raise not_implemented("arange", target)
    if target is dtypes.int64 and floating:
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ValueError("arange: step must be nonzero once it is an integer; got less than 1")
    # Of the other integers there are as many as there would be floats.
    count = max(math.ceil((end - start) / step), 0)
    kind = float if target.is_floating_point else int
    start, step = kind(start), kind(step)
    return as_leaf(placed(generate.steps(count, start, step, target), device), requires_grad)


def _number(value: Any, default: Any) -> Any:
    if value is None:
        if default is None:
            raise TypeError("arange() missing 1 required positional argument: 'end'")
        return default
    return (
        value if type(value) in (int, float) else value.item() if hasattr(value, "item") else value
    )


def range_(start: float, end: float, step: float = 1, **options: Any) -> Tensor:
    """`start`, `start + step`, … up to and including `end`."""
    return arange(start, end + step / 2 if isinstance(step, float) else end + step, step, **options)


@creating
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, evenly spaced.

    Args:
        start: the first number.
        end: the last one.
        steps: how many there are.

    Example:
        >>> lg.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    check_layout("linspace", layout)
    count = _check_steps("linspace", start, end, steps)
    check_number(*[x for x in (start, end) if not isinstance(x, complex)])
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return as_leaf(placed(_evenly(start, end, count, target, dtype), device), requires_grad)


def _evenly(start: Any, end: Any, count: int, target: dtypes.DType, dtype: Any) -> Tensor:
    if isinstance(start, complex) or isinstance(end, complex):
        target = dtypes.default_complex() if dtype is None else target
        part = target.to_real()
        ends = complex(start), complex(end)
        real = generate.evenly(ends[0].real, ends[1].real, count, part)
        imag = generate.evenly(ends[0].imag, ends[1].imag, count, part)
        return from_parts(real, imag)
    if target is dtypes.bool_:
        raise not_implemented("linspace_cpu", target)
    if target.category >= dtypes.FLOAT:
        return generate.evenly(float(start), float(end), count, target)
    # Whole numbers from a whole start to a whole end, each rounded toward zero.
    first, last = [float(number_for("linspace", x, target)) for x in (start, end)]
    return generate.evenly(first, last, count, dtypes.float64).to(target)


def _whole(name: str, bound: Any) -> int:
    """A bound of whole numbers, cut off."""
    if not math.isfinite(bound):
        raise RuntimeError(
            f"{name}: value {bound} cannot be converted to an integer without overflow"
        )
    return int(bound)


def _check_steps(name: str, start: Any, end: Any, steps: Any) -> int:
    """`steps`, if it and the bounds are of the right kind."""
    for bound in (start, end):
        if isinstance(bound, Handle) and node_of(bound).meta.ndim:
            raise RuntimeError(
                f"{name}: only supports 0-dimensional start and end tensors; "
                f"got shape {list(node_of(bound).meta.shape)}"
            )
    try:
        count = operator.index(steps)
    except TypeError:
        raise TypeError(
            f"{name}(): argument 'steps' must be int, not {type(steps).__name__}"
        ) from None
    if count < 0:
        raise RuntimeError(f"{name}: number of steps must be non-negative; got {count}")
    return count


@creating
def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """`base` to the power of `linspace(start, end, steps)`."""
    check_layout("logspace", layout)
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    count = _check_steps("logspace", start, end, steps)
    if target.category < dtypes.FLOAT:
        powers = from_array(_whole_powers(start, end, count, base), target)
        return as_leaf(placed(powers, device), requires_grad)
    wide = isinstance(start, complex) or isinstance(end, complex)
    exact = dtypes.complex128 if wide else dtypes.float64
    powers = linspace(start, end, count, dtype=exact, device=device)
    if base > 0:
        out = (powers * math.log(base)).exp()
    else:
        out = pow(float(base), powers)
    out = out.to(dtypes.default_complex() if wide and dtype is None else target)
    return as_leaf(out, requires_grad)


def _whole_powers(start: Any, end: Any, count: int, base: float) -> Array:
    """logspace of integers, in PyTorch's steps: exponents in float32, exact powers, cut off."""
    first, last = [np.float32(_whole("logspace", x)) for x in (start, end)]
    step = (last - first) / np.float32(count - 1) if count > 1 else np.float32(0)
    place = np.arange(count, dtype=np.float32)
    early, late = first + step * place, last - step * (np.float32(count - 1) - place)
    exponents = np.where(place < max(count // 2, 1), early, late)
    return np.trunc(np.power(float(base), exponents.astype(np.float64)))


@taking_expanded
@creating
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """Ones on the diagonal of an n by m matrix, zeros elsewhere.

    Args:
        n: rows.
        m: columns; None: as many.

    Example:
        >>> lg.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    check_layout("eye", layout)
    n = as_index(n)
    columns = n if m is None else as_index(m)
    if n < 0 or columns < 0:
        raise RuntimeError(f"eye: sizes must be at least 0; got {n} and {columns}")
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    same = generate.counting(n).unsqueeze(1) == generate.counting(columns)
    return as_leaf(placed(same.to(target), device), requires_grad)
