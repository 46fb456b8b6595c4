"""Products of bytes, four at a time: what quantised layers are made of.

Four bytes lie in an int32, a *quad*. The left operand of a product, or what has windows, has bytes
without a sign (0 to 255); the right one, or the weights, bytes with one. Sums are exact in int32 as
long as a row has at most `MOST_TERMS` bytes.

    BYTE_QUADS     (…, 4 n) bytes          -> (…, n) int32, the same memory
    QUAD_PRODUCT   (…, M, n), (…, n, N)    -> (…, M, N) sums
    QUAD_CONV      as CONV_PRODUCT, of images and weights whose channels or columns are quads
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.support import samples as s
from livegrad.ops.support.batched import aligned_all
from livegrad.ops.windows.window_products import CONV_PRODUCT, Lie, seen

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]

QUAD = 4
# Bytes of a row: so many products of 255 and -128 fit into an int32.
MOST_TERMS = (2**31 - 1) // (255 * 128) // QUAD * QUAD


def _quads_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    (x,) = metas
    if x.dtype not in (dtypes.uint8, dtypes.int8) or not x.ndim or x.shape[-1] % QUAD:
        raise RuntimeError(
            f"byte_quads: got {x.dtype.name} {x.shape}; expected bytes, a multiple of 4 in a row"
        )
    return meta_of((*x.shape[:-1], x.shape[-1] // QUAD), dtypes.int32)


BYTE_QUADS: Op = Op(
    "byte_quads",
    "movement",
    infer=_quads_infer,
    ref=lambda n, x: np.ascontiguousarray(x).view(np.int32),
    view=lambda n, index: None,  # another name for the same memory
    lower=lowered_by("movement.OtherElements"),
    saves="",
    batch=lambda n, size, xs, batched: record(n.op, xs),
    samples=s.calls(
        lambda: s.Sample((s.integers(3, 8, high=256),), lambda x: _quads(x), smooth=False),
        lambda: s.Sample((s.integers(0, 4),), lambda x: _quads(x), smooth=False),
        lambda: s.Sample((s.integers(8, 3, high=256),), lambda x: _quads(x.T), smooth=False),
    ),
)


def byte_quads(x: Tensor) -> Tensor:
    """Bytes (…, 4 n) as quads (…, n)."""
    return record(BYTE_QUADS, (x,))


def _unpacked(x: Array, signed: bool) -> Array:
    """Quads (…) as numbers (…, 4)."""
    kind = np.int8 if signed else np.uint8
    return np.ascontiguousarray(x)[..., None].view(kind).astype(np.int64)


# --------------------------------------------------------------------------------- matrices


def _product_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    a, b = metas
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"quad_product: inner sizes differ; got {a.shape} @ {b.shape}")
    batch = broadcast_shapes("quad_product", [a.shape[:-2], b.shape[:-2]])
    return meta_of((*batch, a.shape[-2], b.shape[-1]), dtypes.int32)


def _product_ref(n: Any, a: Array, b: Array) -> Array:
    left, right = _unpacked(a, signed=False), _unpacked(b, signed=True)
    return np.asarray(np.einsum("...mkj,...knj->...mn", left, right).astype(np.int32))


QUAD_PRODUCT: Op = Op(
    "quad_product",
    "kernel",
    infer=_product_infer,
    ref=_product_ref,
    lower=lowered_by("product.Product", quads=True),
    flops=lambda node: node.meta.numel * node.inputs[0].meta.shape[-1] * QUAD,
    saves="",
    batch=lambda n, size, xs, batched: record(n.op, aligned_all(n.meta.ndim, xs, batched)),
    samples=s.calls(
        lambda: _product_sample((3, 8), (4, 8)),
        lambda: _product_sample((37, 24), (50, 24)),
        lambda: _product_sample((6, 1100), (1, 1100)),
        lambda: _product_sample((1, 4), (5, 4)),
        lambda: _product_sample((2, 3, 4), (7, 4)),
        lambda: _product_sample((0, 8), (4, 8)),
    ),
)


def quad_product(x: Tensor, weight: Tensor) -> Tensor:
    """Sums (…, N) of quads (…, n) with those of `weight`, (N, n)."""
    return record(QUAD_PRODUCT, (x, weight.T))


# ---------------------------------------------------------------------------------- windows


def _conv_ref(n: Any, x: Array, weight: Array) -> Array:
    taps, counts = weight.shape[3:], n.meta.shape[3:]
    windows = _unpacked(seen(x, Lie(*n.attrs), taps, counts), signed=False)
    weights = _unpacked(weight, signed=True)
    rank = len(taps)
    places, spread = "uvw"[:rank], "xyz"[:rank]
    rule = f"ngc{places}{spread}j,goc{places}j->ngo{spread}"
    return np.asarray(np.einsum(rule, windows, weights).astype(np.int32))


QUAD_CONV: Op = Op(
    "quad_conv",
    "kernel",
    infer=lambda metas, attrs, shape: meta_of(shape, dtypes.int32),
    ref=_conv_ref,
    lower=lowered_by("convolution.ConvProduct", quads=True),
    flops=lambda node: node.meta.numel * prod(node.inputs[1].meta.shape[2:]) * QUAD,
    saves="",
    batch=CONV_PRODUCT.batch,
    samples=s.calls(
        lambda: _conv_sample((2, 1, 2, 5), (1, 3, 2, 3), (5,), 1, 1, 1),
        lambda: _conv_sample((3, 1, 2, 6, 7), (1, 17, 2, 3, 2), (5, 7), 1, 1, 1),
        lambda: _conv_sample((16, 1, 1, 6, 7), (1, 3, 1, 3, 2), (2, 3), 2, 0, 1),
        lambda: _conv_sample((2, 2, 1, 4, 9), (2, 2, 1, 3, 2), (2, 5), 1, 0, 4),
    ),
)


def quad_conv(x: Tensor, weight: Tensor, lie: Lie, shape: Shape) -> Tensor:
    """Sums (N, G, O, *L) of the windows of quads (N, G, C, *S) with `weight`, (G, O, C, *K)."""
    return record(QUAD_CONV, (x, weight), lie, (), shape)


# ---------------------------------------------------------------------------------- samples


def _quads(x: Tensor) -> Tensor:
    return byte_quads(x.to(dtypes.uint8))


def _product_sample(a: Shape, b: Shape) -> s.Sample:
    def call(x: Tensor, w: Tensor) -> Tensor:
        return quad_product(byte_quads(x.to(dtypes.uint8)), byte_quads(w.to(dtypes.int8)))

    inputs = (s.integers(*a, high=256), s.integers(*b, low=-128, high=128, seed=1))
    return s.Sample(inputs, call, smooth=False)


def _conv_sample(x: Shape, weight: Shape, counts: Shape, *lie: int) -> s.Sample:
    attrs = Lie(*[(number,) * len(counts) for number in lie])
    result = (x[0], *weight[:2], *counts)
    inputs = [s.integers(*shape, high=2**32, seed=i) for i, shape in enumerate((x, weight))]

    def call(a: Tensor, b: Tensor) -> Tensor:
        return quad_conv(a.to(dtypes.int32), b.to(dtypes.int32), attrs, result)

    return s.Sample(tuple(inputs), call, smooth=False)


__all__ = ["MOST_TERMS", "QUAD", "byte_quads", "quad_conv", "quad_product"]
