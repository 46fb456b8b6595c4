"""Recording: every operation a program runs becomes a node here, in about a microsecond.

`unary`, `binary` and `record` look up the spec of the new node (shape, dtype, signature) in the
op's cache, link it to its inputs, note the user's line, and hand back a tensor. Nothing is
computed. Functions marked `hot` are translated to native code: they must stay within the subset of
Python that `native/translate.py` lists.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Sequence
from operator import index as as_index
from types import FrameType
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.device import CPU
from livegrad.dtypes import DType
from livegrad.graph.blame import wrong_class
from livegrad.graph.events import RECORDED, tell_recorded
from livegrad.graph.layout import like_strides, repeats
from livegrad.graph.meta import Meta, Shape, meta_of, on_device
from livegrad.graph.node import Interior, Node, Site, Spec, place_of
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.state import (
    LOCAL,
    MOST_PENDING_BYTES,
    Runtime,
    flush,
    scratch_state,
)
from livegrad.graph.symbol import Symbol, SymbolicFloat, real
from livegrad.native.hot import hot, hot_slots

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Number = bool | int | float


class IntArg(int):
    """A run-time integer seen while planning: it remembers its slot in the plan's inputs."""

    slot: int


class FloatArg(float):
    """A run-time float seen while planning: it remembers its slot in the plan's scalars."""

    slot: int


class Specialised:
    """Whether a rule computed with, or looked at, a run-time number since `seen` was cleared.

    The plan then holds for these numbers only. Rules should pass args on as they are.
    """

    seen = False


def _noticed(name: str, base: type) -> Any:
    plain = getattr(base, name)

    def method(self: Any, *others: Any) -> Any:
        Specialised.seen = True
        return plain(self, *others)

    return method


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow neg pos abs "
    "divmod rdivmod float int bool eq ne lt le gt ge round trunc floor ceil hash"
).split():
    setattr(IntArg, f"__{_name}__", _noticed(f"__{_name}__", int))
    setattr(FloatArg, f"__{_name}__", _noticed(f"__{_name}__", float))
for _name in "and rand or ror xor rxor lshift rlshift rshift rrshift invert".split():
    setattr(IntArg, f"__{_name}__", _noticed(f"__{_name}__", int))


_NUMBER_KINDS: dict[type, type] = {
    bool: bool,
    int: int,
    float: float,
    IntArg: int,
    FloatArg: float,
    Symbol: int,
    SymbolicFloat: float,
}

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Files known to be livegrad's own, and files known not to be.
_inside: set[str] = set()
_outside: set[str] = set()
_getframe = sys._getframe
_new = object.__new__
_refs = sys.getrefcount
_WeakRef = weakref.ref
# Run-time integers are int64. As floats: translated code takes integers for int64 to begin with.
_FIRST, _END = -(2.0**63), 2.0**63


# One view operation: op, attrs, args, shape, as `record` takes them.
Step = tuple[Op, tuple[Any, ...], tuple[Any, ...], Shape | None]


class BareHandle:
    """What a Tensor is to the graph: a mutable reference to a node, and perhaps to a view cell.

    Slots, because recording touches these two on every operation.
    """

    __slots__ = ("__dict__", "__weakref__", "_cell", "_node")

    _node: Node
    _cell: Cell | None
    # Set on views only: the view operations that lead here from the cell's node, and the version
    # of the cell they were applied to.
    _path: tuple[Step, ...] = ()
    _seen = 0
    # Writes to a tensor that shared no cell yet.
    _writes = 0
    # Set on x.data and its views, and on what was made to share another storage: how often they
    # were written, which the `_version` of others does not count.
    _unseen: list[int] | None = None
    # Why it may not be written while gradients are recorded: see `check_writable`.
    _made: str | None = None
    # The count of writes when it was, of a view whose history is gone after the next one.
    _made_at: int | None = None
    # The tensor that this is a view of, if that shares its memory, but no history, with others.
    _root: Any = None
    # Whether it was brought up to date after a counted write to what it is a view of.
    _followed = False
    # Whether it was a view, of a tensor that was made to show something else: it stays that.
    _was_view: bool | None = None
    # The part of memory shared with somebody else that it shows: see runtime/shared.py.
    _shown: Any = None


# Every handle is a Tensor, which the graph must not import: a type checker may take it for one.
if TYPE_CHECKING:
    Handle = Tensor
else:
    Handle = BareHandle


@hot_slots
class Cell:
    """The value that a tensor and its views share: PyTorch's storage.

    Writing through any of them makes a new node for the whole and raises `version`; the others
    apply their path to it again when they are next used.

    `memory` is there if somebody outside can see the values as well (NumPy, another process): then
    it holds them, and `_node` is what they were once; see graph/shared.py. `parent` is there if
    the storage has grown: the cell of the larger one, the path from its value, and its version.
    `base` refers to the tensor that is the whole of it. `uncounted` writes are no writes to
    PyTorch's `_version`, and views keep their place in the graph when they follow them: the last
    of these, one after another, took the version from `silent[0]` to `silent[1]`.
    """

    __slots__ = ("_node", "base", "memory", "parent", "silent", "uncounted", "version")

    def __init__(self, base: Handle) -> None:
        if base._node.meta.strides is not None:
            make_dense(base)
        self._node = base._node
        self.base = _WeakRef(base)
        self.memory: Any = None
        self.parent: tuple[Cell, tuple[Step, ...], int] | None = None
        self.silent = (0, 0)
        self.uncounted = 0
        self.version = base._seen = base._writes


