"""The graph in PyTorch's words: which functions of PyTorch's backward a node stands for.

    linear node  ──►  AddmmBackward0 ─┬─► bias          one node may be several of PyTorch's,
                                      ├─► input         and now and then it is the other way round
                                      └─► TBackward0 ─► weight

Reverse mode knows nothing of this: it is for people who read `grad_fn`. Where a recorded node does
not tell which of two functions was called (`t()` and `transpose(0, 1)`), the commoner is named.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from livegrad.dtypes import FLOAT
from livegrad.graph.node import Interior, Node

Rule = Callable[[Node], "Part | None"]


class Part(NamedTuple):
    """One function of PyTorch's backward: its name, where gradients go on to, what it saved."""

    name: str
    edges: tuple[Node | Part | None, ...]
    saved: dict[str, Any]  # nodes stand for tensors


def part_of(node: Node) -> Part:
    """What the node is in PyTorch."""
    rule = node.op.grad_fn
    part = rule(node) if callable(rule) and node.inputs else None
    return _plain(node) if part is None else part


def backward_name(node: Node) -> str:
    """The name PyTorch gives to the gradient of an operation, such as `AddBackward0`."""
    return part_of(node).name


def _plain(node: Node) -> Part:
    """A node that is one function, with its inputs in order."""
    told = node.op.grad_fn
    name = told if isinstance(told, str) else f"{camel_case(node.op.name)}Backward0"
    return Part(name, _floating(node.inputs), _saved(node))


def camel_case(name: str) -> str:
    """`log_softmax` as `LogSoftmax`."""
    return "".join([w[:1].upper() + w[1:] for w in name.split("_")])


def with_parameters(name: str) -> Rule:
    """A function that takes a weight and a bias: a missing one has no gradient, but a place."""

    def rule(node: Node) -> Part:
        inputs = list(_floating(node.inputs))
        inputs += [None] * (3 - len(inputs))
        return Part(f"{name}Backward0", tuple(inputs), _saved(node))

    return rule


def saving_nothing(node: Node) -> Part:
    """A function that keeps neither its argument nor its result."""
    return _plain(node)._replace(saved={})


def _floating(nodes: tuple[Node, ...]) -> tuple[Node | None, ...]:
    """Inputs that could have a gradient: no indices, no masks."""
    return tuple([x for x in nodes if x.meta.dtype.category >= FLOAT])


def _saved(node: Node) -> dict[str, Any]:
    """What an elementwise function of one tensor keeps: its argument, or else its result."""
    op = node.spec.op
    if op.kind != "elementwise" or len(node.inputs) != 1:
        return {}
    if "x" in op.saves:
        return {"self": node.inputs[0]}
    return {"result": node} if op.saves else {}


def _needed(x: Node, by: Node | None) -> Node | None:
    """`x`, if the gradient of `by` needs it."""
    return x if by is not None and by.grad_to is not None else None


# --------------------------------------------------------------------------------- elementwise


def _operands(node: Node) -> list[Any]:
    """Tensors as nodes and numbers, in the order of the operands."""
    tensors, numbers = iter(node.inputs), iter(node.args)
    return [next(tensors) if letter == "t" else next(numbers) for letter in node.attrs[1]]


def arithmetic(node: Node) -> Part | None:
    a, b = _operands(node)
    name = node.spec.op.name.capitalize() + "Backward0"
    if not isinstance(a, Node):
        return _reflected(node, a, b)
    right = b if isinstance(b, Node) else None
    saved: dict[str, Any] = {}
    if node.spec.op.name in ("mul", "div"):
        saved = {"self": _needed(a, right), "other": b}
        if node.spec.op.name == "mul" and right is not None:
            saved["other"] = _needed(right, a)
    return Part(name, (a, right), saved)


def _reflected(node: Node, number: Any, x: Node) -> Part | None:
    if node.spec.op.name == "sub":
        return Part("RsubBackward1", (x,), {})
    if node.spec.op.name == "div":  # number / x is x.reciprocal() * number
        inner = Part("ReciprocalBackward0", (x,), {})
        return Part("MulBackward0", (inner, None), {"self": None, "other": number})
    return Part(node.spec.op.name.capitalize() + "Backward0", (x, None), {})


def power(node: Node) -> Part:
    base, exponent = _operands(node)
    if not isinstance(exponent, Node):
        return Part("PowBackward0", (base,), {"self": base, "exponent": exponent})
    saved = {"self": base, "exponent": exponent, "result": node}
    if not isinstance(base, Node):
        return Part("PowBackward2", (exponent,), saved)
    return Part("PowBackward1", (base, exponent), saved)


