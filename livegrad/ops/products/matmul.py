"""Matrix products: one kernel, MATMUL, and the functions of all ranks that are made of it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.drawing import Shown, in_a_row
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes, not_implemented
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.views import row_major
from livegrad.native.hot import hot
from livegrad.ops.elementwise.arithmetic import add, cast, fitted, mul, where
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.making.generate import filled
from livegrad.ops.reductions.reduce import sum as summed
from livegrad.ops.shaping.movement import PERMUTE, reshape_to
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.autocast import in_low, without_autocast
from livegrad.ops.support.batched import aligned_all, as_it_is
from livegrad.ops.support.old_order import in_new_order
from livegrad.ops.support.out import casting, exact, taking_expanded

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]


def transposed(x: Tensor) -> Tensor:
    """The last two dims exchanged, not as a view."""
    ndim = node_of(x).meta.ndim
    return record(PERMUTE, (x,), ((*range(ndim - 2), ndim - 1, ndim - 2),))


@hot
def _check_same_dtype(name: str, metas: Metas) -> None:
    first = metas[0].dtype
    for meta in metas:
        if meta.dtype is not first:
            raise _other_dtypes(name, first, meta.dtype)


def _other_dtypes(name: str, first: DType, other: DType) -> RuntimeError:
    return RuntimeError(
        f"{name}: expected m1 and m2 to have the same dtype, but got: {first.name} != "
        f"{other.name}. Convert one with .to(dtype)"
    )


def inner_sizes_differ(a: Meta, b: Meta) -> RuntimeError:
    """The error for matrices that do not fit."""
    fits = a.ndim > 1 and a.shape[-2] == b.shape[-2] and a.shape[-1] != b.shape[-1]
    drawn = in_a_row(Shown("a", a.shape, {a.ndim - 1}), " @ ", Shown("b", b.shape, {b.ndim - 2}))
    return RuntimeError(
        f"{_in_torch(a.shape, b.shape)}\n{drawn}\n"
        f"matmul: inner sizes differ; got a {a.shape} @ b {b.shape}; expected a.shape[-1] == "
        f"b.shape[-2]. Did you mean {'a' if fits else 'b'}.T?"
    )


def _in_torch(a: Shape, b: Shape) -> str:
    """What PyTorch says of matrices, or batches of them, that do not fit."""
    if len(b) < 3 or len(a) < 3:
        rows = prod(a[:-1])
        return f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a[-1]} and {b[-2]}x{b[-1]})"
    batch = prod(b[:-2])
    return (
        f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {a[-1]}] but "
        f"got: [{batch}, {b[-2]}]."
    )


@hot
def _matmul_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    a, b = metas
    _check_same_dtype("matmul", metas)
    if a.dtype is dtypes.bool_:
        raise not_implemented("matmul", a.dtype)
    first = a.shape
    second = b.shape
    if first[-1] != second[-2]:
        raise inner_sizes_differ(a, b)
    if len(first) == 2 and len(second) == 2:
        return meta_of((first[0], second[1]), a.dtype)
    return _batched_product(a, b)


def _batched_product(a: Meta, b: Meta) -> Meta:
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    return meta_of((*batch, a.shape[-2], b.shape[-1]), a.dtype)


def _batch_matmul(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    a, b = xs
    first, second = (node_of(x).meta.shape for x in xs)
    if batched == (True, False) and len(second) == 2:  # one product of all rows
        rows = record(n.op, (reshape_to(a, (prod(first[:-1]), first[-1])), b))
        return reshape_to(rows, (size, *n.meta.shape))
    return record(n.op, aligned_all(n.meta.ndim, xs, batched))


def _batch_vector(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Any:
    """Vectors with one matrix are rows of one product."""
    return record(MATMUL, xs) if batched == (True, False) else NotImplemented


MATMUL = Op(
    "matmul",
    "kernel",
    # Two inputs of rank 2 or more; leading dims are batches, broadcast like elementwise operands.
    infer=lambda *given: _matmul_infer(*given),
    ref=lambda n, a, b: np.matmul(a, b),
    lower=lowered_by("product.Product"),
    flops=lambda node: node.meta.numel * node.inputs[0].meta.shape[-1],
    grads=(
        lambda g, y, a, b: matmul(g, conj(transposed(b))),
        lambda g, y, a, b: matmul(conj(transposed(a)), g),
    ),
    saves="x",
    outer=(1, 0, -1),
    autocast="low",
    batch=_batch_matmul,
    grad_fn=parts.matmul,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4), s.uniform(4, 5)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(2, 3, 4), s.uniform(2, 4, 5)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(3, 1, 2, 4), s.uniform(2, 4, 5)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(3, 4), s.uniform(2, 4, 5)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(3, 4), s.uniform(4)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(4), s.uniform(2, 4, 3)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(4), s.uniform(4, seed=1)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(3, 0), s.uniform(0, 5)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(0, 4), s.uniform(4, 5)), lambda a, b: matmul(a, b)),
    ),
)


def _wide_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    return meta_of(_matmul_infer(metas, attrs, shape).shape, dtypes.float32)


def _wide_sample(*shapes: tuple[int, int]) -> s.Sample:
    def call(a: Tensor, b: Tensor) -> Tensor:
        return record(WIDE_MATMUL, (cast(a, dtypes.bfloat16), cast(b, dtypes.bfloat16)))

    return s.Sample(tuple([s.uniform(*shape) for shape in shapes]), call, smooth=False)


HALVES = (dtypes.float16, dtypes.bfloat16)
# What a product of half precisions is made of: the same in float32, not rounded.
WIDE_MATMUL = Op(
    "wide_matmul",
    "kernel",
    infer=_wide_infer,
    ref=lambda n, a, b: np.matmul(a.astype(np.float32), b.astype(np.float32)),
    lower=lowered_by("product.Product"),
    flops=MATMUL.flops,
    saves="",
    batch=_batch_matmul,
    samples=s.calls(
        lambda: _wide_sample((3, 4), (4, 5)),
        lambda: _wide_sample((37, 300), (300, 50)),
        lambda: _wide_sample((1, 300), (300, 1)),
        lambda: _wide_sample((0, 4), (4, 5)),
    ),
)


def _row(vector: Tensor) -> Tensor:
    """A vector as a matrix of one row."""
    return reshape_to(vector, (1, *vector.shape))


def _vector_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    vector, matrix = metas
    row = meta_of((1, *vector.shape), vector.dtype)
    return meta_of(_matmul_infer((row, matrix), attrs, shape).shape[1:], vector.dtype)


VECTOR_MATMUL = Op(
    "vector_matmul",
    "composite",
    # A vector and a matrix that fit: a node instead of three.
    infer=_vector_infer,
    ref=lambda n, vector, matrix: np.matmul(vector[None], matrix)[0],
    expand=lambda n, vector, matrix: reshape_to(
        record(MATMUL, (_row(vector), matrix)), n.meta.shape
    ),
    grads=(
        lambda g, y, vector, matrix: matmul(g, conj(transposed(matrix))),
        lambda g, y, vector, matrix: record(MATMUL, (conj(transposed(_row(vector))), _row(g))),
    ),
    saves="x",
    outer=(1, 0, -1),
    autocast="low",
    batch=_batch_vector,
    grad_fn=parts.vector_matmul,
    samples=s.calls(
        lambda: s.Sample((s.uniform(4), s.uniform(4, 3)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(1), s.uniform(1, 3)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(4), s.uniform(4, 1)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(0), s.uniform(0, 3)), lambda a, b: matmul(a, b)),
        lambda: s.Sample((s.uniform(37), s.uniform(37, 50)), lambda a, b: matmul(a, b)),
    ),
)


@exact
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product; 1-d operands are row or column vectors, leading dims are batches.

    Args:
        input: (…, n, k), or a vector of k.
        other: (…, k, m), or a vector of k.

    Example:
        >>> a = lg.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> lg.matmul(a, lg.tensor([1.0, 1.0]))
        tensor([3., 7.])
        >>> a @ a
        tensor([[ 7., 10.],
                [15., 22.]])
    """
    try:
        product = _product_with_matrix(input, other)
        if product is not None:
            return product
        a, b = node_of(input).meta, node_of(other).meta
    except AttributeError:
        raise TypeError(
            f"matmul(): expected two tensors; got {type(input).__name__} and {type(other).__name__}"
        ) from None
    if not a.ndim or not b.ndim:
        raise RuntimeError(
            "matmul: both arguments need to be at least 1D, but they are "
            f"{a.ndim}D and {b.ndim}D. Use * for numbers"
        )
    if b.ndim == 1:
        return _times_vector(input, other, a, b)
    if a.ndim == 1:  # and several matrices, or one of another size
        if a.shape[0] != b.shape[-2]:
            raise inner_sizes_differ(a, b)
        out = record(MATMUL, (reshape_to(input, (1, a.shape[0])), other))
        return reshape_to(out, b.shape[:-2] + b.shape[-1:])
    if b.ndim == 2:
        # One product of all rows instead of one per batch.
        if a.shape[-1] != b.shape[-2]:
            raise inner_sizes_differ(a, b)
        return record(LINEAR, (input, transposed(other)), (False,))
    return record(MATMUL, (input, other))


