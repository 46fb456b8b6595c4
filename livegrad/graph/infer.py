"""Inference: shape, dtype and strides of a result, once for each structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad import dtypes
from livegrad.device import CPU
from livegrad.dtypes import DType
from livegrad.graph.blame import wrong_class
from livegrad.graph.drawing import Shown, below_each_other
from livegrad.graph.handle import Handle, leaf_node, wrap
from livegrad.graph.meta import Meta, Shape, meta_of, on_device
from livegrad.graph.node import Node, Spec
from livegrad.graph.op import Op
from livegrad.graph.state import scratch_state
from livegrad.native.hot import hot


@hot
def infer_spec(op: Op, key: Any, nodes: tuple[Node, ...], args: tuple[Any, ...]) -> Spec:
    """The spec of an op that is not elementwise, inferred for contiguous values, then laid out."""
    metas, attrs, shape = key
    plains = tuple([m.plain for m in metas])
    plain_key = (plains, attrs, shape)
    plain = op.cache.get(plain_key)
    if plain is None:
        assert op.infer is not None
        _check_attrs(op, attrs)
        meta = op.infer(plains, attrs, shape)
        for m in metas:
            if m.dtype.category == dtypes.COMPLEX:
                _check_complex(op, nodes, attrs, args, meta)
        plain = op.remember_laid_out(plain_key, op.make_spec(attrs, meta), plains)
    if plains == metas:
        return plain
    return op.remember_laid_out(key, plain if plain.plain is None else plain.plain, metas)


def infer_meta(op: Op, meta: Meta, attrs: tuple[Any, ...], shape: Shape | None) -> Meta:
    """The meta of what a view op shows of a value of `meta`."""
    if meta.device is not CPU:
        with_data = infer_meta(op, on_device(meta, CPU), attrs, shape)
        return on_device(with_data, meta.device)
    key = ((meta,), attrs, shape)
    spec: Spec = op.cache.get(key) or infer_spec(op, key, (), ())
    return spec.meta


def not_structure(op: Op, attrs: tuple[Any, ...]) -> TypeError:
    """The error of attrs that have no hash: one of them is a list, an array or the like."""
    wrong = next((x for x in attrs if getattr(type(x), "__hash__", None) is None), attrs)
    return wrong_class(wrong, "a number, a word or a tuple of them", op.name)


@hot
def _check_attrs(op: Op, attrs: tuple[Any, ...]) -> None:
    """TypeError if an argument that is structure is a tensor, whose value nobody has read."""
    for x in attrs:
        if isinstance(x, Handle):
            raise _is_no_number(op)
        if isinstance(x, tuple):
            for y in x:
                if isinstance(y, Handle):
                    raise _is_no_number(op)


def _is_no_number(op: Op) -> TypeError:
    return TypeError(
        f"{op.name}(): got a Tensor where a number is expected. Read its value with .item()"
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


@hot
def elementwise_spec(op: Op, operands: Sequence[Any], pattern: str, key: Any) -> Spec:
    """Infers shape, dtype and compute dtype of an elementwise op for operands of these metas.

    `operands` are Metas for tensors and Python types for numbers, as `pattern` says ("ts").
    The spec's attrs are (compute dtype, pattern).
    """
    metas = []
    ranked = []
    plain = True
    for m in operands:
        if isinstance(m, Meta):
            metas.append(m)
            ranked.append((m.dtype, 2 if m.ndim else 1))
            if m.strides is not None:
                plain = False
        else:
            ranked.append((m, 0))
    if not metas:
        raise _only_numbers(op)
    if not plain:
        return _spec_as_laid_out(op, operands, pattern, key, tuple(metas))
    kinds = tuple(ranked)
    dtype = op.promoted.get(kinds)
    if dtype is None:
        dtype = op.promoted[kinds] = elementwise_dtypes(op, operands)
    compute, result = dtype
    shape = metas[0].shape
    if len(metas) > 1:
        shape = broadcast_shapes(op.name, [m.shape for m in metas])
    spec = op.make_spec((compute, pattern), meta_of(shape, result))
    return op.remember_laid_out(key, spec, tuple(metas))


def _only_numbers(op: Op) -> TypeError:
    return TypeError(f"{op.name}: got only numbers; expected at least one tensor")


def _spec_as_laid_out(
    op: Op, operands: Sequence[Any], pattern: str, key: Any, metas: tuple[Meta, ...]
) -> Spec:
    """That of operands of other strides than row-major ones."""
    plains = tuple([m.plain if isinstance(m, Meta) else m for m in operands])
    plain_key = plains[0] if isinstance(key, Meta) else plains
    plain = op.cache.get(plain_key) or elementwise_spec(op, plains, pattern, plain_key)
    return op.remember_laid_out(key, plain.plain or plain, metas)


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
    elif (rule == "integer" and common.category >= dtypes.FLOAT) or (
        rule == "shift" and common.category != dtypes.INT
    ):
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
    elif rule == "floating":  # a float number does not make an integer tensor float
        tensors = dtypes.result_dtype(tuple([pair for pair in ranked if pair[1]]))
        if tensors.category < dtypes.FLOAT:
            raise NotImplementedError(
                f'"{op.name}" not implemented for {tensors.name}; expected floating-point tensors'
            )
    return common, dtypes.bool_ if rule == "bool" else common


@hot
def broadcast_shapes(name: str, shapes: Sequence[Shape]) -> Shape:
    """The common shape of `shapes` by broadcasting, or RuntimeError in PyTorch's words."""
    first = shapes[0]
    rank = len(first)
    differ = False
    for shape in shapes:
        if shape != first:
            differ = True
            if len(shape) > rank:
                rank = len(shape)
    if not differ:
        return first
    out = [1] * rank
    for shape in shapes:
        gap = rank - len(shape)
        for place in range(len(shape) - 1, -1, -1):  # from the last dim on, as PyTorch tells them
            size = shape[place]
            i = place + gap
            if size == out[i] or size == 1:
                continue
            if out[i] != 1:
                raise _not_broadcast(name, shapes, i, out[i], size)
            out[i] = size
    return tuple(out)


def _not_broadcast(
    name: str, shapes: Sequence[Shape], dim: int, size: int, other: int
) -> RuntimeError:
    rank = max(len(s) for s in shapes)
    marked = [
        Shown("abcdefgh"[k % 8], s, {dim - rank + len(s)} if dim >= rank - len(s) else ())
        for k, s in enumerate(shapes)
    ]
    listed = " and ".join(str(list(s)) for s in shapes)
    return RuntimeError(
        f"The size of tensor a ({size}) must match the size of tensor b ({other}) at "
        f"non-singleton dimension {dim}\n{below_each_other(marked)}\n"
        f"{name}: the sizes of the tensors must match at dimension {dim}; got shapes "
        f"{listed} ({size} against {other}); expected equal sizes, or 1"
    )


def not_a_tensor(op: Op, x: Any) -> TypeError:
    return wrong_class(x, "Tensor", op.name)
