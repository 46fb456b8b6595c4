"""Functions of each element for itself: they are those of the packed values."""

from __future__ import annotations

from typing import Any

from livegrad.nested.tensor import ANSWERS, STRIDED_ANSWERS, Nested, NestedTensor, plain, short_name
from livegrad.tensor import Tensor

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

# Each element for itself; other arguments are options.
UNARY = """
    abs absolute acos acosh alpha_dropout angle arccos arccosh arcsin arcsinh arctan arctanh asin
    asinh atan atanh bernoulli bfloat16 bitwise_not bool byte ceil celu char clip clone conj
    conj_physical contiguous cos cosh cpu deg2rad detach digamma double dropout elu empty_like erf
    erfc erfinv exp exp2 expm1 fix float floor frac full_like gelu half hardshrink hardsigmoid
    hardswish hardtanh i0 int isfinite isinf isnan isneginf isposinf isreal leaky_relu lgamma log
    log10 log1p log2 logical_not logit logsigmoid long mish nan_to_num neg negative ones_like
    positive rad2deg rand_like randint_like randn_like reciprocal relu relu6 requires_grad_ round
    rrelu rsqrt selu sgn short sigmoid sign signbit silu sin sinc sinh softplus softshrink softsign
    sqrt square tan tanh tanhshrink threshold to to_dense trunc type type_as zeros_like
    __invert__ __neg__ __abs__ __pos__ feature_alpha_dropout data fill fill_ zero_ normal_ uniform_
    bernoulli_ random_ exponential_ cuda xpu pin_memory view_as_real
""".split()
# Of two or three operands, which are nested alike, or dense and broadcast.
BINARY = """
    add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow float_power
    maximum minimum fmax fmin atan2 arctan2 hypot copysign nextafter logaddexp logaddexp2 xlogy
    eq ne lt le gt ge equal not_equal less less_equal greater greater_equal isclose
    logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift heaviside where masked_fill addcmul addcdiv lerp clamp
    clamp_min clamp_max rsub prelu copy_ mse_loss smooth_l1_loss l1_loss huber_loss
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__
    __rfloordiv__ __pow__ __rpow__ __mod__ __rmod__ __and__ __or__ __xor__ __rand__ __ror__ __rxor__
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __iadd__ __isub__ __imul__ __itruediv__ __ipow__
    __iand__ __ior__ __ixor__ __rdiv__ __lshift__ __rshift__
""".split()
_LOSSES = ("mse_loss", "smooth_l1_loss", "l1_loss", "huber_loss")


def _unary(func: Any, args: Args, kwargs: Kwargs) -> Any:
    first = _first(args, kwargs)
    if kwargs.get("out") is not None:
        raise ValueError(f"{short_name(func)}(): out= is not supported for nested tensors")
    args, kwargs = _mapped(args, kwargs, plain)
    return first._like(func(*args, **kwargs))


def _first(args: Args, kwargs: Kwargs) -> Any:
    for x in (*args, *kwargs.values()):
        if isinstance(x, Nested):
            return x
    raise AssertionError("no argument is nested")


def _mapped(args: Args, kwargs: Kwargs, change: Any) -> tuple[Args, Kwargs]:
    def new(x: Any) -> Any:
        return change(x) if isinstance(x, Nested) else x

    return tuple([new(x) for x in args]), {k: new(v) for k, v in kwargs.items()}


def in_place(answer: Any) -> Any:
    """The answer of a function that changes its first argument, and returns it."""

    def run(func: Any, args: Args, kwargs: Kwargs) -> Any:
        answer(func, args, kwargs)
        return args[0]

    return run


def _binary(func: Any, args: Args, kwargs: Kwargs) -> Any:
    first = _first(args, kwargs)
    name = short_name(func)

    def operand(x: Any) -> Any:
        return _operand(name, first, x)

    given = tuple([operand(x) for x in args]), {k: operand(v) for k, v in kwargs.items()}
    result = func(*given[0], **given[1])
    if result.ndim != plain(first).ndim:  # a loss that was reduced
        return result
    return first._like(result)


def _operand(name: str, first: NestedTensor, x: Any) -> Any:
    """The values of an operand that go with those of `first`, element by element."""
    if not isinstance(x, Tensor):
        return x
    if isinstance(x, Nested):
        _check_alike(name, first, x)
        return plain(x)
    return dense_operand(name, first, x)