# Filled in by `livegrad.tensor`, so that ops need not import it.
_tensor_class: type[Tensor] = Handle
_clone: Op


def set_tensor_class(cls: type[Tensor], clone: Op) -> None:
    """Names the class of the handles that recording hands out, and the op that copies a value."""
    global _tensor_class, _clone
    _tensor_class, _clone = cls, clone


# ------------------------------------------------------------------------------- user's line


@hot
def user_site(start: FrameType | None = None) -> Site:
    """The place in the user's program that is running now: the first frame outside livegrad."""
    override = LOCAL.state.site
    if override is not None:
        return override
    frame: FrameType | None = _getframe(1) if start is None else start
    while frame is not None:
        name = frame.f_code.co_filename
        if name not in _inside:
            if name in _outside or not is_inside(name):
                _outside.add(name)
                return frame.f_code, frame.f_lasti
            _inside.add(name)
        frame = frame.f_back
    bottom = _getframe(1)
    return bottom.f_code, bottom.f_lasti


def is_inside(name: str) -> bool:
    # The demo is a user's program that happens to ship with the package.
    return name.startswith(_PACKAGE) and name != _PACKAGE + "demo.py"


# --------------------------------------------------------------------------------- recording


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
    nodes = state.nodes
    place = len(nodes)
    node.index = state.base + place
    if state.site is None:
        # Above us are at least a recording function and a public one: start past both.
        frame = _getframe(3)
        code = frame.f_code
        if code.co_filename in _outside:
            node.site = (code, frame.f_lasti)
        else:
            # Most often one wrapper lies between, such as those of ops/out.py.
            back = frame.f_back
            if (
                back is not None
                and back.f_code.co_filename in _outside
                and code.co_filename in _inside
            ):
                node.site = (back.f_code, back.f_lasti)
            else:
                node.site = user_site(frame)
    else:
        node.site = state.site
    tensor = _new(_tensor_class)
    tensor._node = node
    tensor._cell = None
    if RECORDED:
        tell_recorded(node)
    if state.reference:
        Runtime.evaluate(node)
        return tensor
    try:
        nodes.append(node)
        state.handles.append(tensor)
    except BaseException:  # Ctrl-C between the two
        _forget_from(place)
        raise
    if place > state.most + 0 and not state.held:
        flush("many nodes were pending", node)
    return tensor


def _forget_from(place: int) -> None:
    state = LOCAL.state
    del state.nodes[place:], state.handles[place:]


@hot
def unary(op: Op, x: Any) -> Tensor:
    """Records an elementwise op of one tensor."""
    try:
        if x._cell is not None:
            sync(x)
        node = x._node
    except AttributeError:
        raise _not_a_tensor(op, x) from None
    spec = op.cache.get(node.meta)
    if spec is None:
        if node.meta.device is not CPU:
            return elementwise(op, (x,))
        spec = specialise(op, (node.meta,), "t", node.meta)
    grad = node.grad_to
    return append(spec, (node,), (), None if grad is None else spec.grad)


@hot
def binary(op: Op, a: Any, b: Any) -> Tensor:
    """Records an elementwise op of two tensors, or of a tensor and a number on either side."""
    kind = type(b)
    if kind is float or kind is int or kind is bool:
        try:
            if a._cell is not None:
                sync(a)
            node = a._node
        except AttributeError:
            raise _not_a_tensor(op, a) from None
        key = (node.meta, kind)
        spec = op.cache.get(key)
        if spec is None:
            if node.meta.device is not CPU:
                return elementwise(op, (a, b))
            spec = specialise(op, (node.meta, kind), "ts", key)
        grad = None if node.grad_to is None else spec.grad
        if spec.floats:
            if kind is not float:
                b = float(b)
        elif kind is int and not _FIRST <= b < _END:
            b = _wrapped(b)
        return append(spec, (node,), (b,), grad)
    if not isinstance(a, Handle) or not isinstance(b, Handle):
        if op.result == "bool" and not isinstance(a, Handle):
            raise _not_a_tensor(op, a)  # as PyTorch, which compares tensors with numbers only
        return elementwise(op, (a, b))
    if a._cell is not None:
        sync(a)
    if b._cell is not None:
        sync(b)
    left, right = a._node, b._node
    key2 = (left.meta, right.meta)
    spec = op.cache.get(key2)
    if spec is None:
        if left.meta.device is not CPU or right.meta.device is not CPU:
            return elementwise(op, (a, b))
        spec = specialise(op, key2, "tt", key2)
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
            number = _as_number(op, x)
            if type(number) is complex:
                return elementwise(op, _with_complex_tensors(operands))
            numbers.append(number)
            keys.append(_NUMBER_KINDS[type(number)])
            pattern += "s"
    key = tuple(keys)
    spec = op.cache.get(key)
    if spec is None:
        if _is_elsewhere(nodes):
            return _elementwise_elsewhere(op, nodes, numbers, key, pattern, grad)
        spec = specialise(op, key, pattern, key)
    if grad:
        grad = spec.grad
    if spec.floats:
        numbers = [x if isinstance(x, float) else _as_float(x) for x in numbers]
    elif numbers:
        numbers = [_wrapped(x) if type(x) is int and not _FIRST <= x < _END else x for x in numbers]
    return append(spec, tuple(nodes), tuple(numbers), grad)


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