@hot
def _product_with_matrix(x: Any, matrix: Any) -> Tensor | None:
    """The product of a matrix, or a vector, with a matrix; None for others to make, or refuse."""
    a = node_of(x).meta
    b = node_of(matrix).meta
    if b.ndim != 2:
        return None
    if a.ndim == 2:
        return record(MATMUL, (x, matrix))
    if a.ndim != 1 or a.shape[0] != b.shape[0]:
        return None
    return record(VECTOR_MATMUL, (x, matrix))


def _times_vector(x: Tensor, vector: Tensor, a: Meta, b: Meta) -> Tensor:
    size = b.shape[0]
    if a.shape[-1] != size:
        raise inner_sizes_differ(a, meta_of((size, 1), b.dtype))
    rows = reshape_to(x, (prod(a.shape[:-1]), size))
    return reshape_to(record(MATMUL, (rows, reshape_to(vector, (size, 1)))), a.shape[:-1])


# ------------------------------------------------------------------------------------- linear


def _linear_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, weight = metas[:2]
    _check_same_dtype("linear", metas)
    if x.dtype is dtypes.bool_:
        raise not_implemented("linear", x.dtype)
    if weight.ndim != 2:
        raise RuntimeError(f"linear: got weight {weight.shape}; expected 2 dims (out, in)")
    if not x.ndim or x.shape[-1] != weight.shape[1]:
        drawn = in_a_row(
            Shown("input", x.shape, {x.ndim - 1}), " and ", Shown("weight", weight.shape, {1})
        )
        raise RuntimeError(
            f"{_in_torch(x.shape or (1,), weight.shape[::-1])}\n{drawn}\n"
            f"linear: inner sizes differ; got input {x.shape} and weight {weight.shape}; expected "
            "input.shape[-1] == weight.shape[1]"
        )
    out = weight.shape[0]
    if len(metas) == 3 and metas[2].shape not in ((out,), (1,), ()):
        raise RuntimeError(f"linear: got bias {metas[2].shape}; expected ({out},)")
    return meta_of((*x.shape[:-1], out), x.dtype)


