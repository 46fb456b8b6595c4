"""Functions of matrices: powers, exponential, chains of products, and smaller ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index, as_items
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, clone, mul, sub, where
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    Metas,
    adjoint,
    as_column,
    as_row,
    check_float,
    check_same_dtype,
    check_square,
    columns,
    conj,
    identity,
    rows,
)
from livegrad.ops.linalg.solving import inv
from livegrad.ops.making.generate import filled, zeros_like
from livegrad.ops.products.matmul import matmul
from livegrad.ops.reductions.reduce import sum as sum_of
from livegrad.ops.reductions.scan import cumprod
from livegrad.ops.shaping.diagonals import diagonal as diagonal_view
from livegrad.ops.shaping.joining import cat, pad, stack
from livegrad.ops.shaping.movement import expand, normal_dim, reshape_to, unsqueeze
from livegrad.ops.shaping.slicing import select
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.autocast import in_low
from livegrad.ops.support.out import casting, exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# --------------------------------------------------------------------------- powers, exponential


@casting
def matrix_power(A: Tensor, n: int) -> Tensor:
    """Square matrices multiplied with themselves n times; of the inverse, if n is negative."""
    n = as_index(n)
    meta = node_of(A).meta
    check_square("linalg.matrix_power", meta)
    if n == 0:
        always = filled(meta.shape, True, dtypes.bool_)
        return where(always, identity(A, meta.shape[-1]), A)  # a function of A, with gradient 0
    base = inv(A) if n < 0 else A
    n = abs(n)
    if n == 1:
        return clone(base)
    result: Tensor | None = None
    while n:
        if n % 2:
            result = base if result is None else matmul(result, base)
        n //= 2
        if n:
            base = matmul(base, base)
    assert result is not None
    return result


def _exp_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_float("linalg.matrix_exp", metas[0])
    check_square("linalg.matrix_exp", metas[0])
    return metas[0]


def _exp_ref(n: Any, a: Array) -> Array:
    from scipy.linalg import expm

    if not a.size:
        return a
    if not np.isfinite(a).all():
        return np.full_like(a, np.nan)
    # Squaring many times costs digits, which single precision does not have to spare.
    return np.asarray(expm(a.astype(np.result_type(a, np.float64))))


def _exp_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """The upper right block of exp([[Aᴴ, g], [0, Aᴴ]])."""
    size = a.shape[-1]
    block = adjoint(a)
    upper, lower = cat((block, g), -1), cat((zeros_like(block), block), -1)
    whole = record(MATRIX_EXP, (cat((upper, lower), -2),))
    return columns(rows(whole, 0, size), size, 2 * size)


MATRIX_EXP: Op = Op(
    "matrix_exp",
    "host",
    infer=_exp_infer,
    ref=_exp_ref,
    grads=(_exp_grad,),
    saves="x",
    batch=batched.matrices,
    grad_fn="LinalgMatrixExpBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: matrix_exp(x)),
        lambda: s.Sample((s.uniform(2, 2, 2),), lambda x: matrix_exp(x)),
        lambda: s.Sample((s.uniform(0, 0),), lambda x: matrix_exp(x)),
    ),
)


def matrix_exp(A: Tensor) -> Tensor:
    """I + A + A²/2 + A³/6 + … of square matrices."""
    return record(MATRIX_EXP, (A,))


# ---------------------------------------------------------------------------------- products


@exact
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors.
    """
    given = list(as_items(tensors, "tuple of Tensors"))
    name = "multi_dot()"
    if len(given) < 2:
        raise RuntimeError(f"{name}: expected at least 2 tensors but got {len(given)}")
    metas = [node_of(x).meta for x in given]
    for i, meta in enumerate(metas):
        allowed = (1, 2) if i in (0, len(given) - 1) else (2,)
        if meta.ndim not in allowed:
            raise RuntimeError(
                f"{name}: tensor {i} must be {'1D or 2D' if len(allowed) > 1 else '2D'} but got "
                f"{meta.ndim}D"
            )
        if meta.dtype is not metas[0].dtype:
            raise RuntimeError(
                f"{name}: all tensors must have the same dtype but tensor 0 is "
                f"{metas[0].dtype.name} and tensor {i} {meta.dtype.name}"
            )
    if len(given) == 2:
        return matmul(*given)
    first, last = metas[0].ndim == 1, metas[-1].ndim == 1
    if first:
        given[0] = as_row(given[0])
    if last:
        given[-1] = as_column(given[-1])
    shapes = [node_of(x).meta.shape for x in given]
    for i, (a, b) in enumerate(pairwise(shapes)):
        if a[1] != b[0]:
            raise RuntimeError(
                f"{name}: tensors {i} and {i + 1} with shapes {list(a)} and {list(b)} cannot be "
                "multiplied"
            )
    cuts = _best_cuts([shapes[0][0], *[shape[1] for shape in shapes]])
    out = _chain(given, cuts, 0, len(given) - 1)
    shape = node_of(out).meta.shape
    return reshape_to(out, shape[int(first) : 2 - int(last)])