def _wrapped(x: int) -> int:
    """The int64 with the bits of a uint64."""
    if not 0 <= x < 1 << 64:
        raise OverflowError(f"int too big to convert; got {x}; expected 64 bits")
    return x - (1 << 64)


def _as_float(x: Number) -> Number:
    # While planning, a run-time integer stays what it is: it remembers its slot.
    if type(x) is Symbol:
        return real(x)
    return x if type(x) is IntArg else float(x)


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
            if x._cell is not None:
                sync(x)
            node = x._node
            nodes.append(node)
            metas.append(node.meta)
            if node.grad_to is not None:
                grad = True
    except AttributeError:
        raise _not_a_tensor(op, x) from None
    metas = tuple(metas)
    key = (metas, attrs, shape)
    try:
        spec = op.cache.get(key)
    except TypeError:
        raise _not_structure(op, attrs) from None
    if spec is None:
        if _is_elsewhere(nodes):
            return _record_elsewhere(op, tuple(nodes), attrs, args, shape, grad)
        spec = infer_spec(op, key, tuple(nodes), args)
    if grad:
        grad = spec.grad
    if args:
        for x in args:
            kind = type(x)
            if kind is int:
                if not _FIRST <= x < _END:
                    raise _too_large(op, x)
            elif kind is not float and kind not in _NUMBER_KINDS:
                args = _numbers(op, args)
    return append(spec, tuple(nodes), args, grad)


def infer_spec(op: Op, key: Any, nodes: tuple[Node, ...], args: tuple[Any, ...]) -> Spec:
    """The spec of an op that is not elementwise, inferred for contiguous values, then laid out."""
    metas, attrs, shape = key
    plains = tuple([m.plain for m in metas])
    plain = op.cache.get((plains, attrs, shape))
    if plain is None:
        assert op.infer is not None
        _check_attrs(op, attrs)
        meta = op.infer(plains, attrs, shape)
        if any([m.dtype.category == dtypes.COMPLEX for m in metas]):
            _check_complex(op, nodes, attrs, args, meta)
        plain = op.remember_laid_out((plains, attrs, shape), op.make_spec(attrs, meta), plains)
    return plain if plains == metas else op.remember_laid_out(key, plain.plain or plain, metas)


def infer_meta(op: Op, meta: Meta, attrs: tuple[Any, ...], shape: Shape | None) -> Meta:
    """The meta of what a view op shows of a value of `meta`."""
    if meta.device is not CPU:
        with_data = infer_meta(op, on_device(meta, CPU), attrs, shape)
        return on_device(with_data, meta.device)
    key = ((meta,), attrs, shape)
    spec: Spec = op.cache.get(key) or infer_spec(op, key, (), ())
    return spec.meta


def _is_elsewhere(nodes: Sequence[Node]) -> bool:
    return any([node.meta.device is not CPU for node in nodes])


def _elementwise_elsewhere(*recorded: Any) -> Tensor:
    from livegrad.graph.elsewhere import record_elementwise

    return record_elementwise(*recorded)


def _record_elsewhere(*recorded: Any) -> Tensor:
    from livegrad.graph import elsewhere

    return elsewhere.record(*recorded)


def _not_structure(op: Op, attrs: tuple[Any, ...]) -> TypeError:
    """The error of attrs that have no hash: one of them is a list, an array or the like."""
    wrong = next((x for x in attrs if getattr(type(x), "__hash__", None) is None), attrs)
    return wrong_class(wrong, "a number, a word or a tuple of them", op.name)


def _check_attrs(op: Op, attrs: tuple[Any, ...]) -> None:
    """TypeError if an argument that is structure is a tensor, whose value nobody has read."""
    for x in attrs:
        if isinstance(x, Handle) or (
            isinstance(x, tuple) and any(isinstance(y, Handle) for y in x)
        ):
            raise TypeError(
                f"{op.name}(): got a Tensor where a number is expected. Read its value with .item()"
            )


