"""grad, vjp, jvp and linearize: derivatives of functions as functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad.func import tree
from livegrad.func.levels import Level, is_float
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.state import LOCAL
from livegrad.ops.making.generate import filled_as, made_like, zeros_like

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Function = Callable[..., Any]
ArgNums = int | tuple[int, ...]


# ---------------------------------------------------------------------------- which arguments


def normal_argnums(argnums: Any, count: int) -> ArgNums:
    """The arguments to differentiate for, counted from the front."""
    if isinstance(argnums, int) and not isinstance(argnums, bool):
        return _normal_argnum(argnums, count)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    found = tuple([_normal_argnum(i, count) for i in argnums])
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return found


def _normal_argnum(number: Any, count: int) -> int:
    if not isinstance(number, int):
        raise RuntimeError(f"argnum must be int, got: {type(number)}")
    if not -count <= number < count:
        raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    return number % count


def chosen(args: tuple[Any, ...], argnums: ArgNums) -> Any:
    """The arguments to differentiate for."""
    return args[argnums] if isinstance(argnums, int) else tuple([args[i] for i in argnums])


def replaced(args: tuple[Any, ...], argnums: ArgNums, values: Any) -> list[Any]:
    """All arguments, with others for the chosen ones."""
    full = list(args)
    pairs = [(argnums, values)] if isinstance(argnums, int) else zip(argnums, values, strict=True)
    for i, value in pairs:
        full[i] = value
    return full


def split_aux(name: str, out: Any, has_aux: bool) -> tuple[Any, Any]:
    """The output of a function, and what it returns besides."""
    if not has_aux:
        return out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return out


# ---------------------------------------------------------------------------------------- grad


def grad_and_value(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """The function that gives (gradient, value) of a scalar function `func`.

    With `has_aux`, `func` returns (value, aux) and the result is (gradient, (value, aux)).
    """
    name = "grad_and_value(f)(*args)"

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        wanted = normal_argnums(argnums, len(args))
        with Level() as level:
            variables = level.variables(chosen(args, wanted))
            out = func(*replaced(args, wanted, variables), **kwargs)
            value, aux = split_aux(name, out, has_aux)
            _check_scalar(name, value)
            leaves, shape = tree.flatten(variables)
            one = made_like(filled_as(node_of(value).meta, 1), value)
            found = level.pull([value], [one], level.nodes)
            grads = [zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]
            results = level.released((tree.unflatten(grads, shape), value, aux))
        gradient, value, aux = results
        return (gradient, (value, aux)) if has_aux else (gradient, value)

    return derivative


def grad(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """The function that gives the gradient of a scalar function for its argument `argnums`.

    With `has_aux`, `func` returns (value, aux) and the result is (gradient, aux).
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return derivative