def _best_cuts(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to cut each run of factors; `sizes` are those of the dims between them."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cuts = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], cuts[i, j] = min(options)
    return cuts


def _chain(factors: list[Tensor], cuts: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return factors[i]
    k = cuts[i, j]
    return matmul(_chain(factors, cuts, i, k), _chain(factors, cuts, k + 1, j))


@exact
@in_low
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Inner products along a dim; the first factor is conjugated."""
    for what in (x, y):
        check_float("linalg.vecdot", node_of(what).meta)
    check_same_dtype("linalg.vecdot", node_of(x).meta, node_of(y).meta)
    return sum_of(mul(conj(x), y), dim)


@exact
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross products of vectors of three elements along `dim`."""
    a, b = node_of(input).meta, node_of(other).meta
    name = "linalg.cross"
    if a.ndim != b.ndim:
        raise RuntimeError(
            f"{name}: inputs must have the same number of dimensions; got {a.ndim} and {b.ndim}"
        )
    shape = broadcast_shapes(name, [a.shape, b.shape])
    if not shape:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    if dtypes.bool_ in (a.dtype, b.dtype):
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    check_same_dtype(name, a, b)
    d = normal_dim(name, dim, len(shape))
    if a.shape[d] != 3 or b.shape[d] != 3:
        raise RuntimeError(
            f"{name}: inputs dimension {dim} must have length 3. Got {list(a.shape)} and "
            f"{list(b.shape)}"
        )
    xs = [select(input, d, i) for i in range(3)]
    ys = [select(other, d, i) for i in range(3)]
    turns = ((1, 2), (2, 0), (0, 1))
    return stack([sub(mul(xs[i], ys[j]), mul(xs[j], ys[i])) for i, j in turns], d)


@exact
def cross_of_threes(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Cross products along `dim`, or along the first dim of size 3.

    Args:
        input: a tensor.
        other: one that broadcasts with it.
        dim: of size 3.

    Example:
        >>> lg.cross(lg.tensor([1, 0, 0]), lg.tensor([0, 1, 0]), dim=0)
        tensor([0, 0, 1])
    """
    if dim is None:
        a, b = node_of(input).meta.shape, node_of(other).meta.shape
        shape = broadcast_shapes("cross", [a, b])
        dim = next((d for d, size in enumerate(shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("cross: no dimension of size 3 in input")
    return cross(input, other, dim=dim)


# ------------------------------------------------------------------------------ other matrices


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of the matrices in two dims: a view."""
    return diagonal_view(A, offset, dim1, dim2)


# More are computed by a scan.
_MANY_POWERS = 64


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Powers 0 … N - 1 of each value along a new last dim."""
    meta = node_of(x).meta
    if not meta.ndim:
        x = reshape_to(x, (1,))
        meta = node_of(x).meta
    count = meta.shape[-1] if N is None else as_index(N)
    if count <= 1:
        raise RuntimeError(f"N must be greater than 1; got {count}")
    if meta.dtype in (dtypes.bool_, dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{meta.dtype.name}"
        )
    if meta.dtype.category == dtypes.INT:
        x = cast(x, dtypes.int64)
    if count > _MANY_POWERS:
        factors = expand(unsqueeze(x, -1), (*meta.shape, count - 1))
        return pad(cumprod(factors, -1), (1, 0), value=1)
    power = add(zeros_like(x), 1)
    found = [power]
    for _ in range(count - 1):
        power = mul(power, x)
        found.append(power)
    return stack(found, -1)
