"""Reductions: fold dims into one value.

Every reduction's attrs start with (dims, keepdim), with `dims` normal, sorted and complete.
Products are in product.py; variances, norms and logsumexp, which are several folds over the same
dims, in statistics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import REGISTRY, GradRule, Op
from livegrad.graph.record import record
from livegrad.graph.symbol import real
from livegrad.graph.views import row_major
from livegrad.ops.elementwise.arithmetic import cast, clone, div, mul, where
from livegrad.ops.elementwise.comparison import (
    eq,
    isnan,
    logical_and,
    logical_or,
    maximum,
    minimum,
    ne,
)
from livegrad.ops.picking.indexing import gather
from livegrad.ops.shaping.movement import (
    EXPAND,
    RESHAPE,
    constant,
    normal_dim,
    regrouping,
    reshape_to,
)
from livegrad.ops.support import batched as batched_rules, parts, samples as s
from livegrad.ops.support.folds import average, total, widened
from livegrad.ops.support.out import casting, exact, folding, numpy_names, truths
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Dims = tuple[int, ...]
Dim = int | Sequence[int] | None


def normal_dims(name: str, dim: Dim, ndim: int) -> Dims:
    """The dims named by `dim`, counted from the front and sorted; None or () means all."""
    if type(dim) is int and -ndim <= dim < ndim:  # most often
        return (dim % ndim,)
    if dim is None:
        return tuple(range(ndim))
    dims = tuple(dim) if isinstance(dim, Sequence) else (dim,)
    if not dims:
        return tuple(range(ndim))
    normal = sorted(normal_dim(name, d, ndim) for d in dims)
    if len(set(normal)) != len(normal):
        raise RuntimeError(f"{name}: dim {normal} appears multiple times in the list of dims")
    return tuple(normal) if ndim else ()


def reduced_meta(meta: Meta, dims: Dims, keepdim: bool, dtype: DType | None = None) -> Meta:
    """Meta after folding `dims`."""
    if not isinstance(keepdim, bool | np.bool):
        raise TypeError(f"argument 'keepdim' must be bool, not {type(keepdim).__name__}")
    shape = [
        1 if d in dims else size for d, size in enumerate(meta.shape) if keepdim or d not in dims
    ]
    return meta_of(tuple(shape), dtype or meta.dtype)


def spread(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """A reduced value (or its gradient) with the folded dims back as size 1, broadcastable to x."""
    return kept(g, x, *y._node.attrs[:2])


def kept(y: Tensor, x: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    """`y`, reduced from `x`, with the folded dims as size 1."""
    if keepdim or not dims:
        return y
    shape = tuple([1 if d in dims else size for d, size in enumerate(x.shape)])
    if len(dims) > 1:
        return reshape_to(y, shape)
    return record(RESHAPE, (y,), (regrouping(y.shape, shape), *dims), (), shape)  # as unsqueeze


def repeated(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The gradient of a sum `y` for each element of `x`."""
    return spread_over(g if not g.shape else spread(g, y, x), x)


def spread_over(g: Tensor, x: Tensor) -> Tensor:
    """`g` repeated to the shape of `x`."""
    return g if g.shape == x.shape else record(EXPAND, (g,), (), (), x.shape)


def count(x: Tensor | Meta, dims: Dims) -> int:
    """How many elements are folded into one."""
    n = 1
    for d in dims:
        n *= x.shape[d]
    return n


def wide(x: Tensor) -> Tensor:
    """`x` in the dtype it is computed in: half precisions overflow and lose digits in sums."""
    return cast(x, node_of(x).meta.dtype.compute)


def finish(n: Any, y: Tensor) -> Tensor:
    """What an expansion made with kept dims, in the shape and dtype of its node."""
    return reshape_to(cast(y, n.meta.dtype), n.meta.shape)


