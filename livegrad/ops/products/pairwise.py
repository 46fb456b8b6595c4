"""Distance of vectors, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.blame import as_float
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, sub
from livegrad.ops.layers.composite import Attrs, Metas, to_dtype
from livegrad.ops.reductions.statistics import norm
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _dtype(metas: Metas) -> dtypes.DType:
    dtype = dtypes.promote_types(metas[0].dtype, metas[1].dtype)
    if dtype.category in (dtypes.INT, dtypes.BOOL):
        return dtypes.get_default_dtype()
    return dtype


def _infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    full = broadcast_shapes("pairwise_distance", [meta.shape for meta in metas])
    if full:
        if not full[-1] and (attrs[0] < 0 or isinf(attrs[0])):
            raise RuntimeError(
                f"pairwise_distance: cannot compute the {attrs[0]:g} norm of vectors without "
                f"elements; got shape {list(full)}"
            )
        full = (*full[:-1], 1) if attrs[1] else full[:-1]
    check_differences("pairwise_distance", metas)
    return meta_of(full, _dtype(metas).to_real())


def check_differences(name: str, metas: Sequence[Meta]) -> None:
    """RuntimeError for bools, which have no differences."""
    if any([meta.dtype is dtypes.bool_ for meta in metas]):
        raise RuntimeError(
            f"{name}: Subtraction, the `-` operator, with a bool tensor is not supported"
        )


def _expand(n: Any, x1: Tensor, x2: Tensor) -> Tensor:
    p, keepdim = n.attrs
    dtype = _dtype((x1._node.meta, x2._node.meta)).compute
    apart = add(sub(to_dtype(x1, dtype), to_dtype(x2, dtype)), n.args[0])
    return to_dtype(norm(apart, p, -1, keepdim), n.meta.dtype)


PAIRWISE_DISTANCE = Op(
    "pairwise_distance",
    "composite",
    # inputs (x1, x2), attrs (p, keepdim), args (eps,); differentiated through the expansion.
    infer=_infer,
    expand=_expand,
    saves="x",
    grad_fn="NormBackward1",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 5), s.uniform(3, 5, seed=1)), lambda a, b: pairwise_distance(a, b)
        ),
        lambda: s.Sample(
            (s.uniform(2, 1, 3), s.uniform(2, 3, seed=1)),
            lambda a, b: pairwise_distance(a, b, 3.0, keepdim=True),
        ),
        lambda: s.Sample(
            (s.uniform(5), s.uniform(5, seed=1)), lambda a, b: pairwise_distance(a, b)
        ),
    ),
)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """p-norm of `x1 - x2 + eps` along the last dim."""
    return record(PAIRWISE_DISTANCE, (x1, x2), (as_float(p), bool(keepdim)), (as_float(eps),))
