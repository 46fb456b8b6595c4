"""Attention: operands are read where they are; one kernel, which multiplies by calls."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from livegrad import dtypes
from livegrad.compiler.access import axis_strides, contiguous_strides, own_index, resolve
from livegrad.compiler.attention import NUMBERS, Kind, generate_attention, scratch_of
from livegrad.compiler.bind_products import ITEM_PRODUCT, MOST_ITEMS
from livegrad.compiler.binder import THREAD_WORK, put_numbers
from livegrad.compiler.draft import Draft
from livegrad.compiler.few_rows import generate_product
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Kernel, Nodes
from livegrad.compiler.lowerings.product import is_readable
from livegrad.compiler.plan import ADD_INPUT, SET_INPUT, Block, Patch, Signature, Step
from livegrad.compiler.products import BLOCK, JOB_BYTES
from livegrad.graph.node import Node
from livegrad.graph.record import record
from livegrad.graph.symbol import least, most
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.making.random import RAND

# Elements of scores that are in the thread's memory at a time, and queries, in whole tiles.
MOST_SCORES, MOST_QUERIES, QUERIES_CUT = 1 << 16, 126, 42
# Fewer where each looks at keys up to its own place, as some keys are multiplied for the last one
# only: a tile, if keys are not brought together for it again; two for gradients, of which those of
# keys are sums over queries.
MOST_CAUSAL, KEPT_CAUSAL, KEPT_GRADIENT = 42, 14, 28


class Matrices(NamedTuple):
    """Where an operand's elements are: a base, bytes from its start, and steps in bytes.

    Steps from row to row, from column to column, and along each dim of the batch.
    """

    base: Node
    offset: int
    moves: list[tuple[int, int]]  # run-time terms of the address: slot of the integer, bytes
    steps: list[int]


def _matrices(x: Node, rank: int) -> Matrices:
    shape, size = x.meta.shape, x.meta.dtype.itemsize
    base, index = resolve(x, own_index(shape))
    strides = [s * size for s in axis_strides(index, base.meta.shape, len(shape))]
    batch = strides[:-2]
    offset, moves = 0, []
    for at, stride in zip(index, contiguous_strides(base.meta.shape), strict=True):
        offset += at.offset * stride * size
        moves += [(slot, mult * stride * size) for slot, mult in at.args]
    return Matrices(base, offset, moves, [*strides[-2:], *[0] * (rank - len(batch)), *batch])


class Attention(Kernel):
    """Inputs (q, k, v[, mask]), attrs (causal, kind of mask, dropout): args as in ops.

    The result has the last dim of the batch behind its rows. With `gradient`, another input before
    these, and the gradients of q, k and v one after the other.
    """

    label = "attention"

    def __init__(self, gradient: bool) -> None:
        self.gradient = gradient

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Operands of which terms or lines are neighbours; half precisions in float32."""
        if node.meta.dtype.compute is not node.meta.dtype:
            return walk.once(node, inputs, lambda: _in_float32(walk, node, inputs))
        matrices = 3 + self.gradient
        found = []
        for number, x in enumerate(inputs):
            last = x.meta.ndim - 1
            is_mask = number >= matrices
            good = is_readable(x, last - 1, last) if not is_mask else _is_plain_along(x)
            found.append(x if good else walk.copy(x))
        return walk.add(node, tuple(found))

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """A step of the template."""
        work = _Work(draft, node, self.gradient)
        signature = (generate_attention, tuple(work.kind), node.meta.dtype)
        return [Step("attention", node.meta.shape, [work.block()], signature, work.calls)]


def _is_plain_along(x: Node) -> bool:
    """Whether the last dim's elements are neighbours."""
    shape = x.meta.shape
    base, index = resolve(x, own_index(shape))
    if base.op.kind == "generate":
        return False
    return shape[-1] == 1 or axis_strides(index, base.meta.shape, len(shape))[-1] == 1


def _in_float32(walk: Legaliser, node: Node, inputs: Nodes) -> Node:
    op, dtype, shape = node.op, node.meta.dtype, node.meta.shape

    def make(*given: Any) -> Any:
        wide = [cast(x, dtypes.float32) if x.dtype is dtype else x for x in given]
        return cast(record(op, wide, node.attrs, node.args, shape), dtype)

    return walk.rewrite(make, *inputs, site=node.site)


