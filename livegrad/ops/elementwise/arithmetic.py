"""Elementwise arithmetic: one value per element, broadcast like NumPy, promoted like PyTorch.

An op here is a record and a function: `ref` is its NumPy meaning, `emit` the instructions for
sixteen elements in the compute dtype, `grads` one rule per operand. See docs/add_an_op.md.

Rounded quotients and remainders are in division.py, powers and roots in power.py, comparisons and
logic in comparison.py, exponentials, angles and rounding in pointwise_math.py, activations in
activation.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.device import CPU
from livegrad.dtypes import DType
from livegrad.graph import elsewhere
from livegrad.graph.blame import wrong_class
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Spec
from livegrad.graph.op import REGISTRY, GradRule, Op, as_first, as_iterated, with_numbers
from livegrad.graph.record import append, binary, elementwise, record, unary
from livegrad.graph.state import LOCAL
from livegrad.native.hot import hot
from livegrad.ops.bookkeeping.in_place import in_format
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.making.generate import filled, zeros_like
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.numbers import NUMBERS, OPERANDS, narrowed, number_for
from livegrad.ops.support.old_order import in_new_order
from livegrad.ops.support.out import casting, exact, plain, sizes

if TYPE_CHECKING:
    from livegrad.tensor import Tensor
    from livegrad.typing import Operand

Array = Any


def define(
    name: str,
    ref: Callable[..., Any],
    emit: Callable[..., Any],
    grads: tuple[GradRule | None, ...] | None = None,
    **rules: Any,
) -> Op:
    """Registers an elementwise op."""
    return Op(name, "elementwise", ref=ref, emit=emit, grads=grads, **rules)


def zero_gradient(g: Tensor, y: Tensor, *operands: Tensor) -> Tensor:
    """Gradient rule of steps: zero wherever it exists."""
    return zeros_like(g)


def needs_tensor(name: str, *operands: Any) -> TypeError:
    """The error of an op that PyTorch has for tensors but not for numbers."""
    wrong = next(x for x in operands if not isinstance(x, Handle))
    return wrong_class(wrong, "Tensor", name)


def one_minus(x: Tensor) -> Tensor:
    """`1 - x`."""
    return sub(1, x)


def as_operand(x: Operand, like: Tensor) -> Tensor:
    """`x`; a number as a tensor of the dtype of `like`, for gradient rules to compute with.

    A rule that computes with the number itself makes a plan that holds for this number only.
    """
    return x if isinstance(x, Handle) else filled((), x, node_of(like).meta.dtype.to_real())


# ---------------------------------------------------------------------- sums, products, quotients

ADD = define(
    "add",
    ref=np.add,
    emit=lambda e, a, b: e.add(a, b),
    grads=(lambda g, y, a, b: g, lambda g, y, a, b: g),
    cheap=True,
    narrows=True,
    saves="",
    complex=True,
    layout=with_numbers,
    grad_fn=parts.arithmetic,
    samples=s.binary(),
)
SUB = define(
    "sub",
    ref=np.subtract,
    emit=lambda e, a, b: e.sub(a, b),
    grads=(lambda g, y, a, b: g, lambda g, y, a, b: neg(g)),
    result="arithmetic",
    cheap=True,
    narrows=True,
    saves="",
    complex=True,
    layout=with_numbers,
    grad_fn=parts.arithmetic,
    samples=s.binary(),
)
MUL = define(
    "mul",
    ref=np.multiply,
    emit=lambda e, a, b: e.mul(a, b),
    grads=(lambda g, y, a, b: mul(g, conj(b)), lambda g, y, a, b: mul(g, conj(a))),
    cheap=True,
    saves="x",
    complex=True,
    layout=with_numbers,
    grad_fn=parts.arithmetic,
    samples=s.binary(),
)


def _quotient_layout(metas: Any, attrs: tuple[Any, ...], meta: Meta) -> Any:
    """That of a number divided by a tensor is that of a number times its reciprocal.

    A complex number is multiplied by it, see `number_over`, unless a function is called by name.
    """
    if attrs[1] == "st" and not attrs[0].is_complex:
        metas = (metas[0].with_strides(as_iterated(metas, attrs, meta)),)
    return with_numbers(metas, attrs, meta)


def _quotient(y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`y`, which is a / b: see `anew`."""
    return binary(DIV, a, b) if LOCAL.state.grad else y


def anew(y: Tensor, op: Op, x: Tensor) -> Tensor:
    """`y`, which is op(x): computed again where a gradient of the gradient is to be had.

    As in PyTorch, that comes to `x`, and not to `y`, which may retain its gradient.
    """
    return unary(op, x) if LOCAL.state.grad else y


