"""Reductions: a kernel folds one run of dims, and keeps them as size 1."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from livegrad import dtypes
from livegrad.compiler.access import own_index, resolve, walks_as_one
from livegrad.compiler.describe import Describer
from livegrad.compiler.fuse import Fuser
from livegrad.compiler.groups import Read
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Lowering, Nodes
from livegrad.compiler.signature import Stream
from livegrad.graph.index import Index
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast
from livegrad.ops.elementwise.roots import square
from livegrad.ops.making.generate import filled
from livegrad.ops.reductions.reduce import Dims, count, wide, wide_sum
from livegrad.ops.shaping.movement import reshape_to

# Folds longer than this are cut into equal parts of at most so many elements each, which threads
# share. It depends on the shape alone, and so do the bits of the result.
_LONG_FOLD = 1 << 16
_PARTS = range(1 << 14, 1 << 11, -1)
# Sums of rows shorter than this are about as much memory as the values.
_LONG_ROW = 16
# With more results than these there is enough to share out: rows one by one, columns by blocks.
_FEW_ROWS, _FEW_COLUMNS = 16, 256


class Reduce(Lowering):
    """attrs (dims, keepdim, …); the op's `combine` names the reducer.

    `in_parts`: a long fold may be made of parts. `unrounded` is the op that folds a part of floats,
    if the result is to be rounded only once.
    """

    def __init__(self, in_parts: bool = True, unrounded: str | None = None) -> None:
        self.in_parts = in_parts
        self.unrounded = unrounded

    # ------------------------------------------------------------------------------ legalise

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Folds of one run of dims each, which are kept as size 1."""
        (x,) = inputs
        dims, keepdim = node.attrs[:2]
        runs = _runs(x.meta.shape, dims)
        if not keepdim or len(runs) != 1:
            make = self._kept if not keepdim else self.nothing if not runs else self.apart
            return walk.rewrite(lambda t: make(node, t), x, site=node.site)
        (run,) = runs
        size = self._size_of_parts(x.meta, run)
        if size is not None:
            return walk.rewrite(lambda t: self._twice(node, t, run, size), x, site=node.site)
        shape = x.meta.shape
        if not walks_as_one(*resolve(x, own_index(shape)), shape, tuple(run)):
            x = walk.copy(x)
        return walk.add(node, (x,))

    def _kept(self, node: Node, x: Any) -> Any:
        dims, _, *rest = node.attrs
        return reshape_to(record(node.op, (x,), (dims, True, *rest)), node.meta.shape)

    def nothing(self, node: Node, x: Any) -> Any:
        """A fold over dims of size 1 only."""
        return cast(x, node.meta.dtype)

    def apart(self, node: Node, x: Any) -> Any:
        """One run of dims, then the others.

        Not rounded in between, unless that would be twice the memory for most of the values.
        """
        dims, dtype = node.attrs[0], node.meta.dtype
        start = _runs(x.shape, dims)[-1][0]
        first = tuple([d for d in dims if d >= start])
        others = tuple([d for d in dims if d < start])
        halved, small = dtype.compute is not dtype, count(x, first) >= _LONG_ROW
        once = record(self._of_part(node, x) if halved or small else node.op, (x,), (first, True))
        return cast(record(node.op, (once,), (others, True)), dtype)

    def _twice(self, node: Node, x: Any, run: list[int], size: int) -> Any:
        """Each part of the folded dims by itself, then the results."""
        before, after = x.shape[: run[0]], x.shape[run[-1] + 1 :]
        length, place = prod([x.shape[d] for d in run]), len(before)
        parts = reshape_to(x, (*before, length // size, size, *after))
        once = record(self._of_part(node, x), (parts,), ((place + 1,), True))
        folded = record(node.op, (once,), ((place,), True))
        return reshape_to(cast(folded, node.meta.dtype), node.meta.shape)

    def _of_part(self, node: Node, x: Any) -> Op:
        """What folds a part of `x`: its result is not rounded, where that is another op."""
        rounds = self.unrounded and x._node.meta.dtype.is_floating_point
        return REGISTRY[self.unrounded] if rounds and self.unrounded else node.op

    def _size_of_parts(self, meta: Meta, run: list[int]) -> int | None:
        """The size of the parts a long fold is made in, if there are few results to share out."""
        length = prod([meta.shape[d] for d in run])
        few = _FEW_ROWS if prod(meta.shape[run[-1] + 1 :]) == 1 else _FEW_COLUMNS
        if length < _LONG_FOLD or meta.numel // length > few or not self.in_parts:
            return None
        whole = int(length)  # a plan for each length: such folds take much longer than planning
        return next((size for size in _PARTS if whole % size == 0), None)

    # --------------------------------------------------------------------- fuse and describe

    def group(self, fuser: Fuser, node: Node) -> None:
        """In the loops that compute or read what is folded, or as their tail."""
        fuser.place_reduce(node)

    def reads(self, node: Node, index: Index) -> Iterable[Read]:
        """All of what is folded."""
        (x,) = node.inputs
        return (Read(*resolve(x, own_index(x.meta.shape))),)

    def describe(self, kernel: Describer, node: Node, index: Index) -> int:
        """A fold along the row; in a tail, one over what the rows gave."""
        (read,) = kernel.fuser.direct_reads(node, index)
        combine, dtype = node.op.combine, node.meta.dtype
        if kernel.in_tail:
            stream = kernel.stream(read.node, read.index, Stream(read.node.meta.dtype, 1))
            return kernel.add("fold", (combine, stream), (), dtype, False)
        value = kernel.value(read.node, read.index)
        return kernel.add("reduce", combine, (value,), dtype, False, fixed=False)


class Sum(Reduce):
    """Begins at 0, also where there is one value: 0 + -0 is 0."""

    def nothing(self, node: Node, x: Any) -> Any:
        alone = cast(x, node.meta.dtype)
        return add(alone, 0.0) if node.meta.dtype.is_floating_point else alone


class Place(Reduce):
    """The place of a value among those that are folded."""

    def nothing(self, node: Node, x: Any) -> Any:
        """The only place there is."""
        return filled(node.meta.shape, 0, dtypes.int64)


class Squares(Reduce):
    """Sums of squares, which are sums if they are not made by a single fold."""

    def nothing(self, node: Node, x: Any) -> Any:
        """The square."""
        return self.apart(node, x)

    def apart(self, node: Node, x: Any) -> Any:
        """A sum of the squares."""
        return wide_sum(square(wide(x)), node.attrs[0])


def _runs(shape: tuple[int, ...], dims: Dims) -> list[list[int]]:
    """The folded dims as runs of neighbours; dims of size 1 neither count nor separate."""
    runs: list[list[int]] = []
    open_run = False
    for d, size in enumerate(shape):
        if size == 1:
            continue
        if d in dims and open_run:
            runs[-1].append(d)
        elif d in dims:
            runs.append([d])
        open_run = d in dims
    return runs
