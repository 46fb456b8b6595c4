"""Checks of gradients against finite differences.

Complex values count as pairs of reals here: a weight of 1 on an output gives the gradient of its
real part, a weight of 1j that of its imaginary part.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.autograd.backward import grad
from livegrad.autograd.forward_ad import dual_level, make_dual, unpack_dual
from livegrad.autograd.modes import no_grad
from livegrad.dtypes import FLOAT, float64
from livegrad.graph.handle import Handle, node_of
from livegrad.ops.making.constants import from_array

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Jacobians = dict[int, list[Array]]  # by input, for each output
Way = Callable[..., Jacobians]  # func, args, the inputs that are asked for, outputs


class GradcheckError(RuntimeError):
    """A gradient differs from its finite difference."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` at `inputs` agree with central differences.

    Every entry of the Jacobian must satisfy |analytical - numerical| <= atol + rtol * |numerical|.
    Inputs that require gradients should be float64 or complex128. Forward mode is checked if
    `check_forward_ad` says so, reverse mode unless `check_backward_ad` says no. The other options
    after `raise_exception` are accepted for PyTorch's sake and change nothing.
    """
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad and check_backward_ad to be True"
        )
    try:
        _check_inputs(args)
        ways = [_pushed] * check_forward_ad + [_pulled] * check_backward_ad
        _check_first_order(func, args, ways, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second gradients of `func` at `inputs` agree with central differences.

    The first gradients, weighed by `grad_outputs` (random by default), are differentiated with
    respect to the inputs and to the weights. The options after `raise_exception` are accepted for
    PyTorch's sake and change nothing.
    """
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    outputs = _float_outputs(func(*args))
    weights = _weights(outputs) if grad_outputs is None else _tuple(grad_outputs)
    count = len(args)

    def first_gradients(*both: Tensor) -> tuple[Tensor, ...]:
        xs, vs = both[:count], both[count:]
        wanted = [x for x in xs if _requires_grad(x)]
        ys = _float_outputs(func(*xs))
        pairs = [(y, v) for y, v in zip(ys, vs, strict=True) if _requires_grad(y)]
        found = grad(
            [y for y, _ in pairs], wanted, [v for _, v in pairs], create_graph=True,
            allow_unused=True,
        )  # fmt: skip
        return tuple([g for g in found if g is not None and _requires_grad(g)])

    return gradcheck(
        first_gradients, (*args, *weights), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception,
    )  # fmt: skip


def _check_inputs(args: tuple[Any, ...]) -> None:
    checked = [x for x in args if _requires_grad(x)]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them "
            "have requires_grad=True."
        )
    if any(x.dtype.to_real() is not float64 for x in checked):
        warnings.warn(
            "gradcheck: an input that requires gradient is not a double precision floating point; "
            "this check will likely fail. Use dtype=livegrad.float64",
            stacklevel=4,
        )


def _check_first_order(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    ways: list[Way],
    eps: float,
    atol: float,
    rtol: float,
) -> None:
    """Compares the Jacobians that each of the `ways` gives with central differences."""
    outputs = _float_outputs(func(*args))
    if not any(_requires_grad(y) for y in outputs):
        _check_flat(func, args, outputs, eps, atol, rtol)
        return
    wanted = [i for i, x in enumerate(args) if _requires_grad(x)]
    numerical = {i: _numerical(func, args, i, outputs, eps) for i in wanted}
    for way in ways:
        analytical = way(func, args, wanted, outputs)
        for o, y in enumerate(outputs):
            for i in wanted:
                shapes = _real_shape(args[i]), _real_shape(y)
                _compare(analytical[i][o], numerical[i][o], *shapes, (o, i), way, atol, rtol)


def _check_flat(
    func: Callable[..., Any], args: tuple[Any, ...], outputs: list[Tensor], *bounds: float
) -> None:
    """An output that claims to depend on nothing must not change."""
    eps, atol, _ = bounds
    for i, x in enumerate(args):
        if not _requires_grad(x):
            continue
        for o, slopes in enumerate(_numerical(func, args, i, outputs, eps)):
            if np.abs(slopes).max(initial=0.0) > atol:
                raise GradcheckError(
                    f"gradcheck: output {o} does not require grad, but it changes with input {i}"
                )


def _pulled(
    func: Callable[..., Any], args: tuple[Any, ...], wanted: list[int], outputs: list[Tensor]
) -> Jacobians:
    """Jacobians by reverse mode, for each input one per output."""
    rows = [_analytical(y, [args[i] for i in wanted]) for y in outputs]
    return {i: [row[k] for row in rows] for k, i in enumerate(wanted)}


def _pushed(
    func: Callable[..., Any], args: tuple[Any, ...], wanted: list[int], outputs: list[Tensor]
) -> Jacobians:
    """Jacobians by forward mode, for each input one per output."""
    found = {i: [np.zeros((_count(args[i]), _count(y))) for y in outputs] for i in wanted}
    for i in wanted:
        for index in range(_count(args[i])):
            unit = np.zeros(tuple(args[i].shape), args[i].dtype.storage)
            _reals(unit)[index] = 1.0
            fresh = [_copy(x) for x in args]
            with dual_level():
                fresh[i] = make_dual(fresh[i], from_array(unit, args[i].dtype))
                for o, y in enumerate(_float_outputs(func(*fresh))):
                    tangent = unpack_dual(y).tangent
                    if tangent is not None:
                        found[i][o][index] = _reals(_array(tangent))
    return found