def define(
    name: str,
    ref: Callable[..., Any],
    combine: str,
    grads: tuple[GradRule | None, ...] | None = None,
    infer: Callable[..., Any] | None = None,
    **rules: Any,
) -> Op:
    """Registers a reduction whose reference is called as NumPy's reductions are."""
    return Op(
        name,
        "reduce",
        infer=infer or (lambda metas, attrs, shape: reduced_meta(metas[0], *attrs[:2])),
        ref=lambda n, x: ref(x, axis=n.attrs[0], keepdims=n.attrs[1]),
        combine=combine,
        grads=grads,
        **rules,
    )


def reductions(call: Callable[..., Any], low: float = -1.0, empty: bool = True) -> s.SampleRule:
    """Samples of `call(x, dim, keepdim)` over all, some, leading and trailing dims."""

    def sample(shape: tuple[int, ...], dim: Dim, keepdim: bool = False) -> s.Sample:
        return s.Sample((s.uniform(*shape, low=low),), lambda x: call(x, dim, keepdim))

    def rule() -> Any:
        yield sample((3, 37), None)
        yield sample((3, 37), 0)
        yield sample((3, 37), -1, True)
        yield sample((2, 3, 4), 1)
        yield sample((2, 3, 1), 2)
        yield sample((5,), 0)
        yield sample((), None)
        yield sample((2, 0, 3), 2)
        if empty:
            yield sample((0, 3), 0)

    return rule


def over_several(call: Callable[..., Any], rule: s.SampleRule) -> s.SampleRule:
    """The samples of `rule` and some that fold several dims at once."""

    def both() -> Any:
        yield from rule()
        yield s.Sample((s.uniform(2, 3, 4),), lambda x: call(x, (0, 2), False))
        yield s.Sample((s.uniform(2, 3, 4),), lambda x: call(x, (0, 1), True))
        yield s.Sample((s.uniform(2, 3, 4),), lambda x: call(x, (-1, 1), False))

    return both


# --------------------------------------------------------------------------------- sum and mean


