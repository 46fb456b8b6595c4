"""Recording: every operation a program runs becomes a node here, in about a microsecond.

`unary`, `binary` and `record` look up the spec of the new node (shape, dtype, signature) in the
op's cache, link it to its inputs, note the user's line, and hand back a tensor. Nothing is
computed. Functions marked `hot` are translated to native code: they must stay within the subset of
Python that `native/translate.py` lists.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.device import CPU
from livegrad.dtypes import DType
from livegrad.graph import elsewhere
from livegrad.graph.events import RECORDED, tell_recorded
from livegrad.graph.handle import COUNTS_ARE_KNOWN, NOBODY, Handle, follow, node_of, wrap
from livegrad.graph.infer import elementwise_spec, infer_spec, not_a_tensor, not_structure
from livegrad.graph.meta import Shape
from livegrad.graph.node import CYCLES, Node, Spec
from livegrad.graph.numbers import (
    FIRST_INT,
    INTS_END,
    NUMBER_KINDS,
    Number,
    as_arguments,
    as_float,
    as_number,
    too_large,
    wrapped,
)
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.site import site_above
from livegrad.graph.state import AT_ONCE, LOCAL, Runtime, flush_many
from livegrad.native.calls import half_at, remainder, untrack, word_at
from livegrad.native.hot import hot
from livegrad.native.layout import ITEMS, REFERENCES

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

_getframe = sys._getframe
_new = object.__new__


@hot
def append(
    spec: Spec, inputs: tuple[Node, ...], args: tuple[Any, ...], grad_to: bool | None
) -> Tensor:
    """Makes the node and its tensor, and puts them at the end of the thread's pending list."""
    state = LOCAL.state
    node = _new(Node)
    node.spec = spec
    node.meta = spec.meta
    node.inputs = inputs
    node.args = args
    node.grad_to = grad_to if state.grad else None
    node.buffer = None
    node.cut = None
    node.spent = state.inference
    node.walked = None
    if AT_ONCE.is_on and node.grad_to is None:
        buffer = AT_ONCE.by.run_alone(spec, inputs, args)
        if buffer is not None:
            return _computed(node, buffer)
    nodes = state.nodes
    place = len(nodes)
    node.index = state.base + place
    if state.site is None:
        # Above us are at least a recording function and a public one: start past both.
        node.site = site_above(_getframe(3))
    else:
        node.site = state.site
    untrack(args)
    if not CYCLES.are_possible:
        untrack(inputs)
        untrack(node)
    tensor = wrap(node)
    if RECORDED:
        tell_recorded(node)
    if state.reference:
        Runtime.evaluate(node)
        return tensor
    try:
        nodes.append(node)
        state.handles.append(tensor)
    except BaseException:  # Ctrl-C between the two
        forget_from(place)
        raise
    if COUNTS_ARE_KNOWN and remainder(place, _SWEPT) == _SWEPT - 1 and not state.held:
        let_go_of_dead(state.handles)
    if place > state.most + 0 and not state.held:
        flush_many(node)
    return tensor


@hot
def _computed(node: Node, buffer: Any) -> Tensor:
    """The tensor of a node that was run at once: as after a flush, with nothing left to refer to.

    No line of the program will be blamed for it.
    """
    node.buffer = buffer
    node.inputs = ()
    node.index = -1
    node.site = None
    untrack(node.args)
    if not CYCLES.are_possible:
        untrack(node)
    return wrap(node)


# Recorded nodes between two looks at what the program has dropped of them, and how far back they
# go: what is let go soon leaves memory to the next that is still in the processor's cache.
_SWEPT = 64
_LOOKED_AT = 192


@hot
def let_go_of_dead(handles: list[Any]) -> None:
    """Lets go of the latest handles that nobody else refers to: they need not wait for a flush.

    The fewer objects wait, the less Python's garbage collector looks at.
    """
    place = len(handles)
    end = place - _LOOKED_AT if place > _LOOKED_AT else 0
    items = word_at(id(handles) + ITEMS)
    while place > end:
        place -= 1
        # One reference, the list's; to look at it, ours is not needed.
        if half_at(word_at(items + 8 * place) + REFERENCES) == 1:
            handle = handles[place]
            if isinstance(handle, Handle):
                handles[place] = NOBODY
            handle = None


def forget_from(place: int) -> None:
    """Takes what was recorded from a place on off the lists."""
    state = LOCAL.state
    del state.nodes[place:], state.handles[place:]


@hot
def unary(op: Op, x: Any) -> Tensor:
    """Records an elementwise op of one tensor."""
    try:
        if x._share is not None:
            follow(x)
        node = x._node
    except AttributeError:
        raise not_a_tensor(op, x) from None
    spec = op.cache.get(node.meta)
    if spec is None:
        if node.meta.device is not CPU:
            return elementwise(op, (x,))
        spec = elementwise_spec(op, (node.meta,), "t", node.meta)
    grad = node.grad_to
    return append(spec, (node,), (), None if grad is None else spec.grad)