def value_and_grad(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """The function that gives (value, gradient) of a scalar function `func`."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return value, gradient

    return derivative


def _check_scalar(name: str, y: Any) -> None:
    if not isinstance(y, Handle):
        raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {type(y)}")
    ndim = node_of(y).meta.ndim
    if ndim:
        raise RuntimeError(
            f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with {ndim} dims. "
            "Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


# ---------------------------------------------------------------------------------------- vjp


class Pullback:
    """A function at a point, and its vector-Jacobian products there."""

    def __init__(self, func: Function, primals: Any, has_aux: bool, name: str) -> None:
        self.level = Level()
        with self.level as level:
            variables = level.variables(primals)
            self.leaves, self.shape = tree.flatten(variables)
            out, aux = split_aux(name, func(*variables), has_aux)
            self.outputs, self.out_shape = tree.flatten(out)
            _check_tensors(name, self.outputs)
            self.result = level.released(out)
            self.aux = level.released(aux)

    def __call__(self, cotangents: Any) -> Any:
        """The gradients of the primals, built like them, for cotangents built like the output."""
        given, shape = tree.flatten(cotangents)
        if shape != self.out_shape:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {shape}, primal output: {self.out_shape}"
            )
        return tree.unflatten(self.gradients(given), self.shape)

    def gradients(self, cotangents: list[Tensor]) -> list[Tensor]:
        """The gradients of all primals in a row."""
        level = self.level
        level.outer_grad = LOCAL.state.grad
        with level:
            found = level.pull(self.outputs, cotangents, level.nodes)
            pairs = zip(self.leaves, found, strict=True)
            grads = [zeros_like(x) if g is None else g for x, g in pairs]
            return list(level.released(grads))


def _check_tensors(name: str, outputs: list[Any]) -> None:
    if not outputs:
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output (got output = "
            f"{outputs})"
        )
    for y in outputs:
        if not isinstance(y, Handle):
            raise RuntimeError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(y)}"
            )


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """(func(*primals), f) where f(cotangents) are the vector-Jacobian products for the primals.

    With `has_aux`, `func` returns (output, aux), and aux comes third.
    """
    name = "vjp(f, *primals)"
    pullback = Pullback(func, primals, has_aux, name)
    for y in pullback.outputs:
        if not is_float(y):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                f"Tensor with dtype {y.dtype}"
            )

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        return pullback(cotangents)

    return (pullback.result, pull, pullback.aux) if has_aux else (pullback.result, pull)


# ---------------------------------------------------------------------------------------- jvp


class Pushforward:
    """A function at a point, and its Jacobian-vector products there.

    The vector-Jacobian product wᵀJ is linear in w; its own, for a vector t, is J t. What is only
    needed for wᵀJ itself is never computed.
    """

    def __init__(self, func: Function, primals: Any, has_aux: bool, name: str) -> None:
        self.level = Level()
        with self.level as level:
            variables = level.variables(primals)
            self.primals, self.shape = tree.flatten(variables)
            out, aux = split_aux(name, func(*variables), has_aux)
            self.outputs, self.out_shape = tree.flatten(out)
            _check_tensors(name, self.outputs)
            starts = list(level.nodes)
            self.weights = [level.variable(zeros_like(y)) for y in self.outputs]
            self.weight_nodes = level.nodes[len(starts) :]
            self.rows = level.rows(self.outputs, self.weights, starts)
            self.result = level.released(out)
            self.aux = level.released(aux)

    def __call__(self, tangents: list[Tensor]) -> Any:
        """The products, built like the output."""
        return tree.unflatten(self.products(tangents), self.out_shape)

    def products(self, tangents: list[Tensor]) -> list[Tensor]:
        """The products for all outputs in a row."""
        level = self.level
        level.outer_grad = LOCAL.state.grad
        with level:
            pairs = [(r, t) for r, t in zip(self.rows, tangents, strict=True) if r is not None]
            found = level.pull([r for r, _ in pairs], [t for _, t in pairs], self.weight_nodes)
            made = [
                zeros_like(y) if g is None else g for y, g in zip(self.outputs, found, strict=True)
            ]
            return list(level.released(made))

    @property
    def independent(self) -> bool:
        """Whether an output depends on none of the primals."""
        return any(node_of(y).grad_to is None for y in self.outputs)


def jvp(
    func: Function,
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """(func(*primals), the Jacobian there times `tangents`).

    With `has_aux`, `func` returns (output, aux), and aux comes third.
    """
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    flat = checked_tangents(name, primals, tangents)
    forward = Pushforward(func, primals, has_aux, name)
    if strict and forward.independent:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    results = forward.result, forward(flat)
    return (*results, forward.aux) if has_aux else results


def checked_tangents(name: str, primals: Any, tangents: Any) -> list[Tensor]:
    """The tangents in a row; RuntimeError unless they are like the primals."""
    leaves, shape = tree.flatten(primals)
    given, other = tree.flatten(tangents)
    if shape != other:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. Got primals "
            f"with structure {shape} and tangents with structure {other}"
        )
    if not leaves:
        raise RuntimeError(f"{name}: Expected primals to contain at least one Tensor.")
    for what, values in (("primals", leaves), ("tangents", given)):
        for x in values:
            if not isinstance(x, Handle):
                raise RuntimeError(
                    f"{name}: Expected {what} to only contain Tensors, got {type(x)}"
                )
    return given


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """(func(*primals), f) where f(*tangents) is the Jacobian there times the tangents."""
    forward = Pushforward(func, primals, False, "linearize(f, *primals)")

    def push(*tangents: Any) -> Any:
        given, shape = tree.flatten(tangents)
        if shape != forward.shape:
            raise RuntimeError(
                f"Expected the tangents {shape} to have the same argspec as the primals "
                f"{forward.shape}"
            )
        for i, (x, t) in enumerate(zip(forward.primals, given, strict=True)):
            if node_of(x).meta.plain is not node_of(t).meta.plain:
                raise RuntimeError(
                    f"linearize: tangent {i} is {node_of(t).meta}; expected {node_of(x).meta}, "
                    "like the primal"
                )
        return forward(given)

    return forward.result, push
