"""What all of linear algebra shares: checks, transposes, packed results, LAPACK in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.layout import Strides, contiguous_strides
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.record import record
from livegrad.ops.bookkeeping.in_place import laid_out_as
from livegrad.ops.elementwise.arithmetic import cast, where
from livegrad.ops.elementwise.comparison import eq
from livegrad.ops.elementwise.complex_parts import conj as conj, imag, real
from livegrad.ops.making.generate import counting
from livegrad.ops.products.matmul import transposed as transposed
from livegrad.ops.shaping.arranging import diag_embed as diag_embed
from livegrad.ops.shaping.diagonals import DIAGONAL
from livegrad.ops.shaping.joining import cat, record_slice
from livegrad.ops.shaping.movement import EXPAND, reshape_to, wholes

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]


class LinAlgError(RuntimeError):
    """A matrix has no such decomposition: it is singular, or not positive definite, or so."""


# -------------------------------------------------------------------------------------- checks

_TORCH_NAMES = {
    dtypes.bool_: "Bool",
    dtypes.uint8: "Byte",
    dtypes.int8: "Char",
    dtypes.int16: "Short",
    dtypes.int32: "Int",
    dtypes.int64: "Long",
    dtypes.float16: "Half",
    dtypes.bfloat16: "BFloat16",
}


def check_field(name: str, meta: Meta) -> None:
    """Raises unless the dtype is float32, float64 or complex: what LAPACK computes with."""
    if meta.dtype in _TORCH_NAMES:
        what = _TORCH_NAMES[meta.dtype]
        raise NotImplementedError(
            f"{name}: \"{name}\" not implemented for '{what}'; expected float32, float64 or a "
            "complex dtype. Convert it with .to(dtype)"
        )


def check_float(name: str, meta: Meta) -> None:
    """RuntimeError unless the dtype is floating or complex."""
    if meta.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input; got "
            f"{_TORCH_NAMES[meta.dtype]}. Convert it with .float()"
        )


def check_matrices(name: str, meta: Meta, what: str = "A") -> None:
    """RuntimeError unless there are at least two dims."""
    if meta.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {what} must have at least 2 dimensions; got shape "
            f"{list(meta.shape)}"
        )


def check_square(name: str, meta: Meta, what: str = "A") -> None:
    """RuntimeError unless the last two dims exist and are equal."""
    check_matrices(name, meta, what)
    if meta.shape[-1] != meta.shape[-2]:
        raise RuntimeError(
            f"{name}: {what} must be batches of square matrices, but they are "
            f"{meta.shape[-2]} by {meta.shape[-1]} matrices"
        )


def check_same_dtype(name: str, a: Meta, b: Meta) -> None:
    """RuntimeError unless both dtypes are one."""
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {a.dtype.name} "
            f"and B of type {b.dtype.name} instead. Convert one with .to(dtype)"
        )


def square_infer(name: str) -> Callable[..., Meta]:
    """The inference rule of functions from square matrices to matrices of the same shape."""

    def infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
        check_field(name, metas[0])
        check_square(name, metas[0])
        return metas[0]

    return infer


# ---------------------------------------------------------- layout: LAPACK's matrices, by columns


def column_strides(shape: Shape) -> Strides:
    """The strides of matrices whose columns lie in memory one after the other."""
    return (*contiguous_strides(shape)[:-2], 1, max(shape[-2], 1))


def by_columns(metas: Metas, attrs: Attrs, meta: Meta) -> Strides:
    """The layout rule of ops whose results are such matrices."""
    return column_strides(meta.shape)


def column_major(x: Tensor) -> Tensor:
    """Matrices that nobody else has seen, by columns."""
    return laid_out_as(x, column_strides(node_of(x).meta.shape))


# ------------------------------------------------------------------- transposes, parts of matrices


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of matrices."""
    return conj(transposed(x))


def diagonal_of(x: Tensor) -> Tensor:
    """The main diagonals of matrices."""
    shape = node_of(x).meta.shape
    rest = (*shape[:-2], min(shape[-2:]))
    return record(DIAGONAL, (x,), (len(shape) - 2, len(shape) - 1), (0, 0), rest)


def real_of(x: Tensor) -> Tensor:
    """The real part; a real tensor is its own."""
    return real(x) if node_of(x).meta.dtype.is_complex else x


def imag_of(x: Tensor) -> Tensor:
    """The imaginary part of a complex tensor."""
    return imag(x)


