"""Tensors that are not in the CPU's memory: those on the meta device, which have no data, and those
on devices that were registered.

Specs for them are not remembered by ops, so that every operation on them takes the slow way of
recording, which ends here: the usual inference, as if they were on the CPU, and a node that is
pending like all others. Without data there is nothing to compute: such nodes have a buffer from the
beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from livegrad import dtypes
from livegrad.device import CPU, META, SPARSE, Device, backend_of, home, register
from livegrad.dtypes import DType
from livegrad.graph.events import RECORDED, tell_recorded
from livegrad.graph.handle import leaf_node, wrap
from livegrad.graph.infer import elementwise_spec, infer_spec
from livegrad.graph.layout import like_strides
from livegrad.graph.meta import Meta, Shape, Sizes, meta_of, on_device
from livegrad.graph.node import Node, Site, Spec
from livegrad.graph.op import Op
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, Runtime, flush

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


# ---------------------------------------------------------------------------------- without data


class NoData:
    """The buffer of a tensor without data: whatever is asked of it is refused."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise no_data()


NO_DATA = NoData()


class Dataless:
    """The backend of the meta device."""

    def copy_in(self, values: Any, meta: Meta) -> NoData:
        return NO_DATA

    def copy_out(self, buffer: Any, meta: Meta) -> NoReturn:
        raise no_data()


register("meta", Dataless())


def no_data() -> NotImplementedError:
    """PyTorch's error for reading what is not there."""
    return NotImplementedError("Cannot copy out of meta tensor; no data!")


def empty(shape: Shape, dtype: DType) -> Tensor:
    """A tensor of this shape and dtype, without data."""
    with Sizes.unlimited():
        return _without_data(on_device(meta_of(shape, dtype), META))


def _without_data(meta: Meta) -> Tensor:
    return wrap(leaf_node(meta, NO_DATA))


def like(x: Node) -> Tensor:
    """A tensor of the shape and dtype of a node, without data or history."""
    return _without_data(on_device(x.meta, META))


# --------------------------------------------------------------------------------- going elsewhere


def placed(x: Tensor, device: Any) -> Tensor:
    """`x`, which was just made on the CPU, on `device`."""
    place = home(device)
    return x if place is CPU else like(x._node) if place is META else _brought(x, place)


def moved(x: Tensor, device: Device, dtype: DType) -> Tensor:
    """`x` as `dtype` on another device; NotImplementedError if it has no data."""
    meta = x._node.meta
    if meta.device is META:
        raise no_data()
    if device is not META:
        x = Moving.cast(x, dtype)
        flows = x._node.grad_to is not None and LOCAL.state.grad
        return Moving.move(x, device) if flows else copied(x, device)
    strides = None if meta.strides is None else like_strides(meta.shape, meta.strides)
    return _without_data(on_device(meta_of(meta.shape, dtype).with_strides(strides), META))


class Moving:
    """What operations others fill in, so that recording need not know them.

    cast(x, dtype)     the tensor as another dtype, on its device
    move(x, device)    `copied`, through which gradients flow
    """

    cast: Callable[[Tensor, DType], Tensor]
    move: Callable[[Tensor, Device], Tensor]


def copied(x: Tensor, device: Device) -> Tensor:
    """The values of `x` on another device, without its history."""
    node = x._node
    if node.buffer is None:
        flush("a copy to another device", node)
    values = backend_of(node.meta.device).copy_out(node.buffer, node.meta)
    meta = on_device(node.meta, device)
    return wrap(leaf_node(meta, backend_of(device).copy_in(values, meta)))


def written(x: Tensor, value: Tensor) -> Tensor:
    """What the tensor `x` becomes when `value`, which is on another device, is written to it."""
    device, meta = x._node.meta.device, value._node.meta
    return like(value._node) if device is META else moved(value, device, meta.dtype)


# -------------------------------------------------------------------------------------- recording


def record_elementwise(
    op: Op, nodes: Sequence[Node], numbers: Sequence[Any], operands: Any, pattern: str, grad: Any
) -> Tensor:
    """What `record.elementwise` does, where an operand is elsewhere."""
    _refuse_sparse(op, nodes)
    device = _common_device(nodes, indices=False)
    key = tuple([twin(x) if isinstance(x, Meta) else x for x in operands])
    with sizes_on(device):
        spec = op.cache.get(key) or elementwise_spec(op, key, pattern, key)
    return recorded(spec, tuple(nodes), tuple(numbers), grad, device)


def record(
    op: Op,
    nodes: tuple[Node, ...],
    attrs: tuple[Any, ...],
    args: tuple[Any, ...],
    shape: Shape | None,
    grad: Any,
) -> Tensor:
    """What `record.record` does, where an input is elsewhere."""
    _refuse_sparse(op, nodes)
    device = _common_device(nodes, indices=True)
    key = (tuple([twin(node.meta) for node in nodes]), attrs, shape)
    with sizes_on(device):
        spec = op.cache.get(key) or infer_spec(op, key, nodes, args)
    return recorded(spec, nodes, args, grad, device)


