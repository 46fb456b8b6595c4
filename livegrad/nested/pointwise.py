"""Functions of each element for itself: they are those of the packed values."""

from __future__ import annotations

from typing import Any

from livegrad.nested.tensor import ANSWERS, STRIDED_ANSWERS, Nested, NestedTensor, plain, short_name
from livegrad.overrides.pointwise import BINARY, UNARY
from livegrad.tensor import Tensor

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


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