def _check_alike(name: str, first: Any, other: Any) -> None:
    alike = isinstance(other, NestedTensor) and isinstance(first, NestedTensor)
    if alike:
        alike = first._ragged is other._ragged and first._ragged_idx == other._ragged_idx
        alike = alike and first.ndim == other.ndim
    if not alike:
        raise RuntimeError(
            f"cannot call binary pointwise function {name} with inputs of shapes "
            f"{first._shape()} and {other._shape()}"
        )


def dense_operand(name: str, first: NestedTensor, x: Any) -> Any:
    """A dense operand, which is broadcast, as a tensor that goes with the values of `first`."""
    ndim, ragged, at = first.ndim, first._ragged, first._ragged_idx
    if x.ndim > ndim:
        raise RuntimeError(
            f"cannot call binary pointwise function {name} with inputs of shapes "
            f"{first._shape()} and {tuple(x.shape)}"
        )
    if x.ndim < ndim - at:
        return x
    x = x.reshape(*[1] * (ndim - x.ndim), *x.shape)
    if x.shape[0] == 1 and x.shape[at] == 1:
        return x[0]
    if x.shape[0] not in (1, ragged.batch) or ragged.lengths is not None:
        raise RuntimeError(
            f"cannot call binary pointwise function {name} with inputs of shapes "
            f"{first._shape()} and {tuple(x.shape)}"
        )
    total = plain(first).shape[at - 1]
    component, place = ragged.place_of_each(total)
    if x.shape[0] == 1:
        component = component * 0
    if x.shape[at] == 1:
        rows = x.squeeze(at)[component]
    else:
        if x.shape[at] < ragged.longest:
            raise RuntimeError(
                f"cannot call binary pointwise function {name} with inputs of shapes "
                f"{first._shape()} and {tuple(x.shape)}"
            )
        rows = x.movedim(at, 1)[component, place]
    return rows.movedim(0, at - 1)


def _strided_binary(func: Any, args: Args, kwargs: Kwargs) -> Any:
    first = _first(args, kwargs)
    name = short_name(func)
    for x in args:
        if isinstance(x, Nested) and getattr(x, "_sizes", None) != first._sizes:
            raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")
        if isinstance(x, Tensor) and not isinstance(x, Nested) and x.ndim:
            raise RuntimeError(
                f"{name}: Expected both self and other to be nested, but got a nested self and "
                "non-nested other"
            )
    args, kwargs = _mapped(args, kwargs, plain)
    result = func(*args, **kwargs)
    return first._like(result) if result.ndim else result


def _grad(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """`autograd.grad`: gradients of nested tensors are nested."""
    inputs = kwargs.get("inputs", args[1] if len(args) > 1 else ())
    inputs = inputs if isinstance(inputs, tuple | list) else (inputs,)
    found = func(*args, **kwargs)
    pairs = zip(inputs, found, strict=True)
    return tuple([x._like(g) if isinstance(x, Nested) and g is not None else g for x, g in pairs])


for _name in UNARY:
    _rule = in_place(_unary) if _name.endswith("_") and not _name.startswith("__") else _unary
    ANSWERS[_name] = STRIDED_ANSWERS[_name] = _rule
    ANSWERS.setdefault(f"{_name}_", in_place(_unary))
    STRIDED_ANSWERS.setdefault(f"{_name}_", in_place(_unary))
for _name in BINARY:
    _changes = (_name.endswith("_") and not _name.startswith("__")) or _name.startswith("__i")
    ANSWERS[_name] = in_place(_binary) if _changes else _binary
    STRIDED_ANSWERS[_name] = in_place(_strided_binary) if _changes else _strided_binary
    if not _name.startswith("__"):
        ANSWERS.setdefault(f"{_name}_", in_place(_binary))
        STRIDED_ANSWERS.setdefault(f"{_name}_", in_place(_strided_binary))
for _table in (ANSWERS, STRIDED_ANSWERS):
    _table["grad"] = _grad
    # It is the tensor itself that is made to require a gradient.
    for _name in ("requires_grad_", "type"):
        _table.pop(_name, None)