def fixed_power(exponent: int) -> Callable[[Node], Part]:
    def rule(node: Node) -> Part:
        (x,) = node.inputs
        return Part("PowBackward0", (x,), {"self": x, "exponent": exponent})

    return rule


def where(node: Node) -> Part:
    condition = node.inputs[0]
    if node.attrs[1] == "tst":
        return Part("MaskedFillBackward0", _floating(node.inputs[1:]), {"mask": condition})
    edges = [x if isinstance(x, Node) else None for x in _operands(node)[1:]]
    return Part("WhereBackward0", tuple(edges), {"condition": condition})


def pair(node: Node) -> Part:
    """A function of two tensors that keeps both."""
    a, b = (*node.inputs, None)[:2]
    name = "".join([w.capitalize() for w in node.spec.op.name.split("_")]) + "Backward0"
    return Part(name, _floating(node.inputs), {"self": a, "other": b})


def dropout(node: Node) -> Part:
    return Part("MulBackward0", (node.inputs[0], None), {})


# ---------------------------------------------------------------------------------- reductions


def reduction(name: str, whole: str, partial: str) -> Callable[[Node], Part]:
    """PyTorch has one function for all dims and one for some."""

    def rule(node: Node) -> Part:
        (x,) = node.inputs
        dims, keepdim = node.attrs[:2]
        saved: dict[str, Any] = {"self_sym_sizes": tuple(x.meta.shape)}
        if name == "mean":
            saved["self_sym_numel"] = x.meta.numel
        elif name != "sum":
            saved = {"self": x, "result": node}
        if len(dims) == x.meta.ndim and not keepdim:
            return Part(whole, (x,), saved)
        dim = next(iter(dims), 0) if name == "prod" else dims  # what has no dims is one along 0
        return Part(partial, (x,), {**saved, "dim": dim, "keepdim": keepdim})

    return rule


def softmax(node: Node) -> Part:
    name = "SoftmaxBackward0" if node.spec.op.name == "softmax" else "LogSoftmaxBackward0"
    return Part(name, node.inputs, {"dim": node.attrs[0], "result": node})


def cross_entropy(node: Node) -> Part | None:
    x, target = node.inputs[:2]
    if target.meta.dtype.category >= FLOAT or node.args[2]:
        return None
    inner = Part("LogSoftmaxBackward0", (x,), {"dim": 1})
    name = "NllLossBackward0" if x.meta.ndim <= 2 else "NllLoss2DBackward0"
    return Part(name, (inner,), {"target": target})


def l1_loss(node: Node) -> Part | None:
    if node.attrs[0] not in ("mean", "sum"):
        return None
    a, b = _floating(node.inputs)[:2]
    inner = Part("AbsBackward0", (Part("SubBackward0", (a, b), {}),), {})
    return Part(f"{node.attrs[0].capitalize()}Backward0", (inner,), {})


def loss(node: Node) -> Part:
    x, target = node.inputs[:2]
    return _plain(node)._replace(saved={"self": x, "target": target})


def distance(node: Node) -> Part:
    """Distances of the rows of two tensors, or of all pairs of rows of one."""
    (difference,) = node.inputs
    rows = [x.spec.op.name == "index_select" for x in difference.inputs]
    if rows and all(rows):
        return Part("PdistBackward0", difference.inputs[0].inputs[:1], {})
    return Part("CdistBackward0", node.inputs, {})


def division(node: Node) -> Part:
    """A remainder: PyTorch has one function for numbers and one for tensors."""
    a, b = _operands(node)
    kind = int(isinstance(b, Node))
    edges = (a if isinstance(a, Node) else None, b) if kind else (a,)
    return Part(f"{camel_case(node.spec.op.name)}Backward{kind}", edges, {})


# ------------------------------------------------------------------------------------ movement


def permute(node: Node) -> Part:
    (order,) = node.attrs
    swapped = [d for d, place in enumerate(order) if d != place]
    if len(swapped) != 2:
        return Part("PermuteBackward0", node.inputs, {"dims": order})
    if len(order) == 2:
        return Part("TBackward0", node.inputs, {})
    saved = {"dim0": swapped[0], "dim1": swapped[1]}
    return Part("TransposeBackward0", node.inputs, saved)


