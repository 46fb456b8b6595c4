"""What writing in place leaves in the graph. None of these computes anything.

y = w * 2; with no_grad(): y[0] = 5      altered(y, written)       the gradient goes on to w * 2
y = w * 2; y.copy_(constants)            overwritten(y, written)   and here it ends: zeros
x.copy_(y.t())                           placed(y.t())             x keeps its own strides

`linked` is what `altered` is, of gradients: they require one, which goes nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad.graph.family import node_to_read
from livegrad.graph.handle import node_of, path_of
from livegrad.graph.layout import (
    Strides,
    channels_last_strides,
    like_strides,
    prefers_channels_last,
)
from livegrad.graph.meta import Meta
from livegrad.graph.op import REGISTRY, Op, as_suggested
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.graph.views import laid_out, row_major
from livegrad.graph.writes import prepare_write
from livegrad.ops.making.generate import made_like, zeros_like
from livegrad.ops.support import parts, samples as s
from livegrad.settings import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    preserve_format,
)

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


ALTERED: Op = Op(
    "altered",
    "composite",
    # Inputs (the value that was there, the value that is there now, which may have another shape).
    infer=lambda metas, attrs, shape: metas[1],
    expand=lambda n, old, new: new,
    grads=(lambda g, y, old, new: g, None),
    layout=lambda metas, attrs, meta: metas[1].strides,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(2, 3), s.uniform(2, 3, seed=1)),
            lambda x, v: record(ALTERED, (x, v)),
            smooth=False,
        ),
    ),
)


def _overwritten_gradient(g: Tensor, y: Tensor, old: Tensor, new: Tensor) -> Tensor:
    zeros = zeros_like(old)
    return also_of(g, zeros) if y._node.attrs[0] else zeros


OVERWRITTEN: Op = Op(
    "overwritten",
    "composite",
    # attrs (whether the write was one through a view,), of which the gradient is a function of g.
    infer=lambda metas, attrs, shape: metas[0],
    expand=lambda n, old, new: new,
    grads=(_overwritten_gradient, lambda g, y, old, new: g),
    layout=lambda metas, attrs, meta: metas[0].strides,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(2, 3), s.uniform(2, 3, seed=1)),
            lambda x, v: record(OVERWRITTEN, (x, v), (False,)),
        ),
    ),
)


def overwriting(x: Tensor, value: Tensor) -> Tensor:
    """`value`, which is to be written to all of `x`: what was there gets a gradient of zeros."""
    if node_of(value).grad_to is None or node_of(x).grad_to is None:
        return value
    prepare_write(x)
    return record(OVERWRITTEN, (x, value), (bool(path_of(x)),))


def also_of(x: Tensor, gradient: Tensor) -> Tensor:
    """A gradient that PyTorch computes from `x` too, although it is constant in it.

    Where it is to be differentiated, the gradient of `x` is zeros, instead of an error because
    nothing depends on it.
    """
    if not LOCAL.state.grad or x._node.grad_to is None:
        return gradient
    meta = gradient._node.meta
    if x._node.meta.shape != meta.shape:
        x = record(REGISTRY["expand"], (x,), (), (), meta.shape)
    return laid_out(record(OVERWRITTEN, (x, gradient), (False,)), meta)


REMEMBERED: Op = Op(
    "remembered",
    "composite",
    infer=lambda metas, attrs, shape: metas[0],
    expand=lambda n, x: x,
    grads=(lambda g, y, x: also_of(x, g),),
    layout=lambda metas, attrs, meta: metas[0].strides,
    saves="",
    samples=s.calls(lambda: s.Sample((s.uniform(2, 3),), lambda x: record(REMEMBERED, (x,)))),
)


def remembered(x: Tensor) -> Tensor:
    """`x`, as an operand of something linear of which PyTorch's gradient is a function of it.

    That rule has been given `x`, and so its gradient of `x` is zeros.
    """
    return x if node_of(x).grad_to is None else record(REMEMBERED, (x,))


LINKED: Op = Op(
    "linked",
    "composite",
    # Inputs (something, a value): the value, which requires a gradient if the other does.
    infer=lambda metas, attrs, shape: metas[1],
    expand=lambda n, x, value: value,
    grads=(None, lambda g, y, x, value: g),
    layout=lambda metas, attrs, meta: metas[1].strides,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3), s.uniform(2, 3, seed=1)),
            lambda x, v: record(LINKED, (x, v)),
            smooth=False,
        ),
    ),
)


def _placed_each(n: Any, size: int, xs: Sequence[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """Each example placed so, one after the other."""
    (strides,) = n.attrs
    placed = None if strides is None else (max(n.meta.numel, 1), *strides)
    return record(n.op, tuple(xs), (placed,))


PLACED = Op(
    "placed",
    "composite",
    # The same value with other strides, None for those of row-major order: attrs (strides,).
    infer=lambda metas, attrs, shape: metas[0],
    expand=lambda n, x: x,
    grads=(lambda g, y, x: g,),
    layout=lambda metas, attrs, meta: attrs[0],
    saves="",
    batch=_placed_each,
    grad_fn=parts.placed,
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 3),), lambda x: contiguous(x.t())),
        lambda: s.Sample((s.uniform(2, 3),), lambda x: contiguous(x[:, ::2])),
    ),
)


def contiguous(input: Tensor) -> Tensor:
    """A copy in row-major order; `input` itself if its elements lie that way."""
    meta = node_of(input).meta
    return input if meta.contiguous else laid_out(input, meta.plain)


def in_format(input: Tensor, memory_format: Any) -> Tensor:
    """`input`, which nobody else may see yet, or a copy of it in one of PyTorch's formats."""
    meta = node_of(input).meta
    return laid_out_as(input, format_strides(meta, memory_format))


def placed_like(out: Tensor, input: Tensor, memory_format: Any = None) -> Tensor:
    """A new tensor `out` of the shape of `input` with its strides, or in a format."""
    strides = format_strides(node_to_read(input).meta, memory_format)
    return laid_out_as(made_like(out, input), strides)


def laid_out_as(out: Tensor, strides: Strides | None) -> Tensor:
    """A tensor nobody else has seen with other strides, which must be dense."""
    return laid_out(out, node_of(out).meta.with_strides(strides))


def suggested_format(meta: Meta) -> Any:
    """The format that PyTorch takes a value to be in by its strides."""
    if meta.strides is not None and prefers_channels_last(meta.shape, meta.strides):
        return channels_last if meta.ndim == 4 else channels_last_3d
    return contiguous_format


def formatted_like(out: Tensor, input: Tensor) -> Tensor:
    """A new tensor `out` in the format that the strides of `input` suggest."""
    meta = node_of(input).meta
    if meta.strides is None:
        return row_major(out)
    return laid_out_as(out, as_suggested((meta,), (), node_of(out).meta))


def format_strides(meta: Meta, memory_format: Any) -> Strides | None:
    """The strides of a copy of a value of `meta` in a format; None for row-major order."""
    if memory_format is None or memory_format is preserve_format:
        return None if meta.strides is None else like_strides(meta.shape, meta.strides)
    if memory_format is contiguous_format:
        return None
    rank = {channels_last: 4, channels_last_3d: 5}.get(memory_format)
    if rank is None:
        raise TypeError(
            f"memory_format must be a livegrad.memory_format, not {type(memory_format).__name__}"
        )
    if meta.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {memory_format!r} format")
    return channels_last_strides(meta.shape)
