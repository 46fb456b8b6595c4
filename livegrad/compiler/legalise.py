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

from livegrad import dtypes
from livegrad.compiler.access import own_index, resolve, storage, walks_as_one
from livegrad.compiler.expand import Primitives, copy_node, in_scratch, make_node
from livegrad.compiler.hosting import touches_complex, whole_meta
from livegrad.compiler.inserted import COPY
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node, Spec
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import FloatArg, IntArg, record, wrap
from livegrad.graph.symbol import SymbolicFloat
from livegrad.ops import samples as s
from livegrad.ops.conjugate import VIEW_AS_COMPLEX
from livegrad.ops.reduce import Dims, count

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
            return self.whole(self.copy(self.pairs(x)))
        spec = COPY.cache.get(x.meta)
        if spec is None:
            spec = COPY.remember(x.meta, (x.meta.dtype, "t"), (x.meta,), x.meta)
        return self.add(make_node(spec, (x,), (), x.site), (x,))

    def in_order(self, x: Node) -> Node:
        """A node with the elements of `x` in plain order in memory."""
        return x.op.lower.in_order(self, x)

    def once(self, node: Node, inputs: tuple[Node, ...], make: Callable[[], Node]) -> Node:
        """What `make` gives, or gave for an equal node."""
        key = _expression(node, inputs)
        if key not in self.seen:
            self.seen[key] = make()
        return self.seen[key]

    def pairs(self, x: Node) -> Node:
        """Complex `x` as pairs of reals."""
        return x.op.lower.pairs(self, x)

    def whole(self, pairs: Node) -> Node:
        """Pairs of reals as complex values; who reads them from memory asks for them in order."""
        spec = Spec(VIEW_AS_COMPLEX, (), whole_meta(pairs.meta))
        return self.add(make_node(spec, (pairs,), (), pairs.site), (pairs,))

    # ------------------------------------------------------------------------- visiting

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The legal form of `node`, whose inputs are legal."""
        lower = node.op.lower
        if touches_complex(node):
            return lower.legalise_complex(self, node, inputs)
        return lower.legalise(self, node, inputs)


# -------------------------------------------------------------------------------- reductions


def legalise_reduce(walk: Legaliser, node: Node, inputs: tuple[Node, ...]) -> Node:
    """Folds of one run of dims each, which are kept as size 1."""
    (x,) = inputs
    dims, keepdim = node.attrs[:2]
    op, rest = node.op, node.attrs[2:]
    if not keepdim:
        shape = node.meta.shape
        return walk.rewrite(
            lambda t: _reshape_to(record(op, (t,), (dims, True, *rest)), shape),
            x,
            site=node.site,
        )
    runs = _runs(x.meta.shape, dims)
    if not runs:
        return walk.rewrite(lambda t: _fold_nothing(op, t, node.meta), x, site=node.site)
    if len(runs) > 1:
        first = tuple(d for d in dims if d >= runs[-1][0])
        others = tuple(d for d in dims if d < runs[-1][0])
        return walk.rewrite(
            lambda t: _fold_apart(op, t, first, others, node.meta.dtype), x, site=node.site
        )
    shape = x.meta.shape
    cut = _cut(op, x.meta, runs[0])
    if cut is not None:
        return walk.rewrite(
            lambda t: _fold_twice(op, t, runs[0], cut, node.meta), x, site=node.site
        )
    if not walks_as_one(*resolve(x, own_index(shape)), shape, tuple(runs[0])):
        inputs = (walk.copy(x),)
    return walk.add(node, inputs)


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
    return cast_to(record(op, (once,), (others, True)), dtype)


def _fold_twice(op: Op, x: Any, run: list[int], size: int, meta: Meta) -> Any:
    """Each part of the folded dims by itself, then the results."""
    whole = x._node.meta.shape
    length = prod([whole[d] for d in run])
    before, after = whole[: run[0]], whole[run[-1] + 1 :]
    parts = _reshape_to(x, (*before, length // size, size, *after))
    place = len(before)
    once = record(_unrounded(op, x), (parts,), ((place + 1,), True))
    return _reshape_to(cast_to(record(op, (once,), ((place,), True)), meta.dtype), meta.shape)


def _fold_nothing(op: Op, x: Any, meta: Meta) -> Any:
    """A reduction over dims of size 1 only."""
    from livegrad.ops.movement import FULL

    if op.combine in ("argmax", "argmin"):
        return record(FULL, (), (dtypes.int64,), (0,), meta.shape)
    return cast_to(x, meta.dtype)


def cast_to(x: Any, dtype: dtypes.DType) -> Any:
    """`x` in another dtype."""
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
            for s in node.op.written:
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