DIV = define(
    "div",
    ref=np.true_divide,
    emit=lambda e, a, b: e.div(a, b),
    grads=(
        lambda g, y, a, b: div(g, conj(b)),
        lambda g, y, a, b: neg(div(mul(g, conj(_quotient(y, a, b))), conj(b))),
    ),
    result="float",
    complex=True,
    layout=_quotient_layout,
    grad_fn=parts.arithmetic,
    samples=s.binary(low2=0.5, high2=3.0),
)


@casting
def add(input: Operand, other: Operand, old: Any = None, *, alpha: float = 1) -> Tensor:
    """Elementwise `input + alpha * other`.

    Args:
        input: a tensor.
        other: a tensor that broadcasts with it, or a number.
        alpha: how often `other` is added.

    Example:
        >>> lg.add(lg.tensor([1, 2]), lg.tensor([10, 20]), alpha=2)
        tensor([21, 42])
    """
    if old is not None:
        return in_new_order(add, (input, other, old), 2, "alpha")
    if type(alpha) is not int or alpha != 1:
        return _with_scaled(ADD, input, other, alpha)
    return binary(ADD, input, other)


@casting
def sub(input: Operand, other: Operand, old: Any = None, *, alpha: float = 1) -> Tensor:
    """Elementwise `input - alpha * other`.

    Args:
        input: a tensor.
        other: a tensor that broadcasts with it, or a number.
        alpha: how often `other` is taken away.

    Example:
        >>> lg.sub(lg.tensor([5, 5]), 2)
        tensor([3, 3])
    """
    if old is not None:
        return in_new_order(sub, (input, other, old), 2, "alpha")
    if type(alpha) is not int or alpha != 1:
        return _with_scaled(SUB, input, other, alpha)
    return binary(SUB, input, other)


def _with_scaled(op: Op, input: Operand, other: Operand, alpha: float) -> Tensor:
    """A sum or difference with `alpha * other`; that of half precisions is rounded once."""
    half = _half_of(input, other) if type(alpha) is float else None
    if half is None:
        return binary(op, input, _scaled(op.name, input, other, alpha))
    operand, scaled = [
        cast(x, half.compute) if isinstance(x, Handle) else narrowed(x, half)
        for x in (input, other)
    ]
    return cast(binary(op, operand, scaled * narrowed(alpha, half)), half)


def _half_of(a: Any, b: Any) -> DType | None:
    """The half precision of two tensors, or of a tensor and a number beside it."""
    found = {node_of(x).meta.dtype for x in (a, b) if isinstance(x, Handle)}
    plain = all([isinstance(x, Handle) or type(x) in (int, float) for x in (a, b)])
    dtype = found.pop() if len(found) == 1 and plain else None
    return dtype if dtype is not None and dtype is not dtype.compute else None


def _scaled(name: str, input: Operand, other: Operand, alpha: float) -> Operand:
    """`alpha * other` in the dtype of the result, of which `alpha` must be a number."""
    if type(alpha) is float and _are_floats_alike(input, other) and -_SMALL < alpha < _SMALL:
        return binary(MUL, other, alpha)
    operands = (input, other)
    for x in (*operands, alpha):
        if not isinstance(x, OPERANDS):
            raise TypeError(f"{name}(): expected tensors or numbers, but got {type(x).__name__}")
    if name == "sub" and any([_dtype_of(x) is dtypes.bool_ for x in operands]):
        return other  # which `sub` refuses
    dtype = dtypes.result_dtype(tuple([(_dtype_of(x), _rank_of(x)) for x in operands]))
    if isinstance(alpha, bool) and dtype is not dtypes.bool_:
        raise RuntimeError(f"{name}: Boolean alpha only supported for Boolean results; got {alpha}")
    if isinstance(alpha, float) and dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{name}: for integral input tensors, argument alpha must not be a floating point "
            f"number; got alpha {alpha}. Convert the tensors with .float() first"
        )
    if isinstance(alpha, complex) and not dtype.is_complex:
        raise RuntimeError(
            f"{name}: for non-complex input tensors, argument alpha must not be a complex number; "
            f"got alpha {alpha}"
        )
    number: Any = number_for(name, alpha, dtype)
    if isinstance(other, Handle):
        return mul(cast(other, dtype), number)
    return bool(other * number) if dtype is dtypes.bool_ else other * number


# What all floats hold.
_SMALL = 65504.0