class Sparse:
    """Whether there may be sparse tensors: until then nobody need ask."""

    exist = False


def _refuse_sparse(op: Op, nodes: Sequence[Node]) -> None:
    """PyTorch's error if an input is sparse: only `livegrad.sparse` computes with such."""
    for node in nodes:
        if node.meta.device is SPARSE:
            raise not_for_sparse(op.name, node.buffer.backend)


def not_for_sparse(name: str, backend: str) -> NotImplementedError:
    """PyTorch's error for a function that sparse tensors do not have."""
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend. Convert the "
        "sparse tensor with .to_dense() first"
    )


def sizes_on(device: Device) -> Any:
    """Within it values need not fit into memory, if they have none."""
    return Sizes.unlimited() if device is META else nullcontext()


def twin(meta: Meta) -> Meta:
    """The Meta of a value that is the same but on the CPU: what inference works with."""
    return on_device(meta, CPU)


def recorded(
    spec: Spec, nodes: tuple[Node, ...], args: tuple[Any, ...], grad: Any, device: Device
) -> Tensor:
    """The result of an operation whose spec, were it on the CPU, would be `spec`."""
    state = LOCAL.state
    inputs = nodes
    if device is not META:
        inputs = tuple([_brought(wrap(x), device)._node for x in nodes])
    out = wrap(leaf_node(on_device(spec.meta, device), None))
    node = out._node
    node.spec, node.inputs, node.args = _spec_on(spec, device), inputs, args
    node.spent = state.inference
    if grad is not None and spec.grad and state.grad:
        node.grad_to = True
    if device is not META:
        _wait(out)
    else:
        node.buffer = NO_DATA
        if node.grad_to is None:
            node.inputs = ()
    return out


@lru_cache(maxsize=4096)
def _spec_on(spec: Spec, device: Device) -> Spec:
    """The spec that differs from `spec` by its device. Plans know of none: `plain` has no other."""
    found = Spec(spec.op, spec.attrs, on_device(spec.meta, device))
    found.floats, found.grad, found.plain = spec.floats, spec.grad, spec.plain or spec
    return found


def _wait(out: Tensor) -> None:
    """Puts what was just recorded at the end of the pending list."""
    state, node = LOCAL.state, out._node
    node.index = state.base + len(state.nodes)
    if state.site is not None:
        node.site = state.site
    if RECORDED:
        tell_recorded(node)
    if state.reference:
        Runtime.evaluate(node)
        return
    state.elsewhere = True
    state.nodes.append(node)
    state.handles.append(out)
    if len(state.nodes) > state.most and not state.held:
        flush("many nodes were pending", node)


def _brought(x: Tensor, device: Device) -> Tensor:
    """A tensor on `device`, or a copy of it there; what is made from nothing is made there."""
    node = x._node
    if node.meta.device is device:
        return x
    if not _is_made_of_nothing(node):
        return moved(x, device, node.meta.dtype)
    return recorded(node.spec, node.inputs, node.args, None, device)


def _is_made_of_nothing(node: Node) -> bool:
    """Whether a pending value reads no data."""
    pending = node.buffer is None and node.spec.op.kind != "leaf"
    return pending and all([_is_made_of_nothing(x) for x in node.inputs])


def _common_device(nodes: Sequence[Node], indices: bool) -> Device:
    """The device that `nodes` are on; RuntimeError if they are on several.

    A single number may be on the CPU, and so may, if `indices`, the indices of a tensor without
    data. Constants that an operation or a gradient rule makes for itself are allowed too: they were
    recorded at the place in the user's program that is running now.
    """
    here = user_site()
    device = next(node.meta.device for node in nodes if node.meta.device is not CPU)
    indexed = indices and device is META and nodes[0].meta.device is META
    for node in nodes:
        meta = node.meta
        if meta.device is device:
            continue
        if meta.device is CPU:
            if not meta.ndim or _is_ours(node, here):
                continue
            if indexed and meta.dtype.category < dtypes.FLOAT:
                continue
        raise _on_several_devices(nodes)
    return device


def _on_several_devices(nodes: Sequence[Node]) -> RuntimeError:
    whole = [node.meta.device for node in nodes if node.meta.ndim]
    first, second, *_ = dict.fromkeys([*whole, *[node.meta.device for node in nodes]])
    if META in (first, second):
        return RuntimeError(f"Tensor on device {second} is not on the expected device {first}!")
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {second}!"
    )


def _is_ours(node: Node, here: Site) -> bool:
    """Whether a value was made, from nothing that was there before, by the call at `here`."""
    return node.site == here and all([_is_ours(x, here) for x in node.inputs])