# Results of one function that are packed into one value: a slice of it, reshaped and placed.
_PACKED = {
    "linalg_cholesky": "LinalgCholeskyExBackward0",
    "linalg_eig": "LinalgEigBackward0",
    "linalg_eigh": "LinalgEighBackward0",
    "linalg_lstsq": "LinalgLstsqBackward0",
    "linalg_lu_factor": "LinalgLuFactorExBackward0",
    "linalg_qr": "LinalgQrBackward0",
    "linalg_slogdet": "LinalgSlogdetBackward0",
    "linalg_svd": "LinalgSvdBackward0",
}


def _packed(node: Node) -> Part | None:
    """The function of which the node is one of several results."""
    for op in ("placed", "reshape", "index"):
        if node.spec.op.name == op and node.inputs:
            node = node.inputs[0]
    name = _PACKED.get(node.spec.op.name)
    return None if name is None else Part(name, _floating(node.inputs), {})


def placed(node: Node) -> Part:
    """A copy with other strides, or a result that PyTorch makes with these."""
    return _packed(node) or Part("CloneBackward0", node.inputs, {})


def reshape(node: Node) -> Part:
    (x,) = node.inputs
    if (packed := _packed(node)) is not None:
        return packed
    known = _RESHAPED.get(x.op.grad_fn)
    part = None if known is None or not x.inputs else known(node, x)
    if part is not None:
        return part
    old, new = tuple(x.meta.shape), tuple(node.meta.shape)
    saved = {"self_sym_sizes": old}
    for longer, shorter, name in (
        (new, old, "UnsqueezeBackward0"),
        (old, new, "SqueezeBackward1"),
    ):
        if len(longer) == len(shorter) + 1:
            for d, size in enumerate(longer):
                if size == 1 and longer[:d] + longer[d + 1 :] == shorter:
                    return Part(name, (x,), {"dim": d})
    return Part("ViewBackward0", (x,), saved)


def _reshaped_product(node: Node, product: Node) -> Part | None:
    """A product with a vector is one of matrices, reshaped."""
    a, b = product.inputs
    if not b.inputs or b.op.grad_fn is not reshape or b.inputs[0].meta.ndim != 1:
        return None
    vector = b.inputs[0]
    if node.meta.ndim == 1 and a.meta.ndim == 2:
        return Part(
            "MvBackward0", (a, vector), {"self": _needed(a, vector), "vec": _needed(vector, a)}
        )
    if node.meta.ndim == 0 and a.inputs and a.op.grad_fn is reshape:
        first = a.inputs[0]
        saved = {"self": _needed(first, vector), "tensor": _needed(vector, first)}
        return Part("DotBackward0", (first, vector), saved)
    return None


def expand(node: Node) -> Part:
    return _plain(node)


def _repeated(node: Node, expanded: Node) -> Part | None:
    (inner,) = expanded.inputs
    if not inner.inputs or inner.op.grad_fn is not reshape:
        return None
    return Part("RepeatBackward0", inner.inputs, {})


def _picked(node: Node, gathered: Node) -> Part | None:
    part = gather(gathered)
    if part.name == "GatherBackward0":
        return None
    return part._replace(saved={"dim": gathered.attrs[0], "keepdim": False})


def gather(node: Node) -> Part:
    x, index = node.inputs
    source = index.spec.op.name
    saved = {"indices": index, "dim": node.attrs[0]}
    if source in ("argmax", "argmin"):
        return Part("MaxBackward0" if source == "argmax" else "MinBackward0", (x,), saved)
    if source == "argsort":
        name = "SortBackward0" if index.meta.shape == x.meta.shape else "TopkBackward0"
        return Part(name, (x,), saved)
    return Part("GatherBackward0", (x,), {"self": x, "index": index, "dim": node.attrs[0]})


def index(node: Node) -> Part:
    """A basic index: PyTorch's takes one dim after the other."""
    if (packed := _packed(node)) is not None:
        return packed
    names = {"int": "SelectBackward0", "slice": "SliceBackward0", "new": "UnsqueezeBackward0"}
    found: Node | Part = node.inputs[0]
    for item in node.attrs[0]:
        if item[0] != "all":
            found = Part(names[item[0]], (found,), {})
    return found if isinstance(found, Part) else Part("AliasBackward0", node.inputs, {})