@hot
def _are_floats_alike(a: Any, b: Any) -> bool:
    """Whether both are tensors of one dtype, a real one."""
    if not isinstance(a, Handle) or not isinstance(b, Handle):
        return False
    dtype = node_of(a).meta.dtype
    return dtype is node_of(b).meta.dtype and dtype.category == dtypes.FLOAT


def _dtype_of(x: Any) -> DType:
    if isinstance(x, Handle):
        return node_of(x).meta.dtype
    if not isinstance(x, NUMBERS):
        raise wrong_class(x, "Tensor")
    return dtypes.scalar_dtype(type(x))


def _rank_of(x: Any) -> int:
    """How much an operand has to say about the dtype: tensors with dims most, numbers least."""
    if not isinstance(x, Handle):
        return 0
    return 2 if node_of(x).meta.ndim else 1


@casting
@plain
def mul(input: Operand, other: Operand) -> Tensor:
    """Elementwise product.

    Args:
        input: a tensor.
        other: a tensor that broadcasts with it, or a number.

    Example:
        >>> lg.mul(lg.tensor([[1], [2]]), lg.tensor([10, 20]))
        tensor([[10, 20],
                [20, 40]])
    """
    return binary(MUL, input, other)


@casting
@plain
def div(input: Operand, other: Operand) -> Tensor:
    """Elementwise quotient; integers give the default float."""
    return binary(DIV, input, other)


# ------------------------------------------------------------------------------------------ signs

NEG = define(
    "neg",
    ref=np.negative,
    emit=lambda e, x: e.neg(x),
    grads=(lambda g, y, x: neg(g),),
    result="arithmetic",
    cheap=True,
    saves="",
    complex=True,
    samples=s.unary(),
)
ABS = define(
    "abs",
    ref=np.abs,
    emit=lambda e, x: e.abs(x),
    grads=(lambda g, y, x: mul(g, sgn(x)),),
    layout=lambda metas, attrs, meta: (  # PyTorch makes room for magnitudes as for a copy
        as_first if metas[0].dtype.is_complex else as_iterated
    )(metas, attrs, meta),
    result="magnitude",
    cheap=True,
    saves="x",
    complex=True,
    samples=s.unary(),
)
SIGN = define(
    "sign",
    # NaN gives 0, as in PyTorch.
    ref=lambda x: (x > 0).astype(np.int8) - (x < 0).astype(np.int8),
    emit=lambda e, x: e.select(e.gt(x, 0), 1, e.select(e.lt(x, 0), e.const(-1), 0)),
    grads=(zero_gradient,),
    cheap=True,
    saves="",
    samples=s.unary(smooth=False),
)


@exact
@plain
def neg(input: Tensor) -> Tensor:
    """Elementwise `-input`.

    Example:
        >>> lg.neg(lg.tensor([1, -2]))
        tensor([-1,  2])
    """
    return unary(NEG, input)


def positive(input: Tensor) -> Tensor:
    """`input` itself, which must not be of bools."""
    if node_of(input).meta.dtype is dtypes.bool_:
        raise RuntimeError("positive: the `+` operator, on a bool tensor is not supported")
    return input


@sizes
@plain
def abs(input: Tensor) -> Tensor:
    """Elementwise magnitude; its gradient at 0 is 0.

    Example:
        >>> lg.abs(lg.tensor([-2, 3]))
        tensor([2, 3])
    """
    return unary(ABS, input)


@exact
@plain
def sign(input: Tensor) -> Tensor:
    """Elementwise -1, 0 or 1 by the sign of `input`.

    Example:
        >>> lg.sign(lg.tensor([-3.0, 0.0, 2.0]))
        tensor([-1.,  0.,  1.])
    """
    return unary(SIGN, input)


@exact
def sgn(input: Tensor) -> Tensor:
    """The sign of real elements; complex ones divided by their magnitude, 0 for 0."""
    if not node_of(input).meta.dtype.is_complex:
        return unary(SIGN, input)
    return record(REGISTRY["sgn"], (input,))


# ------------------------------------------------------------------------- combinations of three


def _lerp(a: Array, b: Array, w: Array) -> Array:
    return np.where(np.abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w))


def _emit_lerp(e: Any, a: Any, b: Any, w: Any) -> Any:
    way = e.sub(b, a)
    near = e.add(a, e.mul(w, way))
    far = e.sub(b, e.mul(way, e.sub(1, w)))
    return e.select(e.lt(e.abs(w), 0.5), near, far)


