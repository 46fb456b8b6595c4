"""Elementwise comparisons, choices between values, logic and bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import check_number
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.layout import Strides, like_strides
from livegrad.graph.meta import Meta
from livegrad.graph.op import Op, as_iterated, with_numbers
from livegrad.graph.record import binary, elementwise, unary
from livegrad.ops.elementwise.arithmetic import define, needs_tensor, where
from livegrad.ops.shaping.movement import constant
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.numbers import number_for
from livegrad.ops.support.out import casting, exact, plain
from livegrad.ops.support.stepwise import NUMBER, Seen, elementwise as step, seen

if TYPE_CHECKING:
    from livegrad.tensor import Tensor
    from livegrad.typing import Operand

Array = Any
Metas = tuple[Meta, ...]

# ------------------------------------------------------------------------------------ comparisons

EQ = define(
    "eq", np.equal, lambda e, a, b: e.eq(a, b), result="bool", cheap=True, complex=True,
    layout=with_numbers, narrows=True, samples=s.binary(smooth=False),
)  # fmt: skip
NE = define(
    "ne", np.not_equal, lambda e, a, b: e.ne(a, b), result="bool", cheap=True, complex=True,
    layout=with_numbers, narrows=True, samples=s.binary(smooth=False),
)  # fmt: skip
LT = define(
    "lt", np.less, lambda e, a, b: e.lt(a, b), result="bool", cheap=True,
    layout=with_numbers, narrows=True, samples=s.binary(smooth=False),
)  # fmt: skip
LE = define(
    "le", np.less_equal, lambda e, a, b: e.le(a, b), result="bool", cheap=True,
    layout=with_numbers, narrows=True, samples=s.binary(smooth=False),
)  # fmt: skip
GT = define(
    "gt", np.greater, lambda e, a, b: e.gt(a, b), result="bool", cheap=True,
    layout=with_numbers, narrows=True, samples=s.binary(smooth=False),
)  # fmt: skip
GE = define(
    "ge", np.greater_equal, lambda e, a, b: e.ge(a, b), result="bool", cheap=True,
    layout=with_numbers, narrows=True, samples=s.binary(smooth=False),
)  # fmt: skip


def _specials() -> s.Sample:
    values = np.array([0.0, -0.0, 1.5, np.nan, np.inf, -np.inf, 1e300])
    return s.Sample((values,), smooth=False)


def _emit_isinf(e: Any, x: Any) -> Any:
    return e.eq(e.abs(x), np.inf) if e.dtype.is_floating_point else e.ne(x, x)


def _emit_isfinite(e: Any, x: Any) -> Any:
    return e.lt(e.abs(x), np.inf) if e.dtype.is_floating_point else e.eq(x, x)


def _inf_layout(metas: Metas, attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """PyTorch computes abs(x) == inf, or has nothing to look for."""
    if metas[0].dtype.category < dtypes.FLOAT:
        return _like(metas[0])
    if not metas[0].dtype.is_floating_point:
        return as_iterated(metas, attrs, meta)
    return _compared_to_inf(seen(metas[0]))[1]


def _finite_layout(metas: Metas, attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """PyTorch computes (x == x) * (abs(x) != inf), or has nothing to look for."""
    if metas[0].dtype.category < dtypes.FLOAT:
        return _like(metas[0])
    if not metas[0].dtype.is_floating_point:
        return as_iterated(metas, attrs, meta)
    x = seen(metas[0])
    return step(step(x, x), _compared_to_inf(x))[1]


def _like(meta: Meta) -> Strides | None:
    return None if meta.strides is None else like_strides(meta.shape, meta.strides)


def _compared_to_inf(x: Seen) -> Seen:
    return step(step(x), NUMBER)


ISNAN = define(
    "isnan", np.isnan, lambda e, x: e.isnan(x), result="bool", cheap=True, complex=True,
    samples=s.calls(_specials),
)  # fmt: skip
ISINF = define(
    "isinf",
    np.isinf,
    _emit_isinf,
    result="bool",
    layout=_inf_layout,
    cheap=True,
    complex=True,
    samples=s.calls(_specials),
)
ISFINITE = define(
    "isfinite",
    np.isfinite,
    _emit_isfinite,
    result="bool",
    layout=_finite_layout,
    cheap=True,
    complex=True,
    samples=s.calls(_specials),
)


def _isclose(a: Array, b: Array, rtol: Array, atol: Array) -> Array:
    difference = np.abs(a - b)
    return (a == b) | (np.isfinite(difference) & (difference <= atol + np.abs(rtol * b)))


def _emit_isclose(e: Any, a: Any, b: Any, rtol: Any, atol: Any) -> Any:
    difference = e.abs(e.sub(a, b))
    near = e.le(difference, e.add(atol, e.abs(e.mul(b, rtol))))
    return e.or_(e.eq(a, b), e.and_(near, _emit_isfinite(e, difference)))


ISCLOSE = define(
    "isclose",
    _isclose,
    _emit_isclose,
    result="bool",
    cheap=True,
    complex=True,
    samples=s.calls(
        lambda: s.Sample((s.uniform(5), s.uniform(5) + 1e-3, 1e-5, 1e-8), smooth=False),
        lambda: s.Sample((s.uniform(3, 4), s.uniform(3, 4), 0.1, 0.0), smooth=False),
    ),
)


@casting
@plain
def eq(input: Operand, other: Operand) -> Tensor:
    """Elementwise `input == other`.

    Example:
        >>> lg.eq(lg.tensor([1, 2]), 2)
        tensor([False,  True])
    """
    return binary(EQ, input, other)


@casting
@plain
def ne(input: Operand, other: Operand) -> Tensor:
    """Elementwise `input != other`."""
    return binary(NE, input, other)


@casting
@plain
def lt(input: Operand, other: Operand) -> Tensor:
    """Elementwise `input < other`."""
    return binary(LT, input, other)


@casting
@plain
def le(input: Operand, other: Operand) -> Tensor:
    """Elementwise `input <= other`."""
    return binary(LE, input, other)


@casting
@plain
def gt(input: Operand, other: Operand) -> Tensor:
    """Elementwise `input > other`.

    Example:
        >>> lg.gt(lg.tensor([1, 2, 3]), 2)
        tensor([False, False,  True])
    """
    return binary(GT, input, other)


@casting
@plain
def ge(input: Operand, other: Operand) -> Tensor:
    """Elementwise `input >= other`."""
    return binary(GE, input, other)


def isnan(input: Tensor) -> Tensor:
    """Whether each element is NaN.

    Example:
        >>> lg.isnan(lg.tensor([1.0, float("nan")]))
        tensor([False,  True])
    """
    return unary(ISNAN, input)


def isinf(input: Tensor) -> Tensor:
    """Whether each element is infinite, of either sign."""
    return unary(ISINF, input)


def isfinite(input: Tensor) -> Tensor:
    """Whether each element is neither infinite nor NaN.

    Example:
        >>> lg.isfinite(lg.tensor([1.0, float("inf")]))
        tensor([ True, False])
    """
    return unary(ISFINITE, input)


def isclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Tensor:
    """Whether `|input - other| <= atol + rtol * |other|`; NaN equals NaN only if asked."""
    check_number(rtol, atol)
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(
                f"isclose: {name} must be greater than or equal to zero; got {value}"
            )
    left, right = node_of(input).meta.dtype, node_of(other).meta.dtype
    if left is not right:
        raise RuntimeError(
            f"isclose: {left.name} did not match {right.name}. Convert one with .to(dtype)"
        )
    close = elementwise(ISCLOSE, (input, other, float(rtol), float(atol)))
    if not equal_nan:
        return close
    return logical_or(close, logical_and(isnan(input), isnan(other)))


# ------------------------------------------------------------------------------ greater and lesser


def _share(g: Array, a: Array, b: Array) -> Array:
    return np.where(a == b, g / 2, np.where(a < b, 0, g))


# The gradient that reaches `a` of max(a, b): all if it is greater, half at a tie.
SHARE: Op = define(
    "share",
    ref=_share,
    emit=lambda e, g, a, b: e.select(e.eq(a, b), e.mul(g, 0.5), e.select(e.lt(a, b), 0, g)),
    grads=(lambda g, y, *xs: elementwise(SHARE, (g, *xs[1:])), None, None),
    result="floating",
    cheap=True,
    saves="x",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4), s.uniform(3, 4, seed=1), s.uniform(4, seed=2))),
    ),
)


def _larger(g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return elementwise(SHARE, (g, constant(a), constant(b)))


MAXIMUM = define(
    "maximum",
    ref=np.maximum,
    emit=lambda e, a, b: e.max(a, b),
    grads=(lambda g, y, a, b: _larger(g, a, b), lambda g, y, a, b: _larger(g, b, a)),
    cheap=True,
    saves="x",
    grad_fn=parts.pair,
    samples=s.binary(),
)
MINIMUM = define(
    "minimum",
    ref=np.minimum,
    emit=lambda e, a, b: e.min(a, b),
    grads=(lambda g, y, a, b: _larger(g, b, a), lambda g, y, a, b: _larger(g, a, b)),
    cheap=True,
    saves="x",
    grad_fn=parts.pair,
    samples=s.binary(),
)


def _is_first(y: Tensor, a: Tensor) -> Tensor:
    """Where fmax or fmin gives its first operand; that is also said to be it if both are NaN."""
    return logical_or(eq(y, a), isnan(y))


FMAX = define(
    "fmax",
    ref=np.fmax,
    emit=lambda e, a, b: e.select(e.isnan(a), b, e.select(e.isnan(b), a, e.max(a, b))),
    grads=(
        lambda g, y, a, b: where(_is_first(y, a), g, 0),
        lambda g, y, a, b: where(_is_first(y, a), 0, g),
    ),
    cheap=True,
    samples=s.binary(),
)
FMIN = define(
    "fmin",
    ref=np.fmin,
    emit=lambda e, a, b: e.select(e.isnan(a), b, e.select(e.isnan(b), a, e.min(a, b))),
    grads=(
        lambda g, y, a, b: where(_is_first(y, a), g, 0),
        lambda g, y, a, b: where(_is_first(y, a), 0, g),
    ),
    cheap=True,
    samples=s.binary(),
)


@casting
def maximum(input: Operand, other: Operand) -> Tensor:
    """Elementwise greater of the two; NaN if either is. A tie shares the gradient.

    Args:
        input: a tensor.
        other: a tensor that broadcasts with it.

    Example:
        >>> lg.maximum(lg.tensor([1, 5]), lg.tensor([3, 2]))
        tensor([3, 5])
    """
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("maximum", input, other)
    return binary(MAXIMUM, input, other)


@casting
def minimum(input: Operand, other: Operand) -> Tensor:
    """Elementwise lesser of the two; NaN if either is. A tie shares the gradient.

    Args:
        input: a tensor.
        other: a tensor that broadcasts with it.

    Example:
        >>> lg.minimum(lg.tensor([1, 5]), lg.tensor([3, 2]))
        tensor([1, 2])
    """
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("minimum", input, other)
    return binary(MINIMUM, input, other)


@casting
def fmax(input: Operand, other: Operand) -> Tensor:
    """Elementwise greater of the two; a number wins over NaN."""
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("fmax", input, other)
    return binary(FMAX, input, other)


@casting
def fmin(input: Operand, other: Operand) -> Tensor:
    """Elementwise lesser of the two; a number wins over NaN."""
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("fmin", input, other)
    return binary(FMIN, input, other)


# ------------------------------------------------------------------------------------------ clamp

INSIDE: Op = define(
    "inside",
    # The gradient of clamp: g where low <= x <= high, which NaN is not.
    ref=lambda g, x, low, high: np.where((x >= low) & (x <= high), g, 0),
    emit=lambda e, g, x, low, high: e.select(e.and_(e.ge(x, low), e.le(x, high)), g, 0),
    grads=(lambda g, y, *xs: elementwise(INSIDE, (g, *xs[1:])), None, None, None),
    result="floating",
    cheap=True,
    saves="x",
    samples=s.calls(lambda: s.Sample((s.uniform(3, 4), s.uniform(3, 4, seed=1), -0.5, 0.5))),
)
CLAMP = define(
    "clamp",
    ref=lambda x, low, high: np.minimum(np.maximum(x, low), high),
    emit=lambda e, x, low, high: e.min(e.max(x, low), high),
    grads=(
        lambda g, y, x, *bounds: elementwise(INSIDE, (g, *map(constant, (x, *bounds)))),
        lambda g, y, x, low, high: where(logical_and(lt(x, low), lt(low, high)), g, 0),
        lambda g, y, x, low, high: where(logical_or(gt(x, high), lt(high, low)), g, 0),
    ),
    cheap=True,
    saves="x",
    grad_fn="ClampBackward1",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5), -0.5, 0.5)),
        lambda: s.Sample((s.uniform(), -0.5, 0.5)),
        lambda: s.Sample((s.uniform(3, 5), s.uniform(5) / 9 - 0.4, s.uniform(3, 1) / 9 + 0.4)),
    ),
)
CLAMP_MIN = define(
    "clamp_min",
    ref=np.maximum,
    emit=lambda e, x, low: e.max(x, low),
    grads=(
        lambda g, y, x, low: where(ge(x, low), g, 0),
        lambda g, y, x, low: where(lt(x, low), g, 0),
    ),
    cheap=True,
    saves="x",
    grad_fn="ClampBackward1",
    samples=s.binary(),
)
CLAMP_MAX = define(
    "clamp_max",
    ref=np.minimum,
    emit=lambda e, x, high: e.min(x, high),
    grads=(
        lambda g, y, x, high: where(le(x, high), g, 0),
        lambda g, y, x, high: where(gt(x, high), g, 0),
    ),
    cheap=True,
    saves="x",
    grad_fn="ClampBackward1",
    samples=s.binary(),
)


def _check_bounds(name: str, input: Any, *bounds: Any) -> None:
    """RuntimeError for a number that the dtype of the result has no value for."""
    if not isinstance(input, Handle):
        return
    dtype = node_of(input).meta.dtype
    if dtype.category < dtypes.FLOAT and any([isinstance(x, float) for x in bounds]):
        dtype = dtypes.get_default_dtype()
    for bound in bounds:
        if type(bound) in (int, float):
            number_for(name, bound, dtype)


@casting
def clamp(
    input: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None
) -> Tensor:
    """`input` limited to [min, max], numbers or tensors; where min > max the result is max.

    Args:
        input: a tensor.
        min: None: no limit below.
        max: None: no limit above.

    Example:
        >>> lg.clamp(lg.tensor([-3, 0, 5]), min=-1, max=2)
        tensor([-1,  0,  2])
    """
    if min is None:
        if max is None:
            raise RuntimeError("clamp: at least one of 'min' or 'max' must not be None")
        return clamp_max(input, max)
    if max is None:
        return clamp_min(input, min)
    _check_bounds("clamp", input, min, max)
    return elementwise(CLAMP, (input, min, max))


clip = clamp


@casting
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """`input` limited from below."""
    if not isinstance(input, Handle):
        raise needs_tensor("clamp_min", input)
    _check_bounds("clamp_min", input, min)
    return binary(CLAMP_MIN, input, min)


@casting
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """`input` limited from above."""
    if not isinstance(input, Handle):
        raise needs_tensor("clamp_max", input)
    _check_bounds("clamp_max", input, max)
    return binary(CLAMP_MAX, input, max)


# ---------------------------------------------------------------------------------- logic and bits


def _bits() -> s.Sample:
    return s.Sample((s.integers(3, 4, low=-9), s.integers(4, low=-9, seed=1)), smooth=False)


def _bools() -> s.Sample:
    return s.Sample((s.uniform(3, 4) > 0, s.uniform(4, seed=1) > 0), smooth=False)


def _shifts() -> s.Sample:
    return s.Sample((s.integers(3, 4, low=-9), s.integers(4, high=6, seed=1)), smooth=False)


def _far_shifts() -> s.Sample:
    return s.Sample((np.array([5, -5, 1, -1]), np.array([-1, 64, 70, 63])), smooth=False)


LOGICAL_AND = define(
    "logical_and", np.logical_and, lambda e, a, b: e.and_(e.truth(a), e.truth(b)),
    result="bool", cheap=True, complex=True, samples=s.calls(_bits, _bools),
)  # fmt: skip
LOGICAL_OR = define(
    "logical_or", np.logical_or, lambda e, a, b: e.or_(e.truth(a), e.truth(b)),
    result="bool", cheap=True, complex=True, samples=s.calls(_bits, _bools),
)  # fmt: skip
LOGICAL_XOR = define(
    "logical_xor", np.logical_xor, lambda e, a, b: e.xor(e.truth(a), e.truth(b)),
    result="bool", cheap=True, complex=True, samples=s.calls(_bits, _bools),
)  # fmt: skip
LOGICAL_NOT = define(
    "logical_not", np.logical_not, lambda e, x: e.not_(e.truth(x)),
    result="bool", cheap=True, complex=True, samples=s.unary(smooth=False),
)  # fmt: skip
BITWISE_AND = define(
    "bitwise_and", np.bitwise_and, lambda e, a, b: e.and_(a, b),
    result="integer", cheap=True, layout=with_numbers, samples=s.calls(_bits, _bools),
)  # fmt: skip
BITWISE_OR = define(
    "bitwise_or", np.bitwise_or, lambda e, a, b: e.or_(a, b),
    result="integer", cheap=True, layout=with_numbers, samples=s.calls(_bits, _bools),
)  # fmt: skip
BITWISE_XOR = define(
    "bitwise_xor", np.bitwise_xor, lambda e, a, b: e.xor(a, b),
    result="integer", cheap=True, layout=with_numbers, samples=s.calls(_bits, _bools),
)  # fmt: skip
BITWISE_NOT = define(
    "bitwise_not", np.bitwise_not, lambda e, x: e.not_(x),
    result="integer", cheap=True,
    samples=s.calls(lambda: s.Sample((s.integers(3, 4, low=-9),), smooth=False)),
)  # fmt: skip
BITWISE_LEFT_SHIFT = define(
    "bitwise_left_shift", np.left_shift, lambda e, a, b: e.shl(a, b),
    result="shift", cheap=True, layout=with_numbers, samples=s.calls(_shifts, _far_shifts),
)  # fmt: skip
BITWISE_RIGHT_SHIFT = define(
    "bitwise_right_shift", np.right_shift, lambda e, a, b: e.shr(a, b),
    result="shift", cheap=True, layout=with_numbers, samples=s.calls(_shifts, _far_shifts),
)  # fmt: skip


@casting
def logical_and(input: Operand, other: Operand) -> Tensor:
    """Whether both elements are not 0.

    Example:
        >>> lg.logical_and(lg.tensor([True, True]), lg.tensor([True, False]))
        tensor([ True, False])
    """
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("logical_and", input, other)
    return binary(LOGICAL_AND, input, other)


@casting
def logical_or(input: Operand, other: Operand) -> Tensor:
    """Whether either element is not 0."""
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("logical_or", input, other)
    return binary(LOGICAL_OR, input, other)


@casting
def logical_xor(input: Operand, other: Operand) -> Tensor:
    """Whether exactly one element is not 0."""
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("logical_xor", input, other)
    return binary(LOGICAL_XOR, input, other)


@casting
@plain
def logical_not(input: Tensor) -> Tensor:
    """Whether each element is 0.

    Example:
        >>> lg.logical_not(lg.tensor([0, 3]))
        tensor([ True, False])
    """
    return unary(LOGICAL_NOT, input)


@casting
@plain
def bitwise_and(input: Operand, other: Operand) -> Tensor:
    """Bitwise and of integers or bools."""
    return binary(BITWISE_AND, input, other)


@casting
@plain
def bitwise_or(input: Operand, other: Operand) -> Tensor:
    """Bitwise or of integers or bools."""
    return binary(BITWISE_OR, input, other)


@casting
@plain
def bitwise_xor(input: Operand, other: Operand) -> Tensor:
    """Bitwise exclusive or of integers or bools."""
    return binary(BITWISE_XOR, input, other)


@exact
@plain
def bitwise_not(input: Tensor) -> Tensor:
    """Bitwise complement of integers, opposite of bools."""
    return unary(BITWISE_NOT, input)


def invert(input: Tensor) -> Tensor:
    """`~input`."""
    if node_of(input).meta.dtype.category >= dtypes.FLOAT:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return unary(BITWISE_NOT, input)


@casting
@plain
def bitwise_left_shift(input: Operand, other: Operand) -> Tensor:
    """`input << other`; shifting by all bits or by a negative number gives 0."""
    return binary(BITWISE_LEFT_SHIFT, input, other)


@casting
@plain
def bitwise_right_shift(input: Operand, other: Operand) -> Tensor:
    """`input >> other`, keeping the sign."""
    return binary(BITWISE_RIGHT_SHIFT, input, other)


# PyTorch's other names.
greater = gt
greater_equal = ge
less = lt
less_equal = le
not_equal = ne