def index_select(node: Node) -> Part | None:
    x, index = node.inputs
    if _is_parameter(x):
        return Part("EmbeddingBackward0", (x,), {"indices": index})
    if index.spec.op.name != "linear_index":
        return None
    if x.inputs and x.op.grad_fn is reshape and index.attrs[1] > 1:
        x = x.inputs[0]
    return Part("IndexBackward0", (x,), {})


def _is_parameter(x: Node) -> bool:
    leaf = x.grad_to() if isinstance(x.grad_to, weakref.ref) else None
    return type(leaf).__name__ == "Parameter"


def _embedded(node: Node, selected: Node) -> Part | None:
    return index_select(selected) if _is_parameter(selected.inputs[0]) else None


def fill(node: Node) -> Part | None:
    return Part("ZeroBackward0", node.inputs, {}) if node.args == (0,) else None


def cat(node: Node) -> Part | None:
    """`stack` is `cat` of tensors with one more dim."""
    parts = [part_of(x) if x.inputs else None for x in node.inputs]
    if all(p is not None and p.name == "UnsqueezeBackward0" for p in parts):
        edges = tuple([p.edges[0] for p in parts if p is not None])
        return Part("StackBackward0", edges, {"dim": node.attrs[0]})
    return Part("CatBackward0", _floating(node.inputs), {"dim": node.attrs[0]})


def index_write(node: Node) -> Part:
    return Part("CopySlices", node.inputs[:2], {})


# ------------------------------------------------------------------------------------ products


def matmul(node: Node) -> Part:
    a, b = node.inputs
    saved = {"self": _needed(a, b), "mat2": _needed(b, a)}
    if node.meta.ndim == 2:
        return Part("MmBackward0", (a, b), saved)
    if node.meta.ndim == 3:
        return Part("BmmBackward0", (a, b), saved)
    views = tuple([Part("ViewBackward0", (x,), {}) for x in (a, b)])
    return Part("UnsafeViewBackward0", (Part("BmmBackward0", views, {}),), {})


def vector_matmul(node: Node) -> Part:
    """A product of matrices, the first and the result of one row."""
    vector, matrix = node.inputs
    row = Part("UnsqueezeBackward0", (vector,), {"dim": 0})
    product = Part("MmBackward0", (row, matrix), {"mat2": _needed(matrix, vector)})
    return Part("SqueezeBackward4", (product,), {"dim": 0})


def linear(node: Node) -> Part:
    x, weight = node.inputs[:2]
    turned = weight.inputs and weight.op.grad_fn is permute
    factor = weight.inputs[0] if turned else Part("TBackward0", (weight,), {})
    flat: Node | Part = x if x.meta.ndim == 2 else Part("ViewBackward0", (x,), {})
    if len(node.inputs) > 2:
        bias = node.inputs[2]
        saved = {"mat1": _needed(x, weight), "mat2": _turned(weight, x), "alpha": 1, "beta": 1}
        inner = Part("AddmmBackward0", (bias, flat, factor), saved)
    else:
        inner = Part("MmBackward0", (flat, factor), {"self": _needed(x, weight)})
    if x.meta.ndim == 2:
        return inner
    outer = "ViewBackward0" if len(node.inputs) > 2 else "UnsafeViewBackward0"
    return Part(outer, (inner,), {})


class Turned(NamedTuple):
    """A saved matrix that is the transpose of a node's value."""

    node: Node


def _turned(weight: Node, by: Node) -> Turned | None:
    return Turned(weight) if by.grad_to is not None else None


# ------------------------------------------------------------------------------------- the rest


def pool(node: Node) -> Part:
    dims = f"{len(node.attrs[0])}D" if node.attrs else "2D"
    name = f"MaxPool{dims}WithIndices" if node.spec.op.name == "maximum_pool" else f"AvgPool{dims}"
    return Part(f"{name}Backward0", node.inputs, {"self": node.inputs[0]})


def custom(node: Node) -> Part:
    """An output of a Function, or of a checkpoint: its gradient goes on from the call."""
    to: Any = node.grad_to
    call = getattr(to.pull, "call", None) if type(to) is Interior else None
    return Part(f"{node.attrs[0]}Backward", () if call is None else call.inputs, {})


def of_all(name: str) -> Callable[[Node], Part]:
    return lambda node: Part(name, node.inputs, {"self": node.inputs[0], "result": node})


# What a reshape of another function's result is.
_RESHAPED: dict[Any, Callable[[Node, Node], Part | None]] = {
    expand: _repeated,
    gather: _picked,
    index_select: _embedded,
    matmul: _reshaped_product,
}
