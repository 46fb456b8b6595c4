"""jacrev, jacfwd and hessian: whole Jacobians, all rows or all columns at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad.func import tree
from livegrad.func.derivatives import (
    ArgNums,
    Function,
    Pullback,
    Pushforward,
    chosen,
    normal_argnums,
    replaced,
)
from livegrad.func.vmap import vmap
from livegrad.graph.handle import node_of
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast
from livegrad.ops.elementwise.comparison import eq
from livegrad.ops.making.generate import counting, filled, made_like
from livegrad.ops.shaping.joining import record_slice
from livegrad.ops.shaping.movement import PERMUTE, reshape_to

if TYPE_CHECKING:
    from livegrad.graph.meta import Shape
    from livegrad.tensor import Tensor


def basis(tensors: list[Tensor]) -> list[Tensor]:
    """For each tensor its part of the unit vectors of all: shape (numbers in all, *its shape)."""
    metas = [node_of(x).meta for x in tensors]
    total = sum([meta.numel for meta in metas])
    row = reshape_to(counting(total), (total, 1))
    found = []
    start = 0
    for x, meta in zip(tensors, metas, strict=True):
        ones = eq(row, add(counting(meta.numel), start))
        units = reshape_to(cast(ones, meta.dtype), (total, *meta.shape))
        found.append(made_like(units, x))
        start += meta.numel
    return found


def pieces(x: Tensor, like: list[Tensor]) -> list[Tensor]:
    """A tensor with one row per number of `like`, cut into a part for each."""
    found = []
    start = 0
    for other in like:
        count = node_of(other).meta.numel
        found.append(record_slice(x, 0, start, count))
        start += count
    return found


def jacrev(
    func: Function,
    argnums: ArgNums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """The function that gives the Jacobian of `func` for its argument `argnums`, by reverse mode.

    Each block has shape (*output, *input). All rows are computed at once; with `chunk_size`, so
    many at a time. With `has_aux`, `func` returns (output, aux) and the result is (Jacobian, aux).
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        wanted = normal_argnums(argnums, len(args))
        primals = chosen(args, wanted)
        pullback = Pullback(
            _of_chosen(func, args, kwargs, wanted), (primals,), has_aux, "jacrev(f)(*args)"
        )
        units = basis(pullback.outputs)

        def rows(*cotangents: Tensor) -> tuple[Tensor, ...]:
            return tuple(pullback.gradients(list(cotangents)))

        found = vmap(rows, chunk_size=chunk_size)(*units) if _rows_of(units) else _no_rows(pullback)
        blocks = [pieces(x, pullback.outputs) for x in found]
        of_outputs = []
        for i, y in enumerate(pullback.outputs):
            shaped = [
                reshape_to(block[i], (*node_of(y).meta.shape, *node_of(x).meta.shape))
                for block, x in zip(blocks, pullback.leaves, strict=True)
            ]
            of_outputs.append(tree.unflatten(shaped, pullback.shape)[0])
        result = tree.unflatten(of_outputs, pullback.out_shape)
        return (result, pullback.aux) if has_aux else result

    return jacobian


def _rows_of(units: list[Tensor]) -> int:
    return node_of(units[0]).meta.shape[0]


def _no_rows(pullback: Pullback) -> tuple[Tensor, ...]:
    metas = [node_of(x).meta for x in pullback.leaves]
    return tuple([filled((0, *meta.shape), 0, meta.dtype) for meta in metas])


def _of_chosen(
    func: Function, args: tuple[Any, ...], kwargs: dict[str, Any], wanted: ArgNums
) -> Callable[[Any], Any]:
    """`func` as a function of the chosen arguments alone."""
    return lambda values: func(*replaced(args, wanted, values), **kwargs)


def jacfwd(
    func: Function,
    argnums: ArgNums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Function:
    """The function that gives the Jacobian of `func` for its argument `argnums`, by forward mode.

    Each block has shape (*output, *input); all columns are computed at once.
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        wanted = normal_argnums(argnums, len(args))
        primals = chosen(args, wanted)
        forward = Pushforward(
            _of_chosen(func, args, kwargs, wanted), (primals,), has_aux, "jacfwd(f)(*args)"
        )
        units = basis(forward.primals)

        def columns(*tangents: Tensor) -> tuple[Tensor, ...]:
            return tuple(forward.products(list(tangents)))

        found = (
            vmap(columns, randomness=randomness)(*units)
            if _rows_of(units)
            else tuple([filled((0, *y.shape), 0, y.dtype) for y in forward.outputs])
        )
        of_outputs = []
        for y, products in zip(forward.outputs, found, strict=True):
            shape = node_of(y).meta.shape
            shaped = [
                _columns_last(part, shape, node_of(x).meta.shape)
                for part, x in zip(pieces(products, forward.primals), forward.primals, strict=True)
            ]
            of_outputs.append(tree.unflatten(shaped, forward.shape)[0])
        result = tree.unflatten(of_outputs, forward.out_shape)
        return (result, forward.aux) if has_aux else result

    return jacobian


def _columns_last(x: Tensor, output: Shape, input: Shape) -> Tensor:
    """(numbers of the input, *output) as (*output, *input)."""
    ndim = len(output) + 1
    turned = record(PERMUTE, (x,), ((*range(1, ndim), 0),))
    return reshape_to(turned, (*output, *input))


def hessian(func: Function, argnums: ArgNums = 0) -> Function:
    """The function that gives the second derivatives of `func`: forward over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)
