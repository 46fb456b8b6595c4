"""The meta device: tensors that have a shape and a dtype, and no data.

Their nodes have a buffer from the beginning, one that cannot be read. So they are never pending and
reach no plan. Their specs are not remembered, so that every operation on them takes the slow way of
recording, which ends here: the usual inference, and a node for gradients to flow through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from livegrad import dtypes
from livegrad.device import CPU, META, has_data
from livegrad.dtypes import DType
from livegrad.graph.layout import like_strides
from livegrad.graph.meta import Meta, Shape, Sizes, meta_of, on_device
from livegrad.graph.node import Node, Site, Spec
from livegrad.graph.op import Op
from livegrad.graph.record import infer_spec, leaf_node, specialise, user_site, wrap
from livegrad.graph.state import LOCAL

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


class NoData:
    """The buffer of a tensor without data: whatever is asked of it is refused."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise no_data()


NO_DATA = NoData()


def no_data() -> NotImplementedError:
    """PyTorch's error for reading what is not there."""
    return NotImplementedError("Cannot copy out of meta tensor; no data!")


def empty(shape: Shape, dtype: DType) -> Tensor:
    """A tensor of this shape and dtype, without data."""
    with Sizes.unlimited():
        return _leaf(on_device(meta_of(shape, dtype), META))


def _leaf(meta: Meta) -> Tensor:
    return wrap(leaf_node(meta, NO_DATA))


def like(x: Node) -> Tensor:
    """A tensor of the shape and dtype of a node, without data or history."""
    return _leaf(on_device(x.meta, META))


def placed(x: Tensor, device: Any) -> Tensor:
    """`x`, which was just made, or what stands for it if `device` has no data."""
    return x if has_data(device) else like(x._node)


def moved(x: Tensor, dtype: DType) -> Tensor:
    """`x` as `dtype` on the meta device; NotImplementedError if that is where it comes from."""
    meta = x._node.meta
    if meta.device is META:
        raise no_data()
    strides = None if meta.strides is None else like_strides(meta.shape, meta.strides)
    return _leaf(on_device(meta_of(meta.shape, dtype).with_strides(strides), META))


def _check_places(nodes: Sequence[Node], indices: bool) -> None:
    """RuntimeError if a tensor has data, other than a single number or (if `indices`) indices.

    Constants that an operation or a gradient rule makes for itself are allowed too: they were
    recorded at the place in the user's program that is running now.
    """
    here = user_site()
    for node in nodes:
        meta = node.meta
        if meta.device is META or not meta.ndim or _is_ours(node, here):
            continue
        if not indices or nodes[0].meta.device is CPU or meta.dtype.category >= dtypes.FLOAT:
            expected = next(n.meta.device for n in nodes if n.meta.ndim)
            found = next(n.meta.device for n in nodes if n.meta.device is not expected)
            raise RuntimeError(
                f"Tensor on device {found} is not on the expected device {expected}!"
            )


def _is_ours(node: Node, here: Site) -> bool:
    """Whether a value was made, from nothing that was there before, by the call at `here`."""
    return node.site == here and all([_is_ours(x, here) for x in node.inputs])


def twin(meta: Meta) -> Meta:
    """The Meta of a value that is the same but has data: what inference works with."""
    return on_device(meta, CPU)


def record_elementwise(
    op: Op, nodes: Sequence[Node], numbers: Sequence[Any], operands: Any, pattern: str, grad: Any
) -> Tensor:
    """What `record.elementwise` does, where an operand has no data."""
    _check_places(nodes, indices=False)
    key = tuple([twin(x) if isinstance(x, Meta) else x for x in operands])
    with Sizes.unlimited():
        spec = op.cache.get(key) or specialise(op, key, pattern, key)
    return recorded(spec, tuple(nodes), tuple(numbers), grad)


def record(
    op: Op,
    nodes: tuple[Node, ...],
    attrs: tuple[Any, ...],
    args: tuple[Any, ...],
    shape: Shape | None,
    grad: Any,
) -> Tensor:
    """What `record.record` does, where an input has no data."""
    _check_places(nodes, indices=True)
    key = (tuple([twin(node.meta) for node in nodes]), attrs, shape)
    with Sizes.unlimited():
        spec = op.cache.get(key) or infer_spec(op, key, nodes, args)
    return recorded(spec, nodes, args, grad)


def recorded(spec: Spec, nodes: tuple[Node, ...], args: tuple[Any, ...], grad: Any) -> Tensor:
    """The result of an operation whose spec, were there data, would be `spec`."""
    out = _leaf(on_device(spec.meta, META))
    node = out._node
    if grad is not None and spec.grad and LOCAL.state.grad:
        node.spec = Spec(spec.op, spec.attrs, node.meta)
        node.spec.floats, node.spec.grad = spec.floats, spec.grad
        node.inputs, node.args, node.grad_to = nodes, args, True
    return out


def written(x: Tensor, value: Tensor) -> Tensor:
    """What the tensor `x` becomes when `value`, of which one has no data, is written to it."""
    if x._node.meta.device is META:
        return like(value._node)
    raise no_data()
