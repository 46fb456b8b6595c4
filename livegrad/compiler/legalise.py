"""Pass 2, legalise: rewrite primitives into the forms that templates exist for.

- equal expressions are computed once; clones and casts to the same dtype vanish
- a reduction folds one run of dims and keeps them as size 1
- products get operands that BLAS can read; reshapes and kernels get operands in plain order
- concatenation, padding and writes to a part become parts stored into one buffer
- what computes with complex values runs on the host, what moves them moves pairs of reals
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.compiler.access import own_index, plain, resolve, storage, walks_as_one
from livegrad.compiler.expand import Primitives, copy_node, in_scratch, make_node
from livegrad.compiler.hosting import (
    host_spec,
    pairs_meta,
    pairs_spec,
    touches_complex,
    whole_meta,
)
from livegrad.graph.index import FIRST, Along, Index, stepped
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node, Spec
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import FloatArg, IntArg, record, wrap
from livegrad.graph.symbol import SymbolicFloat
from livegrad.ops import samples as s
from livegrad.ops.conjugate import VIEW_AS_COMPLEX, VIEW_AS_REAL
from livegrad.ops.power import square
from livegrad.ops.reduce import WIDE_SQUARES, Dims, count, wide, wide_sum
from livegrad.ops.update import LAYOUT

COPY = Op(
    "copy",
    "elementwise",
    # A clone that the compiler inserts where values must lie in memory in plain order.
    ref=np.array,
    emit=lambda e, x: x,
    cheap=False,
    saves="",
    samples=s.unary(smooth=False),
)

PART = Op(
    "part",
    "elementwise",
    # Values stored into a part of a larger buffer; the ASSEMBLY that owns the buffer reads it.
    ref=np.array,
    emit=lambda e, x: x,
    samples=s.unary(smooth=False),
)

ASSEMBLY = Op(
    "assembly",
    "kernel",
    # Inputs: parts, stored one after the other. attrs: per part the kind of region.
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, *parts: parts[0],
    lower="assembly",
    samples=s.calls(),
)


WIDE_PROD: Op = Op(
    "wide_prod",
    "reduce",
    # A product of floats in float64: of one part of many, to be rounded only with the others.
    infer=REGISTRY["wide_sum"].infer,
    ref=REGISTRY["prod"].ref,
    combine="wide_prod",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5),), lambda x: record(WIDE_PROD, (x,), ((1,), True))),
        lambda: s.Sample((s.uniform(4, 37),), lambda x: record(WIDE_PROD, (x,), ((0,), True))),
    ),
)
_WIDE = {"sum": REGISTRY["wide_sum"], "prod": WIDE_PROD}


class Legaliser:
    """Builds the legal graph in one walk; `final` maps old nodes to new ones."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.final: dict[Node, Node] = {}
        self.seen: dict[tuple[Any, ...], Node] = {}

    # ------------------------------------------------------------------ building blocks

    def add(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Appends a copy of `node` with new inputs, unless an equal one is there already."""
        key = _expression(node, inputs)
        found = self.seen.get(key)
        if found is None:
            found = copy_node(node, inputs, node.args)
            found.index = len(self.nodes)
            self.nodes.append(found)
            self.seen[key] = found
        return found

    def leaf(self, node: Node) -> Node:
        """A value the plan reads: never merged with another of the same shape."""
        node.index = len(self.nodes)
        self.nodes.append(node)
        return node

    def rewrite(self, make: Callable[..., Any], *nodes: Node, site: Any = None) -> Node:
        """What `make` records when given tensors for `nodes`, legalised in turn."""
        result, recorded = in_scratch(site, lambda: make(*[wrap(x) for x in nodes]))
        for x in nodes:
            self.final[x] = x
        for made in recorded:
            if made not in self.final:
                self.final[made] = self.visit(made, tuple([self.final[x] for x in made.inputs]))
        return self.final[result._node]

    def copy(self, x: Node) -> Node:
        """`x` stored in plain order."""
        if x.meta.dtype.is_complex:
            return self._whole(self.copy(self._pairs(x)))
        spec = COPY.cache.get(x.meta)
        if spec is None:
            spec = COPY.remember(x.meta, (x.meta.dtype, "t"), (x.meta,), x.meta)
        return self.add(make_node(spec, (x,), (), x.site), (x,))

    def in_order(self, x: Node) -> Node:
        """A node with the elements of `x` in plain order in memory."""
        if x.op is VIEW_AS_COMPLEX:
            (pairs,) = x.inputs
            ordered = self.in_order(pairs)
            return x if ordered is pairs else self._whole(ordered)
        base = plain(x)
        if base is None or base.op.kind == "generate":
            return self.copy(x)
        return x

    # ------------------------------------------------------------------------- visiting

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The legal form of `node`, whose inputs are legal."""
        op = node.op
        if op.name in ("clone", "cast") and inputs[0].meta.dtype is node.meta.dtype:
            return inputs[0]
        if op.kind != "update" and touches_complex(node):
            return self._complex(node, inputs)
        if op.name == "reshape" and op.view is not None:
            return self._reshape(node, inputs)
        if op.kind == "reduce":
            return self._reduce(node, inputs)
        if op.lower in ("gather", "index_select"):
            return self.add(node, (self.in_order(inputs[0]), inputs[1]))
        rule = _KERNELS.get(op.lower or "")
        if rule is not None:
            key = _expression(node, inputs)
            if key not in self.seen:
                self.seen[key] = rule(self, node, inputs)
            return self.seen[key]
        if op.kind in ("host", "update") or op.lower:
            inputs = tuple([self.in_order(x) for x in inputs])
        return self.add(node, inputs)

    # -------------------------------------------------------------------------- complex values

    def _complex(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The legal form of a node that reads or gives complex values."""
        if node.op.kind != "movement":
            inputs = tuple([self.in_order(x) for x in inputs])
            return self.add(make_node(host_spec(node), inputs, node.args, node.site), inputs)
        (x,) = inputs
        if node.op is VIEW_AS_COMPLEX:
            return self._whole(x)
        pairs = self._pairs(x)
        if node.op is VIEW_AS_REAL:
            return pairs
        if node.op.name == "reshape":
            shape = pairs_meta(node.meta).shape
            return self._whole(self.rewrite(lambda t: _reshape_to(t, shape), pairs, site=node.site))
        moved = make_node(pairs_spec(node), (pairs,), node.args, node.site)
        return self._whole(self.add(moved, (pairs,)))

    def _pairs(self, x: Node) -> Node:
        """Complex `x` as pairs of reals."""
        if x.op is VIEW_AS_COMPLEX:
            return x.inputs[0]
        spec = Spec(VIEW_AS_REAL, (), pairs_meta(x.meta))
        return self.add(make_node(spec, (x,), (), x.site), (x,))

    def _whole(self, pairs: Node) -> Node:
        """Pairs of reals as complex values; who reads them from memory asks for them in order."""
        spec = Spec(VIEW_AS_COMPLEX, (), whole_meta(pairs.meta))
        return self.add(make_node(spec, (pairs,), (), pairs.site), (pairs,))

    # -------------------------------------------------------------------------------- reshapes

    def _reshape(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        (x,) = inputs
        if x.meta.shape == node.meta.shape:
            return x
        made = copy_node(node, inputs, node.args)
        assert node.op.view is not None
        if node.op.view(made, own_index(node.meta.shape)) is None:
            inputs = (self.in_order(x),)
        return self.add(node, inputs)

    # ------------------------------------------------------------------------ reductions

    def _reduce(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        (x,) = inputs
        dims, keepdim = node.attrs[:2]
        op, rest = node.op, node.attrs[2:]
        if not keepdim:
            shape = node.meta.shape
            return self.rewrite(
                lambda t: _reshape_to(record(op, (t,), (dims, True, *rest)), shape),
                x,
                site=node.site,
            )
        runs = _runs(x.meta.shape, dims)
        if op is WIDE_SQUARES and len(runs) != 1:
            return self.rewrite(lambda t: wide_sum(square(wide(t)), dims), x, site=node.site)
        if not runs:
            return self.rewrite(lambda t: _fold_nothing(op, t, node.meta), x, site=node.site)
        if len(runs) > 1:
            first = tuple(d for d in dims if d >= runs[-1][0])
            others = tuple(d for d in dims if d < runs[-1][0])
            return self.rewrite(
                lambda t: _fold_apart(op, t, first, others, node.meta.dtype), x, site=node.site
            )
        shape = x.meta.shape
        cut = _cut(op, x.meta, runs[0])
        if cut is not None:
            return self.rewrite(
                lambda t: _fold_twice(op, t, runs[0], cut, node.meta), x, site=node.site
            )
        if not walks_as_one(*resolve(x, own_index(shape)), shape, tuple(runs[0])):
            inputs = (self.copy(x),)
        return self.add(node, inputs)


def _runs(shape: tuple[int, ...], dims: tuple[int, ...]) -> list[list[int]]:
    """The folded dims as runs of neighbours; dims of size 1 neither count nor separate."""
    runs: list[list[int]] = []
    open_run = False
    for d, size in enumerate(shape):
        if size == 1:
            continue
        if d in dims:
            if open_run:
                runs[-1].append(d)
            else:
                runs.append([d])
            open_run = True
        else:
            open_run = False
    return runs


# Folds longer than this are cut into equal parts of at most so many elements each, which threads
# share. It depends on the shape alone, and so do the bits of the result.
_LONG_FOLD = 1 << 16
_PARTS = range(1 << 14, 1 << 11, -1)
# Sums of rows shorter than this are about as much memory as the values.
_LONG_ROW = 16
# With more results than these there is enough to share out: rows one by one, columns by blocks.
_FEW_ROWS, _FEW_COLUMNS = 16, 256


def _cut(op: Op, meta: Meta, run: list[int]) -> int | None:
    """The size of the parts a long fold is made in, if there are few results to share out."""
    length = prod([meta.shape[d] for d in run])
    few = _FEW_ROWS if prod(meta.shape[run[-1] + 1 :]) == 1 else _FEW_COLUMNS
    if length < _LONG_FOLD or meta.numel // length > few or op.combine not in _CUTTABLE:
        return None
    whole = int(length)  # a plan for each length: such folds take much longer than planning
    return next((size for size in _PARTS if whole % size == 0), None)


_CUTTABLE = ("sum", "max", "min", "prod", "any", "all")


def _unrounded(op: Op, x: Any) -> Op:
    """The reduction `op` of `x` without rounding its result, where that is another."""
    wide = _WIDE.get(op.combine or "") if x._node.meta.dtype.is_floating_point else None
    return wide or op


def _fold_apart(op: Op, x: Any, first: Dims, others: Dims, dtype: dtypes.DType) -> Any:
    """One run of dims, then the others.

    Not rounded in between, unless that would be twice the memory for most of the values.
    """
    halved = dtype.compute is not dtype
    small = count(x, first) >= _LONG_ROW
    once = record(_unrounded(op, x) if halved or small else op, (x,), (first, True))
    return _cast_to(record(op, (once,), (others, True)), dtype)


def _fold_twice(op: Op, x: Any, run: list[int], size: int, meta: Meta) -> Any:
    """Each part of the folded dims by itself, then the results."""
    whole = x._node.meta.shape
    length = prod([whole[d] for d in run])
    before, after = whole[: run[0]], whole[run[-1] + 1 :]
    parts = _reshape_to(x, (*before, length // size, size, *after))
    place = len(before)
    once = record(_unrounded(op, x), (parts,), ((place + 1,), True))
    return _reshape_to(_cast_to(record(op, (once,), ((place,), True)), meta.dtype), meta.shape)


def _fold_nothing(op: Op, x: Any, meta: Meta) -> Any:
    """A reduction over dims of size 1 only."""
    from livegrad.ops.movement import FULL

    if op.combine in ("argmax", "argmin"):
        return record(FULL, (), (dtypes.int64,), (0,), meta.shape)
    return _cast_to(x, meta.dtype)


def _cast_to(x: Any, dtype: dtypes.DType) -> Any:
    from livegrad.ops.elementwise import cast

    return x if x._node.meta.dtype is dtype else cast(x, dtype)


def _reshape_to(x: Any, shape: tuple[int, ...]) -> Any:
    from livegrad.ops.movement import _reshape_to as reshape_to

    return reshape_to(x, shape)


def _expression(node: Node, inputs: tuple[Node, ...]) -> tuple[Any, ...]:
    """What two nodes have in common exactly if they compute the same."""
    return (
        node.spec.op.name,
        node.spec.attrs,
        node.meta.plain,
        tuple([id(x) for x in inputs]),
        tuple([_arg_key(a) for a in node.args]),
    )


def _arg_key(arg: Any) -> Any:
    if isinstance(arg, IntArg | FloatArg):
        return (type(arg), arg.slot)
    if isinstance(arg, SymbolicFloat):
        return (SymbolicFloat, arg.term, float.__add__(arg, 0.0))
    return (type(arg), arg)


# -------------------------------------------------------------------------------- products


def _matmul(walk: Legaliser, node: Node, inputs: tuple[Node, ...]) -> Node:
    dtype = node.meta.dtype
    op = node.op
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return walk.rewrite(
            lambda a, b: _cast_to(
                record(op, (_cast_to(a, dtypes.float32), _cast_to(b, dtypes.float32))), dtype
            ),
            *inputs,
            site=node.site,
        )
    if not dtype.is_floating_point:
        return walk.add(node, tuple([walk.in_order(x) for x in inputs]))  # NumPy's business
    wide = [_whole_batch(walk, x, node) for x in inputs]
    if is_tall(node):
        wide[0] = walk.in_order(wide[0])
    small = _is_small(node, inputs[0].meta.shape[-1])
    operands = tuple([x if _readable(x, small) else walk.copy(x) for x in wide])
    return walk.add(node, operands)


# OpenBLAS has kernels for small products, and for narrow ones cut into small pieces, that add in
# another order when an operand is transposed. See "Same bits" in docs/design.md.
SMALL_PRODUCT = 1_000_000
NARROW = 128


def _is_small(node: Node, inner: int) -> bool:
    return node.meta.shape[-1] <= NARROW or node.meta.numel * inner <= SMALL_PRODUCT


def _readable(x: Node, small: bool) -> bool:
    """Whether BLAS reads `x` in place, and gives the same bits as for `x` in plain order."""
    layout = blas_layout(x)
    if layout is None:
        return False
    if not small or 1 in x.meta.shape[-2:]:
        return True
    matrix = [at.axis for at in layout[1] if at != FIRST][-2:]
    return matrix == sorted(matrix)


def is_tall(node: Node) -> bool:
    """Whether a batch of products with one matrix on the right is done as a single tall product.

    Shapes alone decide: BLAS may round a row differently in a product of another height.
    """
    right = node.inputs[1].meta.shape[:-2]
    return prod(node.meta.shape[:-2]) > 1 and all(size == 1 for size in right)


def _whole_batch(walk: Legaliser, x: Node, node: Node) -> Node:
    """`x` with all batch dims of the product or none: one stride then leads to the next matrix."""
    wanted, have = node.meta.shape[:-2], x.meta.shape[:-2]
    if have == wanted or all(size == 1 for size in have):
        return x
    shape = (*wanted, *x.meta.shape[-2:])
    expanded = walk.rewrite(
        lambda t: record(REGISTRY["expand"], (t,), (), (), shape), x, site=node.site
    )
    return walk.copy(expanded)


def blas_layout(x: Node) -> tuple[Node, Index] | None:
    """The base and index of a product's operand if BLAS can read it in place, else None.

    It can if the last dim in memory is the operand's row or column dim, the other one is a whole
    dim of the base, and batch dims are whole leading dims or absent.
    """
    base, index = resolve(x, own_index(x.meta.shape))
    if base.op.kind in ("generate", "full"):
        return None
    ndim = x.meta.ndim
    rows, cols = ndim - 2, ndim - 1
    used = [at for at in index if at != FIRST]
    if any(at.coef != 1 or at.more for at in used):
        return None
    looped = [at.axis for at in used if at.axis >= 0]
    if len(set(looped)) != len(looped):  # a diagonal
        return None
    batch = [at for at in used if at.axis < rows]
    if any(at.args or at.offset for at in batch):
        return None
    matrix = [at.axis for at in used if at.axis >= rows]
    order = [at.axis for at in used]
    broadcast = [d for d in (rows, cols) if x.meta.shape[d] != 1 and d not in matrix]
    if broadcast or order[: len(batch)] != [at.axis for at in batch]:
        return None
    if batch and order[: len(batch)] != sorted(order[: len(batch)]):
        return None
    wanted_batch = [d for d in range(rows) if x.meta.shape[d] != 1]
    if batch and [at.axis for at in batch] != wanted_batch:
        return None
    # The innermost dim in memory must belong to the matrix (or be of size 1 altogether).
    if len(matrix) == 2 and index and index[-1] == FIRST:
        return None
    if len(matrix) == 1 and index and index[-1] == FIRST and base.meta.shape[-1] != 1:
        return None
    return base, index


# -------------------------------------------------------------------------------- scatters


def _scatter(walk: Legaliser, node: Node, inputs: tuple[Node, ...]) -> Node:
    """A scatter that adds or multiplies half precisions does so in float32, rounded once."""
    dtype, op = node.meta.dtype, node.op
    if dtype is dtype.compute or node.attrs[1:] in (("amax",), ("amin",)):
        return walk.add(node, tuple([walk.in_order(x) for x in inputs]))

    def in_float32(base: Any, index: Any, source: Any) -> Any:
        wide = [_cast_to(base, dtype.compute), index, _cast_to(source, dtype.compute)]
        return _cast_to(record(op, wide, node.attrs), dtype)

    return walk.rewrite(in_float32, *inputs, site=node.site)


# -------------------------------------------------------------- parts stored into one buffer


def _assemble(
    walk: Legaliser, node: Node, parts: list[tuple[Node, Index]], ordered: bool = False
) -> Node:
    """One buffer of node's shape made of parts, each stored at an index of the buffer.

    A part's index maps the dims of the buffer to the loop counters of the part.
    """
    inputs: list[Node] = []
    for x, _ in parts:
        attrs = (x.meta.dtype, "t", len(walk.nodes))  # unique: parts are never shared
        spec = Spec(PART, attrs, x.meta)
        # An overlapping part comes after the one it overwrites, which it names as an input.
        after = (x, *inputs[-1:]) if ordered else (x,)
        inputs.append(walk.add(make_node(spec, after, (), node.site), after))
    spec = Spec(ASSEMBLY, (tuple([index for _, index in parts]),), node.meta)
    return walk.add(make_node(spec, tuple(inputs), (), node.site), tuple(inputs))


def _cat(walk: Legaliser, node: Node, inputs: tuple[Node, ...]) -> Node:
    dim = node.attrs[0]
    offset = 0
    parts = []
    for x in inputs:
        index = list(own_index(x.meta.shape))
        if x.meta.shape[dim] == 1:
            index[dim] = Along(-1, 0, offset)
        else:
            index[dim] = Along(dim, 1, offset)
        parts.append((_same_dtype(walk, x, node), tuple(index)))
        offset += x.meta.shape[dim]
    return _assemble(walk, node, parts)


def _index_write(walk: Legaliser, node: Node, inputs: tuple[Node, ...]) -> Node:
    base, value = inputs
    target = REGISTRY["index"].view
    assert target is not None
    reader = make_node(Spec(REGISTRY["index"], node.attrs, value.meta), (base,), node.args, None)
    index = target(reader, own_index(value.meta.shape))
    whole = own_index(base.meta.shape)
    parts = [(base, whole), (_same_dtype(walk, value, node), index)]
    return _assemble(walk, node, parts, ordered=True)


def _pad(walk: Legaliser, node: Node, inputs: tuple[Node, ...]) -> Node:
    (x,) = inputs
    value, *before = node.args
    fill = walk.rewrite(
        lambda t: record(REGISTRY["full"], (), (node.meta.dtype,), (value,), node.meta.shape),
        x,
        site=node.site,
    )
    starts = iter(before)
    index = tuple(
        [
            stepped(at, 1, next(starts)) if padded else at
            for at, padded in zip(own_index(x.meta.shape), node.attrs[0], strict=True)
        ]
    )
    return _assemble(walk, node, [(fill, own_index(node.meta.shape)), (x, index)], ordered=True)


def _same_dtype(walk: Legaliser, x: Node, node: Node) -> Node:
    if x.meta.dtype is node.meta.dtype:
        return x
    return walk.rewrite(lambda t: _cast_to(t, node.meta.dtype), x, site=node.site)


_KERNELS: dict[str, Callable[[Legaliser, Node, tuple[Node, ...]], Node]] = {
    "matmul": _matmul,
    "cat": _cat,
    "index_write": _index_write,
    "pad": _pad,
    **dict.fromkeys(("index_add", "scatter_add", "index_fold", "scatter_fold"), _scatter),
}


def legalise(primitives: Primitives) -> Primitives:
    """The legal graph, without nodes that no output needs."""
    walk = Legaliser()
    for node in primitives.nodes:
        inputs = tuple([walk.final[x] for x in node.inputs])
        walk.final[node] = walk.leaf(node) if node.op.kind == "leaf" else walk.visit(node, inputs)
    written = _written(walk.nodes)
    outputs = [_output(walk, walk.final[x], written) for x in primitives.outputs]
    nodes = _needed(walk.nodes, primitives.leaves, outputs)
    return Primitives(nodes, primitives.leaves, outputs, primitives.ints, primitives.floats)


def _written(nodes: list[Node]) -> set[Node]:
    """The leaves that updates overwrite."""
    found: set[Node] = set()
    for node in nodes:
        if node.op.kind == "update":
            count = node.attrs[0]
            for s in LAYOUT[node.op][1]:
                found.update(node.inputs[s * count : (s + 1) * count])
    return found


def _output(walk: Legaliser, node: Node, written: set[Node]) -> Node:
    """An output must be memory in plain order; a value that already is keeps its buffer."""
    ordered = walk.in_order(node)
    return walk.copy(node) if storage(ordered) in written else ordered


def _needed(nodes: list[Node], leaves: int, outputs: list[Node]) -> list[Node]:
    """The nodes that outputs depend on (and all leaves), renumbered, in order."""
    wanted = bytearray(len(nodes))
    for node in outputs:
        wanted[node.index] = 1
    for node in reversed(nodes):
        if node.op.kind == "update":
            wanted[node.index] = 1
        if wanted[node.index]:
            for x in node.inputs:
                wanted[x.index] = 1
    kept = [n for n in nodes if wanted[n.index] or n.index < leaves]
    for number, node in enumerate(kept):
        node.index = number
    return kept