def summed_meta(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    """Meta of a sum or product: integers and bools give int64."""
    dtype = metas[0].dtype
    return reduced_meta(
        metas[0], attrs[0], attrs[1], dtypes.int64 if dtype.category < dtypes.FLOAT else dtype
    )


SUM = define(
    "sum",
    ref=total,
    combine="sum",
    lower=lowered_by("reduce.Sum", unrounded="wide_sum"),
    infer=summed_meta,
    grads=(repeated,),
    saves="",
    complex=True,
    grad_fn=parts.reduction("sum", "SumBackward0", "SumBackward1"),
    samples=over_several(
        lambda x, dim, keepdim: sum(x, dim, keepdim),
        reductions(lambda x, dim, keepdim: sum(x, dim, keepdim)),
    ),
)


@folding
def sum(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Sum over `dim` (all dims by default); integers and bools are summed as int64.

    Args:
        input: a tensor.
        dim: one dim or several; None: all.
        keepdim: keep them, with size 1.
        dtype: what is added up is cast to it first.

    Example:
        >>> x = lg.tensor([[1, 2], [3, 4]])
        >>> lg.sum(x)
        tensor(10)
        >>> lg.sum(x, dim=0, keepdim=True)
        tensor([[4, 6]])
    """
    if dtype is not None:
        input = cast(input, dtype)
    total = record(SUM, (input,), (normal_dims("sum", dim, node_of(input).meta.ndim), keepdim))
    return total if dtype is None else cast(total, dtype)


def _wide_meta(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    return reduced_meta(metas[0], attrs[0], attrs[1], dtypes.float64)


# A sum of real floats that is not rounded to their dtype: what several folds are combined from.
WIDE_SUM = define(
    "wide_sum",
    ref=total,
    combine="wide_sum",
    lower=lowered_by("reduce.Sum", in_parts=False),
    infer=_wide_meta,
    grads=(lambda g, y, x: repeated(cast(g, x.dtype), y, x),),
    saves="",
    samples=over_several(
        lambda x, dim, keepdim: wide_sum(x, normal_dims("sum", dim, x.ndim)),
        reductions(lambda x, dim, keepdim: wide_sum(x, normal_dims("sum", dim, x.ndim))),
    ),
)


def wide_sum(x: Tensor, dims: Dims) -> Tensor:
    """Sum of real floats over `dims`, which are kept, in float64."""
    return record(WIDE_SUM, (x,), (dims, True))


# The squares are not rounded before they are added, which also takes less time.
WIDE_SQUARES = define(
    "wide_squares",
    ref=lambda x, axis, keepdims: total(np.square(widened(x)), axis, keepdims),
    combine="wide_squares",
    lower=lowered_by("reduce.Squares", in_parts=False),
    infer=_wide_meta,
    grads=(lambda g, y, x: mul(spread(cast(g, x.dtype), y, x), mul(x, 2)),),
    saves="x",
    samples=over_several(
        lambda x, dim, keepdim: wide_squares(x, normal_dims("sum", dim, x.ndim)),
        reductions(lambda x, dim, keepdim: wide_squares(x, normal_dims("sum", dim, x.ndim))),
    ),
)


def wide_squares(x: Tensor, dims: Dims) -> Tensor:
    """Sum of the squares of real floats over `dims`, which are kept, in float64."""
    return record(WIDE_SQUARES, (x,), (dims, True))


def _mean_expand(n: Any, x: Tensor) -> Tensor:
    dims, keepdim = n.attrs
    if not dims:
        return clone(x)
    return cast(div(sum(wide(x), dims, keepdim), real(count(x, dims))), n.meta.dtype)


def _mean_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    shares = div(g, real(count(x, y._node.attrs[0]) or 1))
    # PyTorch divides what is repeated: a new tensor, in which each element has a place of its own.
    return row_major(spread_over(spread(shares, y, x), x))


# The mean is a sum and a division, recorded as one node.
MEAN = Op(
    "mean",
    "composite",
    infer=lambda metas, attrs, shape: reduced_meta(metas[0], *attrs[:2]),
    ref=lambda n, x: average(x, n.attrs[0], n.attrs[1]),
    expand=_mean_expand,
    grads=(_mean_gradient,),
    saves="",
    batch=batched_rules.folding,
    grad_fn=parts.reduction("mean", "MeanBackward0", "MeanBackward1"),
    samples=over_several(
        lambda x, dim, keepdim: mean(x, dim, keepdim),
        reductions(lambda x, dim, keepdim: mean(x, dim, keepdim)),
    ),
)


@casting
def mean(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Arithmetic mean over `dim` (all dims by default).

    Args:
        input: a float or complex tensor.
        dim: one dim or several; None: all.
        keepdim: keep them, with size 1.
        dtype: what is added up is cast to it first.

    Example:
        >>> lg.mean(lg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
        tensor([1.5000, 3.5000])
    """
    if dtype is not None:
        input = cast(input, dtype)
    meta = node_of(input).meta
    if meta.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"mean(): could not infer output dtype. Input dtype must be a floating point dtype. "
            f"Got: {meta.dtype.name}. Convert with .float() first"
        )
    return record(MEAN, (input,), (normal_dims("mean", dim, meta.ndim), keepdim))


# --------------------------------------------------------------------------- largest and smallest


def check_not_empty(name: str, meta: Meta, dims: Dims) -> None:
    """IndexError if a folded dim has size 0: there is no largest of nothing."""
    for d in dims:
        if meta.shape[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _extreme_infer(name: str, dtype: DType | None = None) -> Callable[..., Meta]:
    def infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
        check_not_empty(name, metas[0], attrs[0])
        return reduced_meta(metas[0], attrs[0], attrs[1], dtype)

    return infer


def _check_dim_given(name: str, meta: Meta, dim: Dim, error: type[Exception]) -> None:
    if meta.numel == 0 and (dim is None or dim == ()):
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )


def _ties_backward(n: Any, g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    dims, keepdim, nan_is_nan = n.attrs
    y = kept(y, x, dims, keepdim)
    g = kept(g, x, dims, keepdim)
    if nan_is_nan:
        best = logical_or(eq(x, y), logical_and(isnan(x), isnan(y)))
        mine = where(best, g, 0)
    else:  # NaN is equal to nothing: 0 / 0 gives NaN, and so does a gradient that is not finite
        best = eq(x, y)
        mine = mul(g, best)
    return cast(div(mine, sum(best, dims, True)), n.meta.dtype)


# The gradient of amax and amin: shared evenly by the elements equal to the result. With attrs
# (dims, keepdim, True), NaN is equal to NaN.
TIES_BACKWARD: Op = Op(
    "ties_backward",
    "composite",
    infer=lambda metas, attrs, shape: metas[1],
    expand=_ties_backward,
    batch=batched_rules.folding,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3), s.uniform(3, 4)),
            lambda g, x: record(TIES_BACKWARD, (g, x, amax(x, 1)), ((1,), False, False)),
            smooth=False,
        ),
    ),
)


