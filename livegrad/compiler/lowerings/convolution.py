"""Products with windows: operands in memory, of which what multiplies sees windows itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from livegrad.compiler.access import axis_strides, own_index, resolve
from livegrad.compiler.alone_slopes import CHANNELS, generate_alone_slopes, scratch_bytes
from livegrad.compiler.binder import THREAD_WORK, patched
from livegrad.compiler.channel_slopes import LEAST_CHANNELS
from livegrad.compiler.describe import Describer, Windows
from livegrad.compiler.draft import Draft
from livegrad.compiler.expand import make_node
from livegrad.compiler.fuse import Fuser
from livegrad.compiler.groups import Read
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Kernel, Looped, Nodes
from livegrad.compiler.lowerings.product import NATIVE, in_wide, is_readable, multiplied
from livegrad.compiler.plan import Block, Step
from livegrad.compiler.window_lanes import lanes_are_windows
from livegrad.graph.handle import node_of
from livegrad.graph.index import FIRST, Along, Index
from livegrad.graph.meta import Shape, meta_of
from livegrad.graph.node import Node, Spec
from livegrad.graph.record import record
from livegrad.graph.symbol import most
from livegrad.ops.products.matmul import MATMUL, transposed
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.windows.shifted_products import MOST_SHIFTS
from livegrad.ops.windows.unfolding import permuted
from livegrad.ops.windows.window_products import Lie

# Places of an image of which a last panel that is not full is a small part. Windows of all images
# that take about as long to multiply as a weight takes to copy, four times.
MANY_PLACES, FEW_WINDOWS = 128, 256


class _Windowed(Looped):
    """Both have an input (N, G, C, *S) of which windows are seen, and one in plain order."""

    label = "product"

    def seen(self, node: Node) -> int:
        """The input that has windows."""
        return 0

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """The last dim of what has windows must be neighbours; all of the other input."""
        if node.meta.dtype not in NATIVE:
            return walk.once(node, inputs, lambda: in_wide(walk, node, inputs))
        found = [self.in_memory(walk, x) for x in inputs]
        seen = self.seen(node)
        if _has_near_neighbours(inputs[seen]):
            found[seen] = inputs[seen]
        return walk.add(node, tuple(found))

    def in_memory(self, walk: Legaliser, x: Node) -> Node:
        """What has no windows, as it is read."""
        return walk.in_order(x)

    def from_memory(self, node: Node) -> Nodes:
        """Both inputs."""
        return node.inputs


class ConvProduct(_Windowed):
    """Inputs x (N, G, C, *S), weight (G, O, C, *K); attrs Lie."""

    def __init__(self, quads: bool = False, alone: bool = False) -> None:
        """Terms are `quads` if they are four bytes each (compiler/quads.py). If channels are
        `alone`, the weight has one for each row."""
        self.quads, self.alone = quads, alone

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """If windows are single elements, the weight may lie either way."""
        x, weight = inputs
        if not self._is_plain(node, x, weight) or node.meta.dtype not in NATIVE:
            return super().legalise(walk, node, inputs)
        return walk.add(node, (x, weight if is_readable(weight, 1, 2) else walk.copy(weight)))

    def _is_plain(self, node: Node, x: Node, factors: Node) -> bool:
        """Whether it is a product of matrices: windows are single elements, the places of an image
        neighbours. Of small images, several are multiplied together otherwise, for which the
        weight would be copied if it lies the other way."""
        weight, places = factors.meta.shape, prod(node.meta.shape[3:])
        if self.quads or self.alone or prod(weight[2:]) != weight[2] or weight[2] == 1:
            return False
        if not _are_elements(node, x.meta.shape, node.meta.shape):
            return False
        if places == 1:
            return is_readable(x, 0, 2)
        images = node.meta.shape[0]
        enough = places >= MANY_PLACES or images == 1
        if not enough and images * places <= FEW_WINDOWS:
            enough = not _lies_in_terms(factors)
        return enough and _has_near_places(x)

    def group(self, fuser: Fuser, node: Node) -> None:
        """A row per output channel, a column per window of an image; of a single one, a column per
        output channel."""
        rows, columns = (2,), tuple(range(3, node.meta.ndim))
        single = prod(node.meta.shape[3:]) == 1 and self._is_plain(node, *node.inputs)
        fuser.place_product(node, *(((), rows) if single else (rows, columns)))

    def reads(self, node: Node, index: Index) -> Iterable[Read]:
        """Rows of weights; images, by dims that are counted after the loops and the terms."""
        x, weight = node.inputs
        batch, group, output, *places = index
        if self._is_plain(node, *node.inputs):
            terms = Along(node.meta.ndim)
            yield _read_at(weight, (group, output, terms, *places))
            yield _read_at(x, (batch, group, terms, *places))
            return
        yield _read(weight, (group, output))
        yield _read(x, (batch, group), node.meta.ndim + 2)

    def describe(self, kernel: Describer, node: Node, index: Index) -> int:
        """A product of weights and windows."""
        x, weight = [y.meta.shape for y in node.inputs]
        if self._is_plain(node, *node.inputs):
            operands = kernel.fuser.direct_reads(node, index)
            single = prod(node.meta.shape[3:]) == 1
            return multiplied(kernel, x[2], operands[::-1] if single else operands)
        dims = _dims(node, x, node.meta.shape[3:], weight[3:])
        windows = Windows(False, x[2], dims, self.alone)
        operands = kernel.fuser.direct_reads(node, index)
        return multiplied(
            kernel, prod(weight[2:]), operands, windows, "right" if self.quads else ""
        )


class ConvSlopes(_Windowed):
    """Inputs g (N, G, O, *L), x (N, G, C, *S); attrs Lie.

    Long sums are made in parts, of as many images each, which threads share: by how many images and
    windows there are, so that a sum has the same bits in any company.
    """

    def seen(self, node: Node) -> int:
        """Images; if windows are single elements, which is which does not matter: gradients, so
        that results lie as they are computed."""
        return 0 if _is_even(node) else 1

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """In parts, each of which is another group; then the sum of these. Few places of an image,
        and single ones of several, are terms of a product of matrices."""
        parts = _parts(node)
        if parts == 1 and _is_plain_slope(node):
            return walk.once(node, inputs, lambda: walk.rewrite(_slope, *inputs, site=node.site))
        if parts == 1 or node.meta.dtype not in NATIVE:
            return super().legalise(walk, node, inputs)
        return walk.once(node, inputs, lambda: self._in_parts(walk, node, inputs, parts))

    def _in_parts(self, walk: Legaliser, node: Node, inputs: Nodes, parts: int) -> Node:
        cut = tuple([walk.rewrite(lambda x: _apart(x, parts), x, site=node.site) for x in inputs])
        groups, *sizes = node.meta.shape
        meta = meta_of((parts * groups, *sizes), node.meta.dtype)
        made = make_node(Spec(node.op, node.attrs, meta), cut, (), node.site)

        def total(sums: Any) -> Any:
            return record(SUM, (reshape_to(sums, (parts, *node.meta.shape)),), ((0,), False))

        return walk.rewrite(total, super().legalise(walk, made, cut), site=node.site)

    def in_memory(self, walk: Legaliser, x: Node) -> Node:
        """Gradients of which all windows of an image and a channel are neighbours."""
        return x if _has_near_places(x) else walk.in_order(x)

    def group(self, fuser: Fuser, node: Node) -> None:
        """A row per channel and place in a window, a column per output channel; or the other way
        round."""
        last = node.meta.ndim - 1
        if _is_even(node):
            fuser.place_product(node, (1,), tuple(range(2, last + 1)))
            return
        fuser.place_product(node, tuple(range(1, last)), (last,), (0, *range(2, last + 1), 1))

    def reads(self, node: Node, index: Index) -> Iterable[Read]:
        """Images, by dims that are counted after the loops; gradients of the output channels."""
        seen = self.seen(node)
        images, group = Along(node.meta.ndim + 1), index[0]
        yield _read(node.inputs[seen], (images, group), node.meta.ndim + 2)
        yield _read(node.inputs[1 - seen], (images, group, index[1 if seen else 2]))

    def describe(self, kernel: Describer, node: Node, index: Index) -> int:
        """A product of windows and gradients."""
        shape = node.inputs[self.seen(node)].meta.shape
        counts = node.inputs[0].meta.shape[3:]
        windows = Windows(True, shape[2], _dims(node, shape, counts, node.meta.shape[3:]))
        reads = kernel.fuser.direct_reads(node, index)
        return multiplied(kernel, shape[0] * prod(counts), reads, windows)


class AloneSlopes(Kernel):
    """Inputs g (N, C, *L), x (N, C, *S), attrs Lie, result (P, C, *K), for each part of the images:
    channels by themselves have a kernel of their own (compiler/alone_slopes.py)."""

    label = "product"

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Of half precisions, in float32."""
        if node.meta.dtype is node.meta.dtype.compute:
            return super().legalise(walk, node, inputs)
        return walk.once(node, inputs, lambda: in_wide(walk, node, inputs))

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """A step of that kernel."""
        g, x = node.inputs
        parts, channels, *taps = node.meta.shape
        dims, size = _dims(node, x.meta.shape, g.meta.shape[2:], taps, 2), node.meta.dtype.itemsize
        each = x.meta.shape[0] // parts
        slots = [parts * -(-channels // CHANNELS), 0, 0, 0, parts, each, channels]
        for length, count, _, *lie in dims:
            slots += [length, count, *lie]
        work = each * CHANNELS * prod(g.meta.shape[2:]) * prod(taps)
        grain = most(1, THREAD_WORK // most(1, work))
        scratch = scratch_bytes(dims, prod(taps), size)
        block = Block(slots, patched(draft.where, node, g, x), grain, scratch)
        sizes = tuple([_plain(number) for number in taps])
        signature = (generate_alone_slopes, sizes, dims[1][4] == 1, node.meta.dtype)
        return [Step("product", node.meta.shape, [block], signature)]


def _plain(taps: int) -> int:
    """As a number that code can be made for, if it is a symbol."""
    return next(number for number in range(1, MOST_SHIFTS + 1) if taps == number)


def _is_even(node: Node) -> bool:
    """Whether windows are elements by themselves, of many channels on both sides."""
    g, x = [y.meta.shape for y in node.inputs]
    many = min(g[2], x[2]) >= LEAST_CHANNELS
    return many and prod(node.meta.shape[3:]) == 1 and _are_elements(node, x, g)


def _slopes_windows(node: Node) -> Windows:
    g, x = [y.meta.shape for y in node.inputs]
    return Windows(True, x[2], _dims(node, x, g[3:], node.meta.shape[3:]))


def _is_plain_slope(node: Node) -> bool:
    """By shapes alone, as terms of few channels are added in another order otherwise."""
    g, x = [y.meta.shape for y in node.inputs]
    images, places = g[0], prod(g[3:])
    one_dim = places == 1 or (images == 1 and places < MANY_PLACES)
    return one_dim and prod(node.meta.shape[3:]) == 1 and _are_elements(node, x, g)


def _slope(g: Any, x: Any) -> Any:
    """(N, G, O, *L), (N, G, C, *L) as matrices, of terms of one dim: (G, O, C, *1)."""
    shape, others = node_of(x).meta.shape, node_of(g).meta.shape[2]
    images, groups, channels, *places = shape
    terms = images * prod(places)
    lines = [
        reshape_to(
            permuted(reshape_to(y, (images, groups, size, terms // images)), (1, 2, 0, 3)),
            (groups, size, terms),
        )
        for y, size in ((g, others), (x, channels))
    ]
    sums = record(MATMUL, (lines[0], transposed(lines[1])))
    return reshape_to(sums, (groups, others, channels, *[1] * len(places)))


# Parts of a sum at most, and windows of each at least.
_MOST_PARTS, _LEAST_WINDOWS = 8, 2048


def _parts(node: Node) -> int:
    """Into how many parts of images a sum over windows is cut: as many in each.

    What reads images where they are has work enough for threads without it.
    """
    if lanes_are_windows(_slopes_windows(node)):
        return 1
    images, windows = node.inputs[0].meta.shape[0], prod(node.inputs[0].meta.shape[3:])
    for parts in range(_MOST_PARTS, 1, -1):
        if images % parts == 0 and images * windows >= parts * _LEAST_WINDOWS:
            return parts
    return 1


def _apart(x: Any, parts: int) -> Any:
    """Parts of the images (N, G, …) as groups: (N / parts, parts * G, …)."""
    images, groups, *rest = node_of(x).meta.shape
    around = () if groups == 1 else (groups,)
    cut = reshape_to(x, (parts, images // parts, *around, *rest))
    turned = permuted(cut, (1, 0, *range(2, node_of(cut).meta.ndim)))
    return reshape_to(turned, (images // parts, parts * groups, *rest))


def _read(x: Node, lead: tuple[Along, ...], first: int | None = None) -> Read:
    """`x` where its leading dims are; the others at their beginning, or counted from `first` on."""
    rest = x.meta.ndim - len(lead)
    others = [FIRST] * rest if first is None else [Along(first + d) for d in range(rest)]
    return _read_at(x, (*lead, *others))


def _read_at(x: Node, index: Index) -> Read:
    at = [FIRST if size == 1 else i for size, i in zip(x.meta.shape, index, strict=True)]
    return Read(*resolve(x, tuple(at)), memory=True)


def _dims(
    node: Node, x: Shape, counts: Shape, taps: Sequence[int], lead: int = 3
) -> list[tuple[int, ...]]:
    lie = Lie(*node.attrs)
    numbers = zip(x[lead:], counts, taps, lie.stride, lie.dilation, lie.before, strict=True)
    return list(numbers)


def _are_elements(node: Node, x: Shape, windows: Shape) -> bool:
    """Whether windows of a single place are all elements, one after the other."""
    lie = Lie(*node.attrs)
    return x[3:] == windows[3:] and not any(lie.before) and max(lie.stride) == 1


def _has_near_neighbours(x: Node) -> bool:
    """Whether elements of the last dim are neighbours in memory."""
    shape = x.meta.shape
    base, index = resolve(x, own_index(shape))
    if base.op.kind == "generate":
        return False
    return axis_strides(index, base.meta.shape, len(shape))[-1] == 1


def _lies_in_terms(weight: Node) -> bool:
    """Whether terms (G, O, C, *1) are neighbours in memory."""
    base, index = resolve(weight, own_index(weight.meta.shape))
    if base.op.kind == "generate":
        return True
    return axis_strides(index, base.meta.shape, weight.meta.ndim)[2] == 1


def _has_near_places(x: Node) -> bool:
    """Whether all places of an image and a channel are neighbours in memory."""
    shape, near = x.meta.shape, 1
    base, index = resolve(x, own_index(shape))
    if base.op.kind == "generate":
        return False
    strides = axis_strides(index, base.meta.shape, len(shape))
    for size, stride in zip(reversed(shape[3:]), reversed(strides[3:]), strict=True):
        if size != 1 and stride != near:
            return False
        near = near * size
    return True