def _numbers(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Run-time numbers some of which are of other classes, such as NumPy's."""
    return tuple([x if type(x) in _NUMBER_KINDS else _number(op, x) for x in args])


def _number(op: Op, x: Any) -> Number:
    if hasattr(x, "__index__"):
        return as_index(x)
    if hasattr(x, "__float__"):
        return float(x)
    raise wrong_class(x, "Number", op.name)


def _too_large(op: Op, x: int) -> RuntimeError:
    return RuntimeError(
        f"{op.name}: value cannot be converted to type int64_t without overflow; got {x}"
    )


def _check_complex(
    op: Op, nodes: tuple[Node, ...], attrs: tuple[Any, ...], args: tuple[Any, ...], meta: Meta
) -> None:
    """Raises if `op` does not take complex inputs like these; a composite is expanded to see."""
    if not op.complex:
        raise not_implemented(op.name, next(x.meta.dtype for x in nodes if x.meta.dtype.is_complex))
    if op.kind != "composite":
        return
    node = leaf_node(meta, None)
    node.spec, node.inputs, node.args = Spec(op, attrs, meta), nodes, args
    with scratch_state() as scratch:
        scratch.grad, scratch.reference, scratch.held, scratch.site = False, False, True, node.site
        assert op.expand is not None
        op.expand(node, *[wrap(x) for x in nodes])


# PyTorch's names of dtypes in messages.
TYPE_NAMES = {
    "bool": "Bool", "uint8": "Byte", "uint16": "UInt16",
    "uint32": "UInt32", "uint64": "UInt64", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def not_implemented(name: str, dtype: DType) -> NotImplementedError:
    """PyTorch's error for an operation that does not exist for `dtype`."""
    return NotImplementedError(f"\"{name}\" not implemented for '{TYPE_NAMES[dtype.name]}'")


# ---------------------------------------------------------------------- elementwise inference


def specialise(op: Op, operands: Sequence[Any], pattern: str, key: Any) -> Spec:
    """Infers shape, dtype and compute dtype of an elementwise op for operands of these metas.

    `operands` are Metas for tensors and Python types for numbers, as `pattern` says ("ts").
    The spec's attrs are (compute dtype, pattern).
    """
    metas = tuple([m for m in operands if isinstance(m, Meta)])
    if not metas:
        raise TypeError(f"{op.name}: got only numbers; expected at least one tensor")
    if any([m.strides is not None for m in metas]):
        plains = tuple([m.plain if isinstance(m, Meta) else m for m in operands])
        plain_key = plains[0] if isinstance(key, Meta) else plains
        plain = op.cache.get(plain_key) or specialise(op, plains, pattern, plain_key)
        return op.remember_laid_out(key, plain.plain or plain, metas)
    compute, result = elementwise_dtypes(op, operands)
    shape = broadcast_shapes(op.name, [m.shape for m in metas])
    plain = op.remember(key, (compute, pattern), metas, meta_of(shape, result))
    return op.remember_laid_out(key, plain, metas)


def elementwise_dtypes(op: Op, operands: Sequence[Any]) -> tuple[DType, DType]:
    """The dtype an elementwise op computes in, and the dtype of its result."""
    ranked = [
        (m.dtype, 2 if m.ndim else 1) if isinstance(m, Meta) else (dtypes.scalar_dtype(m), 0)
        for m in operands
    ]
    rule = op.result
    if rule == "select":  # where(condition, a, b): the condition takes no part
        if not isinstance(operands[0], Meta):
            raise TypeError(
                f"{op.name}(): argument 'condition' must be Tensor, not {operands[0].__name__}"
            )
        if ranked[0][0] is not dtypes.bool_:
            raise RuntimeError(
                f"{op.name}: expected condition to be a boolean tensor, but got a tensor with "
                f"dtype {ranked[0][0].name}. Compare first, such as x > 0"
            )
        ranked = ranked[1:]
    common = dtypes.result_dtype(tuple(ranked))
    if common.category == dtypes.COMPLEX:
        if not op.complex:
            raise not_implemented(op.name, common)
        if rule == "magnitude":
            return common, common.to_real()
    if rule == "float" and common.category < dtypes.FLOAT:
        common = dtypes.get_default_dtype()
    elif rule == "integer" and common.category >= dtypes.FLOAT:
        raise NotImplementedError(
            f'"{op.name}" not implemented for {common.name}; expected integers'
        )
    elif rule == "arithmetic" and any(dtype is dtypes.bool_ for dtype, _ in ranked):
        raise RuntimeError(
            f"{op.name}: got bool tensors; use logical_not, logical_xor or `^` for booleans"
        )
    elif rule == "bool-to-int" and common is dtypes.bool_:
        common = dtypes.int64
    elif rule in ("number", "magnitude") and common is dtypes.bool_:
        raise NotImplementedError(f'"{op.name}" not implemented for bool')
    elif rule == "shift" and common.category != dtypes.INT:
        raise NotImplementedError(
            f'"{op.name}" not implemented for {common.name}; expected integers'
        )
    elif rule == "floating":  # a float number does not make an integer tensor float
        tensors = dtypes.result_dtype(tuple([pair for pair in ranked if pair[1]]))
        if tensors.category < dtypes.FLOAT:
            raise NotImplementedError(
                f'"{op.name}" not implemented for {tensors.name}; expected floating-point tensors'
            )
    return common, dtypes.bool_ if rule == "bool" else common


def broadcast_shapes(name: str, shapes: Sequence[Shape]) -> Shape:
    """The common shape of `shapes` by broadcasting, or RuntimeError in PyTorch's words."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    rank = max(len(s) for s in shapes)
    out = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if size == out[i] or size == 1:
                continue
            if out[i] != 1:
                listed = " and ".join(str(list(s)) for s in shapes)
                raise RuntimeError(
                    f"{name}: the sizes of the tensors must match at dimension {i}; got shapes "
                    f"{listed} ({out[i]} against {size}); expected equal sizes, or 1"
                )
            out[i] = size
    return tuple(out)


def _as_number(op: Op, x: Any) -> Any:
    if isinstance(x, bool | int | float):
        return x if type(x) in _NUMBER_KINDS else _plain(x)
    if isinstance(x, complex):
        return complex(x)
    item = getattr(x, "item", None)
    if item is not None and getattr(x, "ndim", 0) == 0:  # NumPy scalars
        return _as_number(op, item())
    raise wrong_class(x, "Tensor or number", op.name)


def _plain(x: Number) -> Number:
    # Subclasses of int and float, such as enum members.
    return float(x) if isinstance(x, float) else int(x)


def _not_a_tensor(op: Op, x: Any) -> TypeError:
    return wrong_class(x, "Tensor", op.name)


# ------------------------------------------------------------------------------------- leaves

LEAF = Op("leaf", "leaf")


@hot
def leaf_node(meta: Meta, buffer: Any) -> Node:
    """A node that holds data."""
    spec = LEAF.cache.get(meta)
    if spec is None:
        spec = LEAF.remember(meta, (), (), meta)
    node = _new(Node)
    node.spec = spec
    node.meta = meta
    node.inputs = ()
    node.args = ()
    node.grad_to = None
    node.buffer = buffer
    node.cut = None
    node.spent = False
    node.index = -1
    node.site = user_site()
    return node


def leaf(meta: Meta, buffer: Any) -> Tensor:
    """A tensor that holds data."""
    state = LOCAL.state
    state.bytes += meta.nbytes
    if state.bytes > MOST_PENDING_BYTES:
        state.bytes = 0
        if state.nodes:
            flush("pending nodes held much data")
    node = leaf_node(meta, buffer)
    node.spent = state.inference
    return wrap(node)


@hot
def wrap(node: Node) -> Tensor:
    """A new tensor for an existing node."""
    tensor = _new(_tensor_class)
    tensor._node = node
    tensor._cell = None
    return tensor


# ----------------------------------------------------------------------- views, in-place writes


@hot
def node_of(x: Any) -> Node:
    """The node a tensor stands for now (a view may have been changed through its base)."""
    try:
        if x._cell is not None:
            sync(x)
        node: Node = x._node
    except AttributeError:
        raise _no_tensor(x) from None
    return node


def _no_tensor(x: Any) -> TypeError:
    return wrong_class(x, "Tensor")


def sync(x: Any) -> None:
    """Brings a tensor that shares a cell up to date with the cell."""
    cell = x._cell
    if cell is None:  # another thread has seen that nobody shares it
        return
    if cell.parent is not None:
        _follow_parent(cell)
    if x._made_at is not None and LOCAL.state.grad:
        check_not_stale(x)
    if cell.memory is not None:
        Writing.read_shared(x)
        return
    if x._seen != cell.version:
        follow_cell(x, cell)
    if _refs(cell) == _ALONE and cell.parent is None and _is_whole(x._path):
        # Nobody shares it any more: from now on the tensor is used without this detour.
        x._writes = cell.version - cell.uncounted if x._unseen is None else x._unseen[0]
        x._cell, x._path, x._unseen = None, (), None


def _count_own_references() -> int:
    """What `_refs` says, inside `sync`, of a cell that only one tensor refers to."""
    holder = [object()]
    cell = holder[0]
    return _refs(cell)


_ALONE = _count_own_references()


def is_detached(path: Sequence[Step]) -> bool:
    """Whether a step shares values but no history, as detach() does."""
    return any([step[0].grads is None for step in path])


def _is_whole(path: Sequence[Step]) -> bool:
    return all([step[0].name == "detach" for step in path])


def follow_cell(x: Any, cell: Cell) -> None:
    """Applies the path of `x` to the value that its cell has now."""
    state = LOCAL.state
    value, path = wrap(cell._node), x._path
    if path:
        steps = _steps_from_root(x)
        if steps is not None:  # which has a history of its own
            value, path = wrap(node_of(x._root)), steps
        # Gradients flow through a view whenever they flow through what it shows. But after a
        # silent write it has the place in the graph that it had, if any.
        silently = _was_written_silently(cell, x._seen) and _has_its_place(x)
        grad, state.grad = state.grad, not silently
        try:
            value = followed(value, path)
            x._node = in_place_of(x._node, value, x, False)
        finally:
            state.grad = grad
        if silently:
            require_in_vain(x)
        else:
            x._followed = True
    else:
        before, x._node = x._node, value._node
        if before.grad_to is not None:
            go_on_retaining(before, x._node, x)
    x._seen = cell.version


def wrote_silently(cell: Cell) -> None:
    """Notes that the write that raised the version last is none to PyTorch's `_version`."""
    cell.uncounted += 1
    begin, end = cell.silent
    cell.silent = (begin if end == cell.version - 1 else cell.version - 1), cell.version


def _was_written_silently(cell: Cell, seen: int) -> bool:
    """Whether all writes since the version `seen` were silent."""
    begin, end = cell.silent
    return begin <= seen and end == cell.version


def claim(x: Any) -> None:
    """Tells views of `x`, when next used, that it requires a gradient, or none any more."""
    cell = x._cell
    if cell is not None:
        cell.version += 1
        wrote_silently(cell)
        x._seen = cell.version


def _has_its_place(x: Any) -> bool:
    """Whether a view is where it was made in the graph, or was put since: also if that is nowhere.

    If nothing flowed to what it shows when that was written, where it is now was left open.
    """
    to = x._node.grad_to
    if to is None or is_in_vain(to):
        return not x._followed and x._node.spec.op is x._path[-1][0]
    return True


def require_in_vain(x: Any) -> None:
    """A view that was not recorded requires a gradient like the tensor that it is a view of.

    As in PyTorch, what is computed from it does so, too, but no gradient goes any further.
    """
    if x._root is None and is_detached(x._path):
        return
    to = x._node.grad_to
    if is_in_vain(to) and family_node(x).grad_to is None:
        x._node.grad_to = None
    elif to is None and family_node(x).grad_to is not None:
        x._node.grad_to = _WeakRef(_Nobody())
        if x._made is NO_GRAD:
            x._made_at = x._cell.version - x._cell.uncounted


class _Nobody:
    """Who a gradient is for that is wanted in vain."""


def is_in_vain(to: Any) -> bool:
    return isinstance(to, _WeakRef) and to() is None


def followed(value: Tensor, path: Sequence[Step]) -> Tensor:
    for op, attrs, args, shape in path:
        value = record(op, (value,), attrs, args, shape)
    return value


def _follow_parent(cell: Cell) -> None:
    """Brings a cell that is itself a view of another up to date with that."""
    assert cell.parent is not None
    parent, path, seen = cell.parent
    if parent.parent is not None:
        _follow_parent(parent)
    if seen != parent.version:
        cell._node = followed(wrap(parent._node), path)._node
        cell.parent = parent, path, parent.version
        cell.version += 1


def see_through(temporary: Any, handle: Any) -> None:
    """Makes `handle` the one through which the node recorded last is seen."""
    handles = LOCAL.state.handles
    if handles and handles[-1] is temporary:
        handles[-1] = handle


@hot
def view(
    op: Op,
    x: Any,
    attrs: tuple[Any, ...] = (),
    args: tuple[Any, ...] = (),
    shape: Shape | None = None,
) -> Tensor:
    """Records a view: a tensor that shares its values with `x`, in both directions."""
    try:
        cell = x._cell
    except AttributeError:
        raise _not_a_tensor(op, x) from None
    if cell is not None and cell.memory is not None:
        return Writing.view_shared(op, x, attrs, args, shape)
    out = record(op, (x,), attrs, args, shape)
    cell = x._cell
    if cell is None:
        cell = x._cell = Cell(x)
    out._cell = cell
    out._path = x._path + ((op, attrs, args, shape),)
    out._seen = cell.version
    state = LOCAL.state
    if state.inference:
        out._node.spent = False
    if x._node.spent and x._node.grad_to is None:
        _mark_view_of_inference(op, x, out)
    if x._path:
        inherit(op, x, out)
    if not state.grad:
        if out._made is None:
            out._made = NO_GRAD
        if x._node.grad_to is not None and op.grads is not None:
            require_in_vain(out)
    return out


@hot
def is_of_inference(node: Node) -> bool:
    """Whether a value is that of a tensor made in inference mode."""
    spent: bool = node.spent
    return spent and node.grad_to is None


def _mark_view_of_inference(op: Op, x: Any, out: Any) -> None:
    """A view is a tensor of inference mode if what it shows is, wherever it is made.

    Not so without the history: detach() gives an ordinary tensor, which counts its own writes.
    """
    if op.grads is not None:
        out._node.spent = True
    elif x._unseen is None:
        out._unseen = [0]


def inherit(op: Op, x: Any, out: Any) -> None:
    """What a view of a view has in common with that."""
    out._root = _family_root(op, x)
    if x._unseen is not None:
        out._unseen = x._unseen
    if x._made is not None and op.grads is not None:
        out._made, out._made_at = x._made, x._made_at


def _family_root(op: Op, x: Any) -> Any:
    """Past detach() begins another history: what shares it is a view of the detached tensor."""
    if op.grads is None:
        return None
    return x if x._root is None and is_detached(x._path) else x._root


def rebind(x: Tensor, value: Tensor, expanded: bool = False) -> Tensor:
    """In-place write: `x` takes the value of the tensor `value`, of the same shape and dtype.

    With `expanded`, several elements of `x` may lie in one place.

    The value that was there stays in the graph for whoever recorded with it, so backward never
    meets a value "modified by an in-place operation".
    """
    check_writable(x, value._node.grad_to is not None, expanded)
    if x._node.meta.device is not value._node.meta.device:
        value = _written_across(x, value)
    cell = x._cell
    if cell is not None and cell.memory is not None:
        return Writing.write_shared(x, value)
    part = value._node
    if part.meta is not x._node.meta:
        value = laid_out(value, x._node.meta)
    overwrites = LOCAL.state.grad
    if cell is None:
        x._node = in_place_of(x._node, value, x, overwrites)
        x._writes += 1
        return x
    if not x._path:
        cell._node = x._node = in_place_of(x._node, value, x, overwrites)
    else:
        moves = x._node.interior or is_in_vain(x._node.grad_to)
        x._node = in_place_of(x._node, value, x, overwrites)
        if x._root is not None and overwrites:
            _write_to_root(x, part)
        _write_to_cell(cell, x._path, part)
    _wrote(cell)
    # Where elements lie in one place, what was written to one is seen in the others. A gradient
    # reaches what was written through the whole, as in PyTorch: a view is a view of that now.
    through_whole = x._path and (part.grad_to is not None or moves)
    x._seen = -1 if through_whole or not _is_apart(x._path) else cell.version
    if through_whole and type(x._node.grad_to) is Interior:
        sync(x)  # what retains its gradient does so at its new place in the graph
    if x._unseen is not None:
        count_apart(x)
    return x


def count_apart(x: Any) -> None:
    """Notes a write through `.data`, which has a count of its own."""
    x._unseen[0] += 1
    wrote_silently(x._cell)


def _is_apart(path: Sequence[Step]) -> bool:
    """Whether no step can show an element twice."""
    return all([step[0].write is not None for step in path])


def _written_across(x: Any, value: Any) -> Tensor:
    from livegrad.graph.elsewhere import written

    return written(x, value)


def _wrote(cell: Cell) -> None:
    """Raises the version of a cell that was written to, and writes to what it is a view of."""
    cell.version += 1
    if cell.parent is not None:
        parent, path, _ = cell.parent
        _write_to_cell(parent, path, cell._node)
        _wrote(parent)
        cell.parent = parent, path, parent.version


def _write_to_cell(cell: Cell, path: Sequence[Step], part: Node) -> None:
    """Gives the cell a new whole: that with `part` written to where `path` leads."""
    state = LOCAL.state
    grad = state.grad
    # What is written through detach() leaves the history of the whole alone.
    apart = is_detached(path)
    state.grad = grad and not apart
    try:
        value = record(REGISTRY["detach"], (wrap(part),)) if apart else wrap(part)
        whole = _write_through(wrap(cell._node), path, value)
        if whole._node.meta is not cell._node.meta:
            whole = laid_out(whole, cell._node.meta)
    finally:
        state.grad = grad
    cell._node = in_place_of(cell._node, whole, cell, grad and not apart)


def _write_to_root(x: Any, part: Node) -> None:
    """Writes `part`, history included, to the detached tensor that `x` is a view of.

    Its cell gets the values alone.
    """
    root, steps = x._root, _steps_from_root(x)
    if steps is None or (part.grad_to is None and node_of(root).grad_to is None):
        return
    before = node_of(root)
    whole = laid_out(_write_through(wrap(before), steps, wrap(part)), before.meta)
    root._node = in_place_of(before, whole, root, True)
    root._seen = x._cell.version + 1  # when the cell is written


def _steps_from_root(x: Any) -> tuple[Step, ...] | None:
    """The way from the detached tensor that `x` is a view of; None if that shows another part."""
    root = x._root
    if root is None or root._cell is not x._cell:
        return None
    length = len(root._path)
    return x._path[length:] if x._path[:length] == root._path else None


def make_dense(x: Any) -> None:
    """Gives a tensor that is the whole of its storage strides without gaps or repetitions.

    What a rule returns may be a part of something nobody can see.
    """
    meta = x._node.meta
    dense = meta.with_strides(like_strides(meta.shape, meta.stride()))
    if dense is not meta:
        placed = laid_out(wrap(x._node), dense)
        if isinstance(x._node.grad_to, _WeakRef):
            placed._node.grad_to = x._node.grad_to
        x._node = placed._node
        see_through(placed, x)


def laid_out(value: Tensor, meta: Meta) -> Tensor:
    """`value` with the strides of `meta`."""
    if value._node.meta is meta:
        return value
    return record(_placed(), (value,), (meta.strides,))


def row_major(value: Tensor) -> Tensor:
    """A value nobody else has seen with the strides of row-major order."""
    return laid_out(value, value._node.meta.plain)


def _placed() -> Op:
    return REGISTRY["placed"]


def in_place_of(old: Node, value: Any, handle: Any, overwrites: bool) -> Node:
    """The node that takes the place of `old`, seen through `handle`.

    A leaf (written under no_grad) stays that leaf. An interior node keeps its place in the graph
    although the value has another history: the gradient goes on to `old`, or ends there if the
    write was recorded to be differentiated and `overwrites` it.
    """
    node: Node = value._node
    to = old.grad_to
    if isinstance(to, _WeakRef) and to() is None and type(handle) is not Cell:
        pass  # a view that required a gradient in vain is no leaf of anybody's
    elif isinstance(to, _WeakRef):
        # A node of its own, so that marking it as the leaf marks no other tensor's value.
        value = laid_out(unary(_clone, wrap(node)), node.meta)
        node = value._node
        node.grad_to = to
    elif to is not None and node.grad_to is None and old.meta.shape == node.meta.shape:
        state = LOCAL.state
        grad, state.grad = state.grad, True
        try:
            op = REGISTRY["overwritten" if overwrites else "altered"]
            value = record(op, (wrap(place_of(old)), wrap(node)))
        finally:
            state.grad = grad
        node = value._node
    elif to is None and node.grad_to is None:
        node.spent = old.spent  # whether in inference mode or not, it stays what it was made as
    if to is not None:
        go_on_retaining(old, node, handle)
    see_through(value, handle)
    if node.inputs and node is not old:  # what is computed from nothing cannot fail
        LOCAL.state.written[node] = old
    return node


def go_on_retaining(old: Node, node: Node, handle: Any) -> None:
    """A tensor that retains its gradient does so after it was written, at its new place."""
    to, new = place_of(old).grad_to, place_of(node)
    if type(to) is not Interior or not to.retained or new.grad_to is to:
        return
    mine = [r for r in to.retained if r() is handle]
    if mine and new.grad_to is not None and not isinstance(new.grad_to, _WeakRef):
        if type(new.grad_to) is not Interior:
            new.grad_to = Interior()
        new.grad_to.retained += mine
        to.retained = [r for r in to.retained if r() is not handle]


def family_node(x: Any) -> Node:
    """The node of what a view is a view of, history included."""
    node: Node = (x._cell if x._root is None else x._root)._node
    return node


NO_GRAD = "no_grad"


def check_writable(x: Any, flows: bool = True, expanded: bool = False) -> None:
    """RuntimeError if `x` must not be written: in PyTorch's words, before anything has changed.

    `flows` says whether a gradient flows to what is written; `expanded`, whether several elements
    may lie in one place.
    """
    node = node_of(x)
    meta = node.meta
    if meta.strides is not None and not expanded and repeats(meta.shape, meta.strides):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    state = LOCAL.state
    if is_of_inference(node) and not state.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make "
            "a clone to get a normal tensor before doing inplace update."
        )
    if not state.grad:
        return
    if isinstance(node.grad_to, _WeakRef) and not is_in_vain(node.grad_to):
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. "
            "Write under livegrad.no_grad(), or to a clone()"
        )
    if x._cell is None or not x._path:
        return
    if x._root is None and is_detached(x._path):
        return  # the values of a leaf may be written through detach(), and so .data, at any time
    root = family_node(x)
    flows = flows or node.grad_to is not None
    if x._made is NO_GRAD:
        flows = flows or root.grad_to is not None
    if not flows:
        return
    if isinstance(root.grad_to, _WeakRef):
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation. "
            "Write under livegrad.no_grad(), or to a clone()"
        )
    if x._made is not None:
        raise _written_view(x)