def rows(x: Tensor, start: int, stop: int) -> Tensor:
    """Rows start … stop - 1 of matrices."""
    return record_slice(x, node_of(x).meta.ndim - 2, start, stop - start)


def columns(x: Tensor, start: int, stop: int) -> Tensor:
    """Columns start … stop - 1 of matrices."""
    return record_slice(x, node_of(x).meta.ndim - 1, start, stop - start)


def as_column(x: Tensor) -> Tensor:
    """Vectors as matrices of one column."""
    return reshape_to(x, (*node_of(x).meta.shape, 1))


def as_row(x: Tensor) -> Tensor:
    """Vectors as matrices of one row."""
    shape = node_of(x).meta.shape
    return reshape_to(x, (*shape[:-1], 1, shape[-1]))


def broadcast(x: Tensor, shape: Shape) -> Tensor:
    """`x` repeated to `shape`, not as a view."""
    return x if node_of(x).meta.shape == shape else record(EXPAND, (x,), (), (), shape)


def identity(like: Tensor, size: int) -> Tensor:
    """The identity matrix in the dtype of `like`."""
    return cast(on_diagonal(size, size), node_of(like).meta.dtype)


def on_diagonal(height: int, width: int) -> Tensor:
    """A mask that holds on the main diagonal."""
    return eq(reshape_to(counting(height), (height, 1)), counting(width))


def zero_diagonal(x: Tensor) -> Tensor:
    """Matrices with zeros on the main diagonal."""
    return where(on_diagonal(*node_of(x).meta.shape[-2:]), 0, x)


def same_batch(name: str, a: Tensor, b: Tensor) -> Shape:
    """The common batch dims of two tensors of matrices."""
    return broadcast_shapes(name, [node_of(x).meta.shape[:-2] for x in (a, b)])


# ---------------------------------------------------------------------------- packed results


def packed_meta(shapes: list[Shape], dtype: DType) -> Meta:
    """Meta of a vector that holds values of these shapes one after the other."""
    return meta_of((sum([prod(shape) for shape in shapes]),), dtype)


def pack(*arrays: Any) -> Array:
    """Arrays one after the other in one vector."""
    return np.concatenate([np.asarray(x).ravel() for x in arrays])


def parts(packed: Tensor, shapes: list[Shape]) -> list[Tensor]:
    """The values of these shapes that lie one after the other in a vector."""
    found = []
    start = 0
    for shape in shapes:
        size = prod(shape)
        found.append(reshape_to(record_slice(packed, 0, start, size), shape))
        start += size
    return found


def factors(packed: Tensor, shapes: list[Shape]) -> list[Tensor]:
    """`parts`, of which the matrices, those with most dims, lie by columns."""
    most = max([len(shape) for shape in shapes])
    return [column_major(x) if x.ndim == most else x for x in parts(packed, shapes)]


def packed(shapes_of: Callable[..., list[Shape]]) -> Callable[..., Tensor]:
    """The batching rule of factorisations whose results lie one after the other in a vector."""

    def rule(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
        operands = wholes(xs, batched, size)
        both = record(n.op, operands, n.attrs, n.args)
        shapes = shapes_of(*[node_of(x).meta.shape for x in operands], *n.attrs)
        flat = [reshape_to(x, (size, prod(x.shape[1:]))) for x in parts(both, shapes)]
        return cat(flat, 1)

    return rule


def codes(x: Tensor) -> Tensor:
    """A part that holds integers, as int32."""
    return cast(real_of(x), dtypes.int32)


# -------------------------------------------------------------------------------------- LAPACK

_PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}


def lapack(name: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """A LAPACK routine of SciPy's for arrays of `dtype`."""
    from scipy.linalg import lapack as routines

    return getattr(routines, _PREFIX[dtype.char] + name)  # type: ignore[no-any-return]


def blas(name: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """A BLAS routine of SciPy's for arrays of `dtype`."""
    from scipy.linalg import blas as routines

    return getattr(routines, _PREFIX[dtype.char] + name)  # type: ignore[no-any-return]


def places(batch: Shape) -> Iterator[tuple[int, ...]]:
    """The index of each matrix of a batch."""
    return np.ndindex(*batch)


def first_fault(info: Array) -> tuple[str, int] | None:
    """Where LAPACK failed first, in words, and its code; None if it never did."""
    bad = np.argwhere(info != 0)
    if not len(bad):
        return None
    at = tuple(bad[0])
    place = int(np.ravel_multi_index(at, info.shape)) if at else 0
    return (f"(Batch element {place}): " if at else ""), int(info[at])