class _Work:
    """The block of one kernel."""

    def __init__(self, draft: Draft, node: Node, gradient: bool) -> None:
        self.draft, self.node = draft, node
        inputs = node.inputs[1:] if gradient else node.inputs
        q, k, v = [x.meta.shape for x in inputs[:3]]
        self.sizes = (q[-2], k[-2], q[-1], v[-1])
        self.batch = _batch_of([x.meta.shape[:-2] for x in node.inputs])
        causal, mask, dropout = node.attrs
        drawn_by = RAND.name if dropout else ""
        self.kind = Kind(causal, mask, drawn_by, len(self.batch), gradient)
        self.given = [_matrices(x, len(self.batch)) for x in node.inputs]
        self.calls: list[tuple[int, Signature]] = []
        self.patches: list[Patch] = []

    def block(self) -> Block:
        """Slots as in compiler/attention.py."""
        kind, (rows, columns, features, width) = self.kind, self.sizes
        entries, size = prod(self.batch), self.node.meta.dtype.itemsize
        work = rows * columns * (features + width)
        taken = least(most(MOST_SCORES // most(columns, 1), 14), self._most_queries())
        if not kind.gradient:
            wanted = least(most(entries * work // ITEM_PRODUCT, 1), MOST_ITEMS)
            parts = -(-wanted // most(entries, 1))
            taken = least(taken, most(-(-rows // (parts * QUERIES_CUT)) * QUERIES_CUT, 14))
        taken = least(taken, most(rows, 1))
        blocks = -(-rows // taken)
        slots = [entries if kind.gradient else entries * blocks]
        for name in kind.calls:
            self.calls.append((len(slots), (generate_product, *self._ways(name), self._dtype)))
            slots.append(0)
        slots += [0] * len(kind.operands)
        self._address(1 + len(kind.calls))
        slots += [rows, columns, features, width, taken, blocks]
        assert len(NUMBERS) == 6
        put_numbers(self.node.args, slots, self.patches, self.draft.first_int)
        slots += self.batch
        for steps in self._all_steps():
            slots += steps
        scratch = scratch_of(kind, taken, columns, features, width) * size + JOB_BYTES
        grain = most(1, THREAD_WORK // most(1, work // (8 * most(1, blocks))))
        return Block(slots, self.patches, grain, scratch)

    def _most_queries(self) -> int:
        if not self.kind.causal:
            return MOST_QUERIES
        if any([size > BLOCK for size in self.sizes[1:]]):
            return MOST_CAUSAL
        return KEPT_GRADIENT if self.kind.gradient else KEPT_CAUSAL

    @property
    def _dtype(self) -> Any:
        return self.node.meta.dtype

    # ------------------------------------------------------------------------------- operands

    def _results(self) -> list[tuple[int, list[int]]]:
        """Bytes from the start of the result, and steps, of each matrix that is written."""
        rows, columns, features, width = self.sizes
        size, found, start = self._dtype.itemsize, [], 0
        shapes = [(rows, width)]
        if self.kind.gradient:
            shapes = [(rows, features), (columns, features), (columns, width)]
        for count, wide in shapes:
            found.append((start, _steps_of_result(self.batch, count, wide, size)))
            start = start + prod(self.batch) * count * wide * size
        return found

    def _address(self, first: int) -> None:
        where = self.draft.where(self.node)
        results = self._results()
        for slot, (offset, _) in enumerate(results, first):
            self.patches.append((SET_INPUT, slot, where.slot, where.offset + offset))
        for slot, x in enumerate(self.given, first + len(results)):
            where = self.draft.where(x.base)
            self.patches.append((SET_INPUT, slot, where.slot, where.offset + x.offset))
            for number, nbytes in x.moves:
                self.patches.append((ADD_INPUT, slot, self.draft.first_int + number, nbytes))

    def _all_steps(self) -> list[list[int]]:
        return [steps for _, steps in self._results()] + [x.steps for x in self.given]

    def _ways(self, call: str) -> tuple[str, str]:
        """How left and right operands of a product lie."""
        names = self.kind.operands[len(self._results()) :]
        steps = dict(zip(names, [x.steps for x in self.given], strict=True))
        size = self._dtype.itemsize

        def along(name: str) -> bool:
            """Whether a row's elements are neighbours."""
            return bool(steps[name][1] == size)

        pairs = {
            "scores": ("q", "k", True),
            "shares": ("g", "v", True),
            "values": ("", "v", False),
            "to queries": ("", "k", False),
            "to values": ("T", "g", False),
            "to keys": ("T", "q", False),
        }
        left, right, turned = pairs[call]
        first = "lines" if left == "T" else "terms" if not left or along(left) else "lines"
        return first, "terms" if along(right) == turned else "lines"


def _batch_of(shapes: list[tuple[int, ...]]) -> list[int]:
    """The dims of all batches together."""
    rank = max([len(shape) for shape in shapes])
    found = [1] * rank
    for shape in shapes:
        for d, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                found[d] = size
    return found


def _steps_of_result(batch: list[int], rows: int, width: int, size: int) -> list[int]:
    """Steps of (*batch[:-1], rows, batch[-1], width): by rows, columns, and the batch's dims."""
    if not batch:
        return [width * size, size]
    *lead, heads = contiguous_strides((*batch[:-1], rows, batch[-1], width))[:-1]
    *outer, row = lead
    return [row * size, size, *[step * size for step in outer], heads * size]