@hot
def binary(op: Op, a: Any, b: Any) -> Tensor:
    """Records an elementwise op of two tensors, or of a tensor and a number on either side."""
    kind = type(b)
    if kind is float or kind is int or kind is bool:
        try:
            if a._share is not None:
                follow(a)
            node = a._node
        except AttributeError:
            raise not_a_tensor(op, a) from None
        key = (node.meta, kind)
        spec = op.cache.get(key)
        if spec is None:
            if node.meta.device is not CPU:
                return elementwise(op, (a, b))
            spec = elementwise_spec(op, (node.meta, kind), "ts", key)
        grad = None if node.grad_to is None else spec.grad
        if spec.floats:
            if kind is not float:
                b = float(b)
        elif kind is int and not FIRST_INT <= b < INTS_END:
            b = wrapped(b)
        return append(spec, (node,), (b,), grad)
    if not isinstance(a, Handle) or not isinstance(b, Handle):
        if op.result == "bool" and not isinstance(a, Handle):
            raise not_a_tensor(op, a)  # as PyTorch, which compares tensors with numbers only
        return elementwise(op, (a, b))
    if a._share is not None:
        follow(a)
    if b._share is not None:
        follow(b)
    left, right = a._node, b._node
    key2 = (left.meta, right.meta)
    spec = op.cache.get(key2)
    if spec is None:
        if left.meta.device is not CPU or right.meta.device is not CPU:
            return elementwise(op, (a, b))
        spec = elementwise_spec(op, key2, "tt", key2)
    if left.grad_to is None and right.grad_to is None:
        return append(spec, (left, right), (), None)
    return append(spec, (left, right), (), spec.grad)


@hot
def elementwise(op: Op, operands: Sequence[Any]) -> Tensor:
    """Records an elementwise op of any mixture of tensors and numbers, at least one a tensor."""
    nodes: list[Node] = []
    numbers: list[Number] = []
    keys: list[Any] = []
    pattern = ""
    grad = None
    for x in operands:
        if isinstance(x, Handle):
            node = node_of(x)
            nodes.append(node)
            keys.append(node.meta)
            pattern += "t"
            if node.grad_to is not None:
                grad = True
        else:
            number = as_number(op, x)
            if type(number) is complex:
                return _of_complex_numbers(op, operands)
            numbers.append(number)
            keys.append(NUMBER_KINDS[type(number)])
            pattern += "s"
    key = tuple(keys)
    spec = op.cache.get(key)
    if spec is None:
        if _is_elsewhere(nodes):
            return elsewhere.record_elementwise(op, nodes, numbers, key, pattern, grad)
        spec = elementwise_spec(op, key, pattern, key)
    if grad:
        grad = spec.grad
    if spec.floats:
        numbers = [x if isinstance(x, float) else as_float(x) for x in numbers]
    elif numbers:
        numbers = [
            wrapped(x) if type(x) is int and not FIRST_INT <= x < INTS_END else x for x in numbers
        ]
    return append(spec, tuple(nodes), tuple(numbers), grad)


def _of_complex_numbers(op: Op, operands: Sequence[Any]) -> Tensor:
    """An elementwise op of complex numbers, too: the result lies in memory as that of real ones."""
    out = elementwise(op, _with_complex_tensors(operands))
    meta = out._node.meta
    if op.layout is None:
        return out
    metas = tuple([node_of(x).meta for x in operands if isinstance(x, Handle)])
    pattern = "".join(["t" if isinstance(x, Handle) else "s" for x in operands])
    laid = meta.with_strides(op.layout(metas, (out._node.attrs[0], pattern), meta))
    return out if laid is meta else record(REGISTRY["placed"], (out,), (laid.strides,))


def _with_complex_tensors(operands: Sequence[Any]) -> list[Any]:
    """Operands with complex numbers as 0-d tensors: run-time numbers are real.

    They get the dtype of the result, which then is the same as with numbers.
    """
    tensors = [node_of(x).meta for x in operands if isinstance(x, Handle)]
    ranked = [(m.dtype, 2 if m.ndim else 1) for m in tensors]
    dtype = dtypes.result_dtype((*ranked, (dtypes.default_complex(), 0)))
    return [_complex_tensor(x, dtype) if _is_complex_number(x) else x for x in operands]


def _is_complex_number(x: Any) -> bool:
    return isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c"


def _complex_tensor(x: Any, dtype: DType) -> Tensor:
    value = complex(x)
    return record(REGISTRY["full"], (), (dtype,), (value.real, value.imag), ())


def _autocasted(op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
    caster: Any = LOCAL.state.caster
    return inputs if op.autocast is None else caster(op.autocast, inputs)


@hot
def record(
    op: Op,
    inputs: Sequence[Any],
    attrs: tuple[Any, ...] = (),
    args: tuple[Any, ...] = (),
    shape: Shape | None = None,
) -> Tensor:
    """Records any op that is not elementwise.

    `attrs` are structure, `args` run-time numbers, `shape` the result's shape where the inputs do
    not determine it.
    """
    if LOCAL.state.caster is not None:
        inputs = _autocasted(op, inputs)
    nodes = []
    metas: Any = []
    grad = None
    try:
        for x in inputs:
            if x._share is not None:
                follow(x)
            node = x._node
            nodes.append(node)
            metas.append(node.meta)
            if node.grad_to is not None:
                grad = True
    except AttributeError:
        raise not_a_tensor(op, x) from None
    metas = tuple(metas)
    key = (metas, attrs, shape)
    try:
        spec = op.cache.get(key)
    except TypeError:
        raise not_structure(op, attrs) from None
    if spec is None:
        if _is_elsewhere(nodes):
            return elsewhere.record(op, tuple(nodes), attrs, args, shape, grad)
        spec = infer_spec(op, key, tuple(nodes), args)
    if grad:
        grad = spec.grad
    if args:
        for x in args:
            kind = type(x)
            if kind is int:
                if not FIRST_INT <= x < INTS_END:
                    raise too_large(op, x)
            elif kind is not float and kind not in NUMBER_KINDS:
                args = as_arguments(op, args)
    return append(spec, tuple(nodes), args, grad)


@hot
def _is_elsewhere(nodes: Sequence[Node]) -> bool:
    for node in nodes:  # noqa: SIM110
        if node.meta.device is not CPU:
            return True
    return False