LERP = define(
    "lerp",
    ref=_lerp,
    emit=_emit_lerp,
    grads=(
        lambda g, y, a, b, w: mul(g, one_minus(conj(as_operand(w, g)))),
        lambda g, y, a, b, w: mul(g, conj(w)),
        lambda g, y, a, b, w: mul(g, conj(sub(b, a))),
    ),
    result="floating",
    cheap=True,
    saves="x",
    complex=True,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4), s.uniform(4, seed=1), s.uniform(3, 1, seed=2))),
        lambda: s.Sample((s.uniform(5), s.uniform(5, seed=1), 0.75)),
    ),
)
ADDCMUL = define(
    "addcmul",
    ref=lambda x, a, b, value: x + value * a * b,
    emit=lambda e, x, a, b, value: e.add(x, e.mul(e.mul(a, value), b)),
    grads=(
        lambda g, y, x, a, b, value: g,
        lambda g, y, x, a, b, value: mul(mul(g, conj(value)), conj(b)),
        lambda g, y, x, a, b, value: mul(mul(g, conj(value)), conj(a)),
        None,
    ),
    cheap=True,
    saves="x",
    complex=True,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4), s.uniform(4, seed=1), s.uniform(3, 1, seed=2), 0.5)),
        lambda: s.Sample((s.uniform(), s.uniform(5, seed=1), s.uniform(5, seed=2), 2.0)),
    ),
)
ADDCDIV = define(
    "addcdiv",
    ref=lambda x, a, b, value: x + value * a / b,
    emit=lambda e, x, a, b, value: e.add(x, e.div(e.mul(a, value), b)),
    grads=(
        lambda g, y, x, a, b, value: g,
        lambda g, y, x, a, b, value: div(mul(g, conj(value)), conj(b)),
        lambda g, y, x, a, b, value: neg(div(mul(mul(g, conj(value)), conj(a)), conj(mul(b, b)))),
        None,
    ),
    result="floating",
    saves="x",
    complex=True,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4), s.uniform(4, seed=1), s.uniform(3, 1, low=0.5, high=2.0), 0.5)
        ),
    ),
)
WHERE = define(
    "where",
    ref=np.where,
    emit=lambda e, c, a, b: e.select(c, a, b),
    grads=(
        None,
        lambda g, y, c, a, b: where(c, g, 0),
        lambda g, y, c, a, b: where(c, 0, g),
    ),
    result="select",
    cheap=True,
    saves="x",
    complex=True,
    layout=with_numbers,
    grad_fn=parts.where,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4) > 0, s.uniform(3, 4), s.uniform(4, seed=2))),
        lambda: s.Sample((np.array(True), s.uniform(5), 2.0)),
    ),
)


def _check_lerp(name: str, x: Tensor, dtype: DType) -> None:
    given = node_of(x).meta.dtype
    if given is not dtype:
        raise RuntimeError(
            f"lerp: expected dtype {dtype.name} for `{name}` but got dtype {given.name}"
        )


@casting
def lerp(input: Tensor, end: Tensor, weight: Tensor | float) -> Tensor:
    """Elementwise `input + weight * (end - input)`.

    Args:
        input: where it begins.
        end: where it goes.
        weight: how far: a number, or a tensor.

    Example:
        >>> lg.lerp(lg.tensor([0.0, 10.0]), lg.tensor([1.0, 20.0]), 0.5)
        tensor([ 0.5000, 15.0000])
    """
    dtype = node_of(input).meta.dtype
    _check_lerp("end", end, dtype)
    if isinstance(weight, Handle) and node_of(weight).meta.ndim:
        _check_lerp("weight", weight, dtype)
    return elementwise(LERP, (input, end, weight))


def _value_for(name: str, tensors: tuple[Tensor, ...], value: Any) -> Any:
    """A factor as a number of the dtype of the result, which it has no say in."""
    if type(value) not in (bool, int, float, complex):
        return value
    dtype = dtypes.result_dtype(tuple([(_dtype_of(x), _rank_of(x)) for x in tensors]))
    if dtype is dtypes.bool_:
        raise not_implemented(f"{name}_cpu_out", dtype)
    return number_for(name, value, dtype)


@casting
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, old: Any = None, *, value: float = 1
) -> Tensor:
    """Elementwise `input + value * tensor1 * tensor2`."""
    if old is not None:
        return in_new_order(addcmul, (input, tensor1, tensor2, old), 3, "value")
    value = _value_for("addcmul", (input, tensor1, tensor2), value)
    return elementwise(ADDCMUL, (input, tensor1, tensor2, value))