def _ties_rule(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    attrs = (*y._node.attrs, False)
    return record(TIES_BACKWARD, (g, constant(x), constant(y)), attrs)


AMAX = define(
    "amax",
    ref=np.max,
    combine="max",
    infer=_extreme_infer("amax"),
    grads=(_ties_rule,),
    grad_fn=parts.reduction("amax", "AmaxBackward0", "AmaxBackward0"),
    samples=over_several(
        lambda x, dim, keepdim: amax(x, dim, keepdim),
        reductions(lambda x, dim, keepdim: amax(x, _all_of(dim), keepdim), empty=False),
    ),
)
AMIN = define(
    "amin",
    ref=np.min,
    combine="min",
    infer=_extreme_infer("amin"),
    grads=(_ties_rule,),
    grad_fn=parts.reduction("amin", "AminBackward0", "AminBackward0"),
    samples=over_several(
        lambda x, dim, keepdim: amin(x, dim, keepdim),
        reductions(lambda x, dim, keepdim: amin(x, _all_of(dim), keepdim), empty=False),
    ),
)


def _all_of(dim: Dim) -> int | Sequence[int]:
    return () if dim is None else dim


@exact
def amax(input: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """Largest value over `dim` (all dims by default); ties share the gradient evenly.

    Example:
        >>> lg.amax(lg.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
        tensor([5., 3.])
    """
    meta = node_of(input).meta
    _check_dim_given("amax", meta, dim, RuntimeError)
    return record(AMAX, (input,), (normal_dims("amax", dim, meta.ndim), keepdim))


@exact
def amin(input: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """Smallest value over `dim` (all dims by default); ties share the gradient evenly.

    Example:
        >>> lg.amin(lg.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
        tensor([1., 2.])
    """
    meta = node_of(input).meta
    _check_dim_given("amin", meta, dim, RuntimeError)
    return record(AMIN, (input,), (normal_dims("amin", dim, meta.ndim), keepdim))


def _of_all(name: str, fold: Callable[[Tensor], Tensor], grad_fn: str) -> Op:
    """`fold` of all elements, whose gradient those that are NaN share if the result is."""

    def grad(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        dims = tuple(range(node_of(x).meta.ndim))
        return record(TIES_BACKWARD, (g, constant(x), constant(y)), (dims, False, True))

    return Op(
        name,
        "composite",
        infer=lambda metas, attrs, shape: meta_of((), metas[0].dtype),
        expand=lambda n, x: fold(x),
        grads=(grad,),
        grad_fn=parts.of_all(grad_fn),
        samples=s.calls(
            lambda: s.Sample((s.uniform(3, 5),), lambda x: record(REGISTRY[name], (x,))),
            lambda: s.Sample((s.uniform(),), lambda x: record(REGISTRY[name], (x,))),
        ),
    )


MAX_OF_ALL = _of_all("max_of_all", amax, "MaxBackward1")
MIN_OF_ALL = _of_all("min_of_all", amin, "MinBackward1")


def _batch_position(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """The place along a dim, or among all of an example, which then are one dim."""
    dims, *rest = n.attrs
    if len(dims) < 2:
        return batched_rules.folding(n, size, xs, batched)
    flat = [reshape_to(x, (size, prod(node_of(x).meta.shape[1:]))) for x in xs]
    return reshape_to(record(n.op, flat, ((1,), *rest), n.args), (size, *n.meta.shape))


def _position(name: str, pick: Callable[..., Any]) -> Op:
    """Registers argmax or argmin: the index along one dim, or in row-major order over all dims."""

    def ref(n: Any, x: Any) -> Any:
        dims = n.attrs[0]
        if not x.size or not dims:
            return np.zeros(n.meta.shape, np.int64)
        # The first NaN wins, as in PyTorch: that is NumPy's rule too.
        return pick(x, axis=dims[0] if len(dims) == 1 else None).reshape(n.meta.shape)

    def call(x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
        return (argmax if name == "argmax" else argmin)(x, dim, keepdim)

    samples = reductions(call, empty=False)
    return Op(
        name,
        "reduce",
        infer=_extreme_infer(name, dtypes.int64),
        ref=ref,
        combine=name,
        lower=lowered_by("reduce.Place", in_parts=False),
        batch=_batch_position,
        saves="",
        samples=samples,
    )


ARGMAX = _position("argmax", np.argmax)
ARGMIN = _position("argmin", np.argmin)


def _check_position(name: str, meta: Meta, dim: Any) -> None:
    """Raises for what argmax and argmin do not take, in PyTorch's order."""
    plain = type(dim) is int or (dim is None and meta.numel > 0)
    if plain and dtypes.BOOL < meta.dtype.category < dtypes.COMPLEX:  # most often
        return
    if meta.dtype.is_complex:
        raise not_implemented(name, meta.dtype)
    if meta.dtype is dtypes.bool_:
        raise RuntimeError(f"{name}(): does not support bool input. Convert with .int() first")
    _check_dim_given(name, meta, dim, IndexError)
    if isinstance(dim, list | tuple):
        raise TypeError(f"{name}(): argument 'dim' must be int, not {type(dim).__name__}")


@exact
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the largest value along `dim`, by default of the flattened tensor; ties: lowest.

    Args:
        input: a tensor.
        dim: None: of the flattened tensor.
        keepdim: keep the dim, with size 1.

    Example:
        >>> lg.argmax(lg.tensor([[1, 5], [7, 2]]), dim=1)
        tensor([1, 0])
    """
    meta = node_of(input).meta
    _check_position("argmax", meta, dim)
    return record(ARGMAX, (input,), (normal_dims("argmax", dim, meta.ndim), keepdim))


@exact
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the smallest value along `dim`, by default of the flattened tensor; ties: lowest.

    Args:
        input: a tensor.
        dim: None: of the flattened tensor.
        keepdim: keep the dim, with size 1.

    Example:
        >>> lg.argmin(lg.tensor([[1, 5], [7, 2]]))
        tensor(0)
    """
    meta = node_of(input).meta
    _check_position("argmin", meta, dim)
    return record(ARGMIN, (input,), (normal_dims("argmin", dim, meta.ndim), keepdim))


@returned("max")
class max_result(NamedTuple):
    """Largest values along a dim, and where they are."""

    values: Tensor
    indices: Tensor


@returned("min")
class min_result(NamedTuple):
    """Smallest values along a dim, and where they are."""

    values: Tensor
    indices: Tensor


@overload
def max(input: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = False) -> max_result: ...
@overload
def max(input: Tensor, other: Tensor, /) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor) -> Tensor: ...
@exact
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """Largest value of all; with `dim`, (values, indices) along it; of two tensors, elementwise.

    The gradient of the whole is shared by ties; along a dim it goes to the index given.

    Args:
        input: a tensor.
        dim: the dim to look along, or another tensor.
        keepdim: keep the dim, with size 1.

    Example:
        >>> x = lg.tensor([[1, 5], [7, 2]])
        >>> lg.max(x)
        tensor(7)
        >>> values, indices = lg.max(x, dim=1)
        >>> indices
        tensor([1, 0])
    """
    second = other if other is not None else dim
    if isinstance(second, Handle):
        return maximum(input, second)
    if dim is None:
        _check_dim_given("max", node_of(input).meta, None, RuntimeError)
        return record(MAX_OF_ALL, (input,))
    return max_result(*_pick("max", ARGMAX, input, dim, keepdim))


@overload
def min(input: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = False) -> min_result: ...
@overload
def min(input: Tensor, other: Tensor, /) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor) -> Tensor: ...
@exact
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """Smallest value of all; with `dim`, (values, indices) along it; of two tensors, elementwise.

    The gradient of the whole is shared by ties; along a dim it goes to the index given.

    Args:
        input: a tensor.
        dim: the dim to look along, or another tensor.
        keepdim: keep the dim, with size 1.

    Example:
        >>> lg.min(lg.tensor([[1, 5], [7, 2]]), dim=0).values
        tensor([1, 2])
    """
    second = other if other is not None else dim
    if isinstance(second, Handle):
        return minimum(input, second)
    if dim is None:
        _check_dim_given("min", node_of(input).meta, None, RuntimeError)
        return record(MIN_OF_ALL, (input,))
    return min_result(*_pick("min", ARGMIN, input, dim, keepdim))


def _pick(name: str, op: Op, x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The value at the index that `op` finds along `dim`, and the index."""
    meta = node_of(x).meta
    d = normal_dim(name, dim, meta.ndim)
    dims = (d,) if meta.ndim else ()
    check_not_empty(name, meta, dims)
    comparable = cast(x, dtypes.uint8) if meta.dtype is dtypes.bool_ else x
    indices = record(op, (comparable,), (dims, True))
    values = gather(x, d, indices) if dims else clone(x)
    if keepdim:
        return values, indices
    shape = reduced_meta(meta, dims, False).shape
    return reshape_to(values, shape), reshape_to(indices, shape)


# ------------------------------------------------------------------------------------------- logic


def _logical_infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    return reduced_meta(metas[0], attrs[0], attrs[1], dtypes.bool_)


ANY = define(
    "any", np.any, "any", infer=_logical_infer, saves="", complex=True,
    samples=reductions(lambda x, dim, keepdim: any(x > 0.9, dim, keepdim)),
)  # fmt: skip
ALL = define(
    "all", np.all, "all", infer=_logical_infer, saves="", complex=True,
    samples=reductions(lambda x, dim, keepdim: all(x > -0.9, dim, keepdim)),
)  # fmt: skip


def _over(name: str, op: Op, x: Tensor, dim: Dim, keepdim: bool) -> Tensor:
    meta = node_of(x).meta
    if isinstance(dim, Sequence) and not dim:  # over no dim: here, as in PyTorch, not over all
        truth = ne(x, 0)
    else:
        truth = record(op, (x,), (normal_dims(name, dim, meta.ndim), keepdim))
    # uint8 gives uint8, as in PyTorch, where it once stood for bool.
    return cast(truth, dtypes.uint8) if meta.dtype is dtypes.uint8 else truth


@truths
def any(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether any value over `dim` (all dims by default) is not 0.

    Args:
        input: a tensor.
        dim: one dim or several; None: all.
        keepdim: keep them, with size 1.

    Example:
        >>> lg.any(lg.tensor([[0, 1], [0, 0]]), dim=1)
        tensor([ True, False])
    """
    return _over("any", ANY, input, dim, keepdim)


@truths
def all(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether all values over `dim` (all dims by default) are not 0.

    Args:
        input: a tensor.
        dim: one dim or several; None: all.
        keepdim: keep them, with size 1.

    Example:
        >>> lg.all(lg.tensor([1, 1, 0]))
        tensor(False)
    """
    return _over("all", ALL, input, dim, keepdim)


@numpy_names
def count_nonzero(input: Tensor, dim: Any = None, *more: int) -> Tensor:
    """How many values over `dim` (all dims by default, or several) are not 0."""
    return sum(ne(input, 0), (dim, *more) if more else dim)
