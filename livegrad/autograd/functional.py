"""Jacobians, Hessians and their products with vectors, row by row from reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.autograd.backward import grad
from livegrad.autograd.modes import enable_grad
from livegrad.graph.handle import Handle, node_of
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.generate import filled
from livegrad.ops.shaping.joining import stack

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Function = Callable[..., Any]


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs of `func`, and `v` times its Jacobian; `v` may be left out for a scalar."""
    with enable_grad():
        xs = _fresh(inputs, create_graph)
        out = func(*xs)
        ys = _tuple(out)
        vs = None if v is None else _like(v, ys, "v")
        found = _gradients(ys, xs, vs, create_graph, strict)
    return _results(out, create_graph), _as(inputs, found)


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs of `func`, and its Jacobian times `v`, by differentiating a vector product."""
    with enable_grad():
        xs = _fresh(inputs, create_graph)
        out = func(*xs)
        ys = _tuple(out)
        vs = [_ones(x) for x in xs] if v is None else _like(v, xs, "v")
        if v is None and (len(xs) > 1 or node_of(xs[0]).meta.numel != 1):
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a "
                "single Tensor with a single element."
            )
        weights = [_zeros(y).requires_grad_() for y in ys]
        first = _gradients(ys, xs, weights, True, strict)
        found = _gradients(first, weights, vs, create_graph, strict)
    return _results(out, create_graph), _as(out, found)


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: for each output and input, a tensor of shape (*output, *input).

    Args:
        vectorize: compute all rows at once (by `livegrad.vmap`) instead of one after the other.
        strategy: "reverse-mode", or "forward-mode": all columns at once, if `vectorize`.
    """
    _check_strategy("jacobian", strategy, create_graph, strict, vectorize)
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs)
    with enable_grad():
        xs = _fresh(inputs, create_graph)
        out = func(*xs)
        rows = _rows_at_once if vectorize else _rows
        blocks = [rows(y, xs, create_graph, strict) for y in _tuple(out)]
    if not create_graph:  # no views, as in PyTorch
        blocks = [[g.detach() for g in block] for block in blocks]
    parts = [_as(inputs, block) for block in blocks]
    return parts[0] if isinstance(out, Handle) else tuple(parts)


def _check_strategy(
    name: str, strategy: str, create_graph: bool, strict: bool, vectorize: bool
) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(
            f"{name}: got strategy={strategy!r}; expected 'reverse-mode', or 'forward-mode' for "
            "functions with more outputs than inputs"
        )
    if strict and vectorize:
        raise RuntimeError(
            f"{name}: got strict=True and vectorize=True; rows that are computed at once cannot be "
            "checked one by one. Leave one out"
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                f"{name}: got create_graph=True and strategy='forward-mode'; expected "
                "'reverse-mode'. livegrad.func.jacfwd is differentiable"
            )
        if not vectorize:
            raise NotImplementedError(
                f"{name}: got strategy='forward-mode' and vectorize=False; expected "
                "vectorize=True: columns are computed at once"
            )


def _forward_jacobian(func: Function, inputs: Any) -> Any:
    from livegrad.func import jacfwd

    alone = isinstance(inputs, Handle)
    xs = [x.detach() for x in _tuple(inputs)]
    return jacfwd(func, 0 if alone else tuple(range(len(xs))))(*xs)


def _rows(y: Tensor, xs: list[Tensor], create_graph: bool, strict: bool) -> list[Tensor]:
    """Jacobian of one output for each input, row by row."""
    count = node_of(y).meta.numel
    units = np.eye(count).reshape(count, *y.shape)
    rows = [
        _gradients([y], xs, [from_array(unit, y.dtype)], create_graph, strict, True)
        for unit in units
    ]
    return [
        stack([row[i] for row in rows]).reshape(*y.shape, *x.shape)
        if count
        else filled((*y.shape, *x.shape), 0, x.dtype)
        for i, x in enumerate(xs)
    ]