def _rows(x: Tensor) -> Tensor:
    """`x` as a matrix: all dims but the last merged."""
    shape = x.shape
    return x if len(shape) == 2 else reshape_to(x, (prod(shape[:-1]), shape[-1]))


def _linear_expand(n: Any, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    # One product of all rows, whatever dims they have: see bind_products.py.
    rows = x if len(x.shape) > 1 else reshape_to(x, (1, *x.shape))
    dtype = n.meta.dtype
    if bias and dtype in HALVES:  # rounded once, as by PyTorch
        out = record(WIDE_MATMUL, (rows, transposed(weight)))
        return reshape_to(cast(add(out, cast(bias[0], dtypes.float32)), dtype), n.meta.shape)
    out = record(MATMUL, (rows, transposed(weight)))
    return reshape_to(add(out, bias[0]) if bias else out, n.meta.shape)


def _linear_ref(n: Any, x: Any, weight: Any, *bias: Any) -> Any:
    out = x.reshape(prod(x.shape[:-1]), x.shape[-1]) @ weight.T
    return (out + bias[0] if bias else out).reshape(n.meta.shape)


def _linear_grad_input(g: Tensor, y: Tensor, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    if len(x.shape) == 2:
        return record(MATMUL, (g, conj(weight)))
    return record(LINEAR, (g, conj(transposed(weight))), (False,))


def _linear_grad_weight(g: Tensor, y: Tensor, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    return record(MATMUL, (transposed(_rows(g)), conj(_rows(x))))


LINEAR = Op(
    "linear",
    "composite",
    # x @ weight.T + bias over the last dim: attrs (whether there is a bias,).
    infer=_linear_infer,
    ref=_linear_ref,
    expand=_linear_expand,
    grads=(_linear_grad_input, _linear_grad_weight, lambda g, y, x, weight, bias: g),
    saves="x",
    outer=(1, -1, 0),
    autocast="low",
    batch=as_it_is,
    grad_fn=parts.linear,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4), s.uniform(5, 4)), lambda x, w: linear(x, w)),
        lambda: s.Sample(
            (s.uniform(3, 4), s.uniform(5, 4), s.uniform(5)), lambda x, w, b: linear(x, w, b)
        ),
        lambda: s.Sample(
            (s.uniform(2, 3, 4), s.uniform(5, 4), s.uniform(5)), lambda x, w, b: linear(x, w, b)
        ),
        lambda: s.Sample(
            (s.uniform(4), s.uniform(5, 4), s.uniform(5)), lambda x, w, b: linear(x, w, b)
        ),
        lambda: s.Sample(
            (s.uniform(0, 4), s.uniform(5, 4), s.uniform(5)), lambda x, w, b: linear(x, w, b)
        ),
    ),
)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias` over the last dim; `weight` has shape (out, in).

    Args:
        input: (…, in).
        weight: (out, in).
        bias: (out), or what broadcasts to the result, or None.

    Example:
        >>> F.linear(lg.ones(2, 3), lg.ones(4, 3), lg.zeros(4)).shape
        livegrad.Size([2, 4])
    """
    if bias is None:
        if node_of(weight).meta.ndim == 1:
            return matmul(input, weight)
        return record(LINEAR, (input, weight), (False,))
    try:
        return record(LINEAR, (input, weight, bias), (True,))
    except RuntimeError:
        x, w, b = node_of(input).meta, node_of(weight).meta, node_of(bias).meta
        in_rows = _is_added_in_rows(x, b)
        if in_rows and (b.ndim < 2 or w.ndim != 2 or not x.ndim):
            raise
    if in_rows:
        rows = addmm(bias, _rows(input), transposed(weight))
        return reshape_to(rows, (*x.shape[:-1], w.shape[0]))
    return _added_in_place(input, weight, bias)


def _is_added_in_rows(x: Meta, bias: Meta) -> bool:
    """Whether PyTorch adds the bias to a matrix, in which all dims but the last are merged."""
    is_vector = bias.ndim == 1 or sum(n != 1 for n in bias.shape) == 1
    return x.ndim == 2 or (x.contiguous and is_vector)


@in_low
def _added_in_place(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """With a bias of any shape that broadcasts to the product, and any dtype that can be cast."""
    product = record(LINEAR, (input, weight), (False,))
    return row_major(fitted(add(product, bias), node_of(product).meta))


# -------------------------------------------------------------------- products of fixed rank


def _check_ranks(name: str, *wanted: tuple[Tensor, int]) -> None:
    for number, (x, rank) in enumerate(wanted, 1):
        have = node_of(x).meta
        if have.ndim != rank:
            raise RuntimeError(
                f"{name}: argument {number} must be a {rank}-D tensor; got shape {have.shape}"
            )


def _check_dtypes(name: str, *tensors: Tensor) -> None:
    kinds = [node_of(x).meta.dtype for x in tensors]
    if any(kind is not kinds[0] for kind in kinds):
        names = ", ".join([kind.name for kind in kinds])
        raise RuntimeError(f"{name}: input tensors must have the same dtype; got {names}")


@exact
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices.

    Args:
        input: (n, k).
        mat2: (k, m).

    Example:
        >>> lg.mm(lg.eye(2), lg.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    _check_ranks("mm", (input, 2), (mat2, 2))
    return record(MATMUL, (input, mat2))


@exact
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of two batches of matrices.

    Args:
        input: (b, n, k).
        mat2: (b, k, m).

    Example:
        >>> lg.bmm(lg.ones(3, 2, 4), lg.ones(3, 4, 5)).shape
        livegrad.Size([3, 2, 5])
    """
    _check_ranks("bmm", (input, 3), (mat2, 3))
    if node_of(input).meta.shape[0] != node_of(mat2).meta.shape[0]:
        raise RuntimeError(
            f"bmm: batch sizes differ; got {input.shape[0]} and {mat2.shape[0]}; expected one size"
        )
    return record(MATMUL, (input, mat2))


@exact
@without_autocast
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector."""
    _check_ranks("mv", (input, 2), (vec, 1))
    return matmul(input, vec)


@exact
@without_autocast
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Inner product of two vectors.

    Args:
        input: a vector.
        tensor: another of the same length.

    Example:
        >>> lg.dot(lg.tensor([1, 2]), lg.tensor([3, 4]))
        tensor(11)
    """
    _check_ranks("dot", (input, 1), (tensor, 1))
    return matmul(input, tensor)


@exact
@without_autocast
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Inner product of the conjugate of a vector and another vector."""
    _check_ranks("vdot", (input, 1), (other, 1))
    return matmul(conj(input), other)


@exact
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products over the last dims of both; of numbers, their product."""
    a, b = node_of(input).meta, node_of(other).meta
    if not a.ndim or not b.ndim:
        return mul(input, other)
    if a.ndim == 1 == b.ndim:
        return dot(input, other)
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            f"inner: the last dimension must match on both input tensors but got shapes {a.shape} "
            f"and {b.shape}"
        )
    return reshape_to(record(LINEAR, (input, _rows(other)), (False,)), a.shape[:-1] + b.shape[:-1])


@casting
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The matrix of all products of elements of two vectors.

    Args:
        input: a vector.
        vec2: another one.

    Example:
        >>> lg.outer(lg.tensor([1, 2]), lg.tensor([1, 10]))
        tensor([[ 1, 10],
                [ 2, 20]])
    """
    _check_ranks("outer", (input, 1), (vec2, 1))
    return mul(reshape_to(input, (node_of(input).meta.shape[0], 1)), vec2)


@casting
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """See `outer`."""
    return outer(input, vec2)


# ------------------------------------------------------------------------- sums with products


def _with_product(
    name: str,
    multiply: Callable[[Tensor, Tensor], Tensor],
    operands: tuple[Tensor, Tensor, Tensor],
    beta: Any,
    alpha: Any,
) -> Tensor:
    """`beta * input + alpha * multiply(a, b)`: half precisions are rounded once, as by PyTorch."""
    _check_dtypes(name, *operands)
    dtype = node_of(operands[0]).meta.dtype
    input, a, b = [cast(x, dtypes.float32) for x in operands] if dtype in HALVES else operands
    return row_major(cast(_combined(name, input, multiply(a, b), beta, alpha), dtype))


def _combined(name: str, input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * input + alpha * product; what is multiplied by 0 is not even read."""
    meta, wanted = node_of(input).meta, node_of(product).meta
    lead = wanted.ndim - meta.ndim
    if lead < 0 or any(
        n not in (1, w) for n, w in zip(meta.shape, wanted.shape[lead:], strict=True)
    ):
        raise RuntimeError(
            f"{name}: input of shape {list(meta.shape)} cannot be expanded to that of the product, "
            f"{list(wanted.shape)}"
        )
    common = dtypes.promote_types(meta.dtype, wanted.dtype)
    beta, alpha = _factor(beta, common), _factor(alpha, common)
    scaled = product if alpha == 1 else mul(cast(product, common), alpha)
    if beta == 0:
        if not input.requires_grad:
            return scaled
        nothing = filled((), False, dtypes.bool_)
        input, beta = where(nothing, input, 0), 1  # whose gradient is 0
    return add(input if beta == 1 else mul(cast(input, common), beta), scaled)


def _factor(number: Any, dtype: DType) -> Any:
    """A factor as the kind of number that `dtype` holds: integers are cut off, as in PyTorch."""
    if dtype.category == dtypes.INT:
        return int(number)
    return bool(number) if dtype is dtypes.bool_ else number


@taking_expanded
@exact
@in_low
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *old: Any, beta: float = 1, alpha: float = 1
) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`."""
    if old:
        return in_new_order(addmm, (input, mat1, mat2, *old), 3, "beta alpha")
    return _with_product("addmm", mm, (input, mat1, mat2), beta, alpha)


@taking_expanded
@exact
@without_autocast
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *old: Any, beta: float = 1, alpha: float = 1
) -> Tensor:
    """`beta * input + alpha * (mat @ vec)`."""
    if old:
        return in_new_order(addmv, (input, mat, vec, *old), 3, "beta alpha")
    return _with_product("addmv", mv, (input, mat, vec), beta, alpha)


@casting
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *old: Any, beta: float = 1, alpha: float = 1
) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`."""
    if old:
        return in_new_order(addr, (input, vec1, vec2, *old), 3, "beta alpha")
    product = outer(vec1, vec2)
    whole = max([node_of(x).meta.dtype.category for x in (input, product)]) < dtypes.FLOAT
    if whole and float in (type(beta), type(alpha)):
        raise RuntimeError(
            "addr: for integral input tensors, arguments beta and alpha must not be floating point "
            f"numbers; got {beta} and {alpha}"
        )
    return _combined("addr", input, product, beta, alpha)