def _analytical(y: Tensor, inputs: list[Tensor]) -> list[Array]:
    """Jacobians of `y`, one per input, of shape (entries of the input, entries of y)."""
    count = _count(y)
    columns = [np.zeros((_count(x), count)) for x in inputs]
    if not _requires_grad(y):
        return columns
    for j in range(count):
        unit = np.zeros(tuple(y.shape), y.dtype.storage)
        _reals(unit)[j] = 1.0
        weight = from_array(unit, y.dtype)
        found = grad(y, inputs, weight, retain_graph=True, allow_unused=True)
        for column, g in zip(columns, found, strict=True):
            if g is not None:
                column[:, j] = _reals(_array(g))
    return columns


def _reals(values: Array) -> Array:
    """All numbers of a contiguous array in a row, complex ones as two; writable if the array is."""
    kind = values.real.dtype if values.dtype.kind == "c" else values.dtype
    return values.reshape(-1).view(kind)


def _count(x: Tensor) -> int:
    """How many real numbers a tensor holds."""
    count: int = x.numel() * (2 if x.dtype.is_complex else 1)
    return count


def _real_shape(x: Tensor) -> tuple[int, ...]:
    return (*x.shape, 2) if x.dtype.is_complex else tuple(x.shape)


def _numerical(
    func: Callable[..., Any], args: tuple[Any, ...], i: int, outputs: list[Tensor], eps: float
) -> list[Array]:
    """Jacobians of all outputs for input `i` by central differences."""
    values = _array(args[i])
    found = [np.empty((_count(args[i]), _count(y))) for y in outputs]
    for index in range(_count(args[i])):
        above, below = (
            _outputs_at(func, args, i, _moved(values, index, step)) for step in (eps, -eps)
        )
        for jacobian, high, low in zip(found, above, below, strict=True):
            jacobian[index] = _reals(high - low) / (2 * eps)
    return found


def _moved(values: Array, index: int, step: float) -> Array:
    moved = values.copy()
    _reals(moved)[index] += step
    return moved


def _outputs_at(
    func: Callable[..., Any], args: tuple[Any, ...], i: int, values: Array
) -> list[Array]:
    """The outputs with other values in input `i`."""
    fresh = [_copy(x) for x in args]
    fresh[i] = from_array(values, args[i].dtype).requires_grad_()
    return [_array(y) for y in _float_outputs(func(*fresh))]


def _compare(
    found: Array,
    expected: Array,
    x_shape: tuple[int, ...],
    y_shape: tuple[int, ...],
    which: tuple[int, int],
    way: Way,
    atol: float,
    rtol: float,
) -> None:
    excess = np.abs(found - expected) - (atol + rtol * np.abs(expected))
    excess = np.where(np.isnan(excess) & ~(np.isnan(found) & np.isnan(expected)), np.inf, excess)
    if not excess.size or not (excess > 0).any():
        return
    row, column = np.unravel_index(int(np.nanargmax(excess)), excess.shape)
    x_index = tuple(int(k) for k in np.unravel_index(int(row), tuple(x_shape) or (1,)))
    y_index = tuple(int(k) for k in np.unravel_index(int(column), tuple(y_shape) or (1,)))
    mode = "computed with forward mode " if way is _pushed else ""
    raise GradcheckError(
        f"Jacobian {mode}mismatch for output {which[0]} with respect to input {which[1]}: "
        f"{int((excess > 0).sum())} of {excess.size} entries differ.\n"
        f"Worst: d output{list(y_index)} / d input{list(x_index)}: "
        f"numerical {expected[row, column]:.8g}, analytical {found[row, column]:.8g}.\n"
        f"numerical:\n{expected}\nanalytical:\n{found}\n"
    )


def _float_outputs(result: Any) -> list[Tensor]:
    return [
        y
        for y in _tuple(result)
        if isinstance(y, Handle) and node_of(y).meta.dtype.category >= FLOAT
    ]


def _weights(outputs: list[Tensor]) -> tuple[Tensor, ...]:
    generator = np.random.default_rng(0)
    return tuple([
        from_array(_random(generator, y), y.dtype).requires_grad_() for y in outputs
    ])  # fmt: skip


def _random(generator: np.random.Generator, y: Tensor) -> Array:
    values = generator.uniform(0.5, 1.5, _real_shape(y))
    return values[..., 0] + 1j * values[..., 1] if y.dtype.is_complex else values


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def _requires_grad(x: Any) -> bool:
    return isinstance(x, Handle) and node_of(x).grad_to is not None


def _copy(x: Any) -> Any:
    """A tensor of the same values, so that `func` may write to its arguments."""
    if not _requires_grad(x):
        return x
    return from_array(_array(x), x.dtype).requires_grad_()


def _array(x: Tensor) -> Array:
    with no_grad():
        return np.array(x.detach().numpy())