def _rows_at_once(y: Tensor, xs: list[Tensor], create_graph: bool, strict: bool) -> list[Tensor]:
    """The same, all rows at once."""
    from livegrad.func import vmap

    count = node_of(y).meta.numel
    if not count or node_of(y).grad_to is None:
        return [filled((*y.shape, *x.shape), 0, x.dtype) for x in xs]
    units = from_array(np.eye(count).reshape(count, *y.shape), y.dtype)

    def row(unit: Tensor) -> tuple[Tensor, ...]:
        return tuple(_gradients([y], xs, [unit], create_graph, strict, True))

    found = vmap(row)(units)
    return [g.reshape(*y.shape, *x.shape) for g, x in zip(found, xs, strict=True)]


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Second derivatives of a scalar function: for inputs i, j a tensor of shape (*i, *j).

    `vectorize` and `outer_jacobian_strategy` are those of the Jacobian of the gradient.
    """

    def gradient(*xs: Tensor) -> Any:
        y = _scalar(func(*xs))
        found = _gradients([y], list(xs), None, True, strict)
        return found[0] if isinstance(inputs, Handle) else tuple(found)

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a scalar function, and `v` times its Hessian."""
    with enable_grad():
        xs = _fresh(inputs, create_graph)
        out = func(*xs)
        first = _gradients([_scalar(out)], xs, None, True, strict)
        vs = [_ones(x) for x in xs] if v is None else _like(v, xs, "v")
        found = _gradients(first, xs, vs, create_graph, strict)
    return _results(out, create_graph), _as(inputs, found)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a scalar function, and its Hessian, which is symmetric, times `v`."""
    return vhp(func, inputs, v, create_graph, strict)


def _gradients(
    ys: Any,
    xs: list[Tensor],
    vs: Any,
    create_graph: bool,
    strict: bool,
    retain: bool = False,
) -> list[Tensor]:
    """Gradients with zeros for what took no part, or an error if `strict`."""
    used = [i for i, y in enumerate(ys) if node_of(y).grad_to is not None]
    found: Any = [None] * len(xs)
    if used:
        weights = None if vs is None else [vs[i] for i in used]
        found = grad(
            [ys[i] for i in used], xs, weights, retain or create_graph, create_graph,
            allow_unused=True,
        )  # fmt: skip
    if strict and any(g is None for g in found):
        raise RuntimeError("The output of the user-provided function is independent of an input.")
    return [_zeros(x) if g is None else g for g, x in zip(found, xs, strict=True)]


def _fresh(inputs: Any, create_graph: bool) -> list[Tensor]:
    """The inputs as tensors to differentiate for, connected to the originals if wanted."""
    return [
        ew.clone(x)
        if create_graph and node_of(x).grad_to is not None
        else x.detach().clone().requires_grad_()
        for x in _tuple(inputs)
    ]


def _like(v: Any, tensors: Any, name: str) -> list[Tensor]:
    vectors = list(_tuple(v))
    if len(vectors) != len(tensors):
        raise RuntimeError(f"{name} has {len(vectors)} elements; expected {len(tensors)}")
    for a, b in zip(vectors, tensors, strict=True):
        if tuple(a.shape) != tuple(b.shape):
            raise RuntimeError(
                f"{name} has invalid size: should be {list(b.shape)} but got {list(a.shape)}"
            )
    return vectors


def _scalar(y: Any) -> Tensor:
    if not isinstance(y, Handle) or node_of(y).meta.numel != 1:
        raise RuntimeError(
            "The Tensor returned by the function given to hessian should contain a single element"
        )
    return y.reshape(())


def _results(out: Any, create_graph: bool) -> Any:
    if create_graph:
        return out
    return out.detach() if isinstance(out, Handle) else tuple([y.detach() for y in out])


def _as(like: Any, found: list[Tensor]) -> Any:
    return found[0] if isinstance(like, Handle) else tuple(found)


def _ones(x: Tensor) -> Tensor:
    return filled(node_of(x).meta.shape, 1, x.dtype)


def _zeros(x: Tensor) -> Tensor:
    return filled(node_of(x).meta.shape, 0, x.dtype)


def _tuple(x: Any) -> tuple[Any, ...]:
    return (x,) if isinstance(x, Handle) else tuple(x)