def _written_view(x: Any) -> RuntimeError:
    if x._made == NO_GRAD:
        return RuntimeError(
            "A view was created in no_grad mode and is being modified inplace with grad mode "
            "enabled. Given that this use case is ambiguous and error-prone, it is forbidden. Move "
            "both inside or both outside the no_grad block"
        )
    return RuntimeError(
        f"Output {x._made} is a view and is being modified inplace. This view is the output of "
        "a function that returns multiple views. Such functions do not allow the output views to "
        "be modified inplace. You should replace the inplace operation by an out-of-place one."
    )


def check_not_stale(x: Any) -> None:
    """RuntimeError for the history of a view that may not be followed to what was written.

    It is one of several that a function returned, or was made under no_grad.
    """
    cell = x._cell
    if x._made_at == cell.version - cell.uncounted or family_node(x).grad_to is None:
        return
    if x._made is NO_GRAD:
        raise RuntimeError(
            "A view was created in no_grad mode and its base or another view of its base has been "
            "modified inplace with grad mode enabled. Given that this use case is ambiguous and "
            "error-prone, it is forbidden. Move both inside or both outside the no_grad block"
        )
    raise RuntimeError(
        f"Output {x._made} is a view and its base or another view of its base has been modified "
        "inplace. This view is the output of a function that returns multiple views. Such "
        "functions do not allow the output views to be modified inplace. You should replace the "
        "inplace operation by an out-of-place one."
    )


def _write_through(whole: Tensor, path: Sequence[Any], value: Tensor) -> Tensor:
    """The whole after `value` was written to the part of it that `path` views."""
    if not _is_apart(path):
        return Writing.write_strided(whole, path, value)
    parts = [whole]
    for op, attrs, args, shape in path[:-1]:
        parts.append(record(op, (parts[-1],), attrs, args, shape))
    for part, (op, attrs, args, _) in zip(reversed(parts), reversed(path), strict=True):
        value = op.write(part, value, attrs, args)
    return value


class Writing:
    """Ways of reading and writing that others fill in, so that recording need not know them.

    read_shared(x)                      the value of `x` is what its memory holds now
    view_shared(op, x, …)               a view of memory
    write_shared(x, value)              writes to memory
    write_strided(whole, path, value)   writes to a part whose elements may overlap
    """

    read_shared: Callable[[Any], None]
    view_shared: Callable[..., Tensor]
    write_shared: Callable[[Any, Any], Tensor]
    write_strided: Callable[[Any, Sequence[Step], Any], Tensor]