@taking_expanded
@exact
@in_low
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *old: Any, beta: float = 1, alpha: float = 1
) -> Tensor:
    """`beta * input + alpha * bmm(batch1, batch2)`."""
    if old:
        return in_new_order(baddbmm, (input, batch1, batch2, *old), 3, "beta alpha")
    return _with_product("baddbmm", bmm, (input, batch1, batch2), beta, alpha)


@taking_expanded
@exact
@in_low
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *old: Any, beta: float = 1, alpha: float = 1
) -> Tensor:
    """`beta * input + alpha * (sum of bmm(batch1, batch2) over the batch)`."""
    if old:
        return in_new_order(addbmm, (input, batch1, batch2, *old), 3, "beta alpha")
    return _with_product("addbmm", _summed_products, (input, batch1, batch2), beta, alpha)


def _summed_products(batch1: Tensor, batch2: Tensor) -> Tensor:
    return summed(bmm(batch1, batch2), 0, dtype=batch1.dtype)


# ------------------------------------------------------------------------------ many matrices


@exact
def chain_matmul(*matrices: Any) -> Tensor:
    """Product of several matrices, in the order that takes the fewest multiplications."""
    given = list(matrices[0]) if len(matrices) == 1 and isinstance(matrices[0], list) else matrices
    if not given:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    _check_ranks("chain_matmul", *[(matrix, 2) for matrix in given])
    return multiplied(list(given))


def multiplied(matrices: list[Tensor]) -> Tensor:
    """The product of matrices that fit, by the best order of products."""
    shapes = [node_of(x).meta.shape for x in matrices]
    sizes = [shapes[0][0], *[shape[1] for shape in shapes]]
    count = len(matrices)
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(count)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], cut[i, j] = min(options)

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return matrices[i]
        k = cut[i, j]
        return mm(product(i, k), product(k + 1, j))

    return product(0, count - 1)