@casting
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, old: Any = None, *, value: float = 1
) -> Tensor:
    """Elementwise `input + value * tensor1 / tensor2`."""
    if old is not None:
        return in_new_order(addcdiv, (input, tensor1, tensor2, old), 3, "value")
    if all([_dtype_of(x).category < dtypes.FLOAT for x in (tensor1, tensor2)]):
        raise RuntimeError(
            "addcdiv: Integer division with addcdiv is no longer supported. Use true_divide, or "
            "convert the tensors with .float() first"
        )
    value = _value_for("addcdiv", (input, tensor1, tensor2), value)
    return elementwise(ADDCDIV, (input, tensor1, tensor2, value))


def where(condition: Tensor, input: Operand, other: Operand) -> Tensor:
    """Elementwise `input` where `condition` holds, else `other`."""
    return elementwise(WHERE, (condition, input, other))


# ----------------------------------------------------------------------------------- copies, casts

CLONE = define(
    "clone",
    ref=np.array,
    emit=lambda e, x: x,
    grads=(lambda g, y, x: g,),
    layout=as_first,
    lower=lowered_by("elementwise.Conversion"),
    cheap=True,
    saves="",
    complex=True,
    samples=s.unary(),
)
# Computed in the dtype of its input; like every result it is converted to the dtype of its meta
# afterwards, and that is all a cast does. attrs (source dtype, "t", target dtype).
CAST = define(
    "cast",
    ref=lambda x: x,
    emit=lambda e, x: x,
    grads=(lambda g, y, x: g,),  # backward casts to the operand's dtype by itself
    layout=as_first,
    lower=lowered_by("elementwise.Conversion"),
    cheap=True,
    saves="",
    complex=True,
    grad_fn="ToCopyBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5),), lambda x: cast(x, dtypes.float64)),
        lambda: s.Sample((s.uniform(3, 5),), lambda x: cast(x, dtypes.float16), smooth=False),
        lambda: s.Sample((9 * s.uniform(5),), lambda x: cast(x, dtypes.int32), smooth=False),
        lambda: s.Sample((s.integers(5),), lambda x: cast(x, dtypes.bool_), smooth=False),
    ),
)


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy that the graph can tell from `input`.

    Args:
        memory_format: how the copy lies in memory.

    Example:
        >>> x = lg.zeros(2)
        >>> y = x.clone()
        >>> y += 1
        >>> x
        tensor([0., 0.])
    """
    out = unary(CLONE, input)
    if memory_format is None:
        return out
    return in_format(out, memory_format)


def cast(input: Tensor, dtype: DType) -> Tensor:
    """`input` converted to `dtype` (`.to(dtype)`); the same tensor if it has that dtype."""
    if node_of(input).meta.dtype is dtype:
        return input
    return _record_cast(input, dtype)


def fitted(value: Tensor, meta: Meta) -> Tensor:
    """`value` to be written to a tensor of `meta`: of the same shape, and cast to its dtype."""
    new = node_of(value).meta
    if new.shape != meta.shape:
        raise RuntimeError(
            f"output with shape {list(meta.shape)} doesn't match the broadcast shape "
            f"{list(new.shape)}"
        )
    if new.dtype.category > meta.dtype.category:
        raise RuntimeError(
            f"result type {new.dtype.name} can't be cast to the desired output type "
            f"{meta.dtype.name}"
        )
    return cast(value, meta.dtype)


def _cast_spec(key: tuple[Meta, DType]) -> Spec:
    meta, dtype = key
    plain = CAST.cache.get((meta.plain, dtype))
    if plain is None:
        made = meta_of(meta.shape, dtype)
        plain = CAST.remember((meta.plain, dtype), (meta.dtype, "t", dtype), (meta.plain,), made)
    return plain if meta.strides is None else CAST.remember_laid_out(key, plain, (meta,))


def _record_cast(x: Tensor, dtype: DType) -> Tensor:
    # A recording function like `unary`: `append` looks for the user's line past two callers.
    node = x._node
    key = (node.meta, dtype)
    try:
        spec = CAST.cache.get(key)
    except TypeError:  # no hash: no dtype either, as `as_dtype` will say
        spec = None
    if spec is None:
        if type(dtype) is not DType:
            return cast(x, dtypes.as_dtype(dtype))
        if node.meta.device is not CPU:
            with elsewhere.sizes_on(node.meta.device):
                spec = _cast_spec((elsewhere.twin(node.meta), dtype))
            return elsewhere.recorded(spec, (node,), (), node.grad_to, node.meta.device)
        spec = _cast_spec(key)
    flows = node.grad_to is not None and dtype.category >= dtypes.FLOAT
    return append(spec, (node,), (), True if flows else None)


# PyTorch's other names.
absolute = abs
multiply = mul
negative = neg
subtract = sub
true_divide = div
