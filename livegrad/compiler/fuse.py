"""Pass 4, fuse: decide which nodes share a kernel.

Nodes are taken in order; each joins the group of a value it reads if the loops agree and no cycle
arises, else it opens a group. Groups are of three kinds:

    rows      a loop over elements; with `dims`, rows folded over those (trailing) dims, with as
              many passes over a row as the reductions need: elementwise chains, softmax, norms;
              it may begin with a matrix product
    columns   values folded over leading dims, side by side: bias and norm-parameter gradients
    kernel    one node with a template of its own: scatter, update, NumPy code

Within a group a value stays in registers. What another group reads is stored, unless it is so
cheap that reading its inputs again costs less ("inlined").
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from livegrad.compiler.access import (
    is_alias,
    own_index,
    placed,
    plain,
    resolve,
    storage,
    walks_as_one,
)
from livegrad.compiler.expand import Primitives
from livegrad.compiler.groups import Group, Read, in_order
from livegrad.graph.index import FIRST, Along, Index
from livegrad.graph.meta import Shape
from livegrad.graph.node import Node

# Nodes per kernel; more would only lengthen compile times and spill registers.
MOST_MEMBERS = 96
# Those among them that have nothing but what they read in common with others. So the parts of a
# long `cat` get their gradients by kernels of a few kinds, whatever their number.
MOST_BESIDE = 7
# Matrix products that a kernel goes on from: each needs memory of the thread's own.
MOST_PRODUCTS = 2
# A cheap value is computed again rather than stored if it takes at most this many operations.
MOST_INLINED = 4


class Fuser:
    """State of the pass: the group each node is in, and who reads what."""

    def __init__(self, graph: Primitives) -> None:
        self.graph = graph
        self.owner: dict[Node, Group] = {}
        self.groups: list[Group] = []
        self.stored = _must_store(graph)
        # What reads memory that is overwritten later is computed where it is recorded.
        self.stored.update([x for fences in graph.fences.values() for x in fences])
        self.inline_cost: dict[Node, int] = {}
        self.inlined: dict[Node, bool] = {}
        self._direct: dict[Node, tuple[Index, tuple[Read, ...]]] = {}
        self.regions = _regions(graph)
        self.parts: dict[Node, list[Node]] = {}
        for part in self.regions:
            self.parts.setdefault(part.inputs[0], []).append(part)
        self._store_what_folds_unevenly()
        # Elementwise values that only one column reduction reads, mapped to that reduction.
        self.sunk: dict[Node, Node] = {}
        self.sunk_into: dict[Node, list[Node]] = {}
        self._sink()
        self.readers: dict[Node, list[Group]] = {}

    def run(self) -> list[Group]:
        """Groups in an order in which they can be run."""
        for node in self.graph.nodes:
            if node not in self.sunk and not self.is_inlined(node):
                node.op.lower.group(self, node)
        return in_order(self.groups)

    def _store_what_folds_unevenly(self) -> None:
        """Stores a value folded over several dims if what it is made of cannot be walked so."""
        for node in self.graph.nodes:
            if node.op.kind != "reduce":
                continue
            (x,) = node.inputs
            dims = _folded(x.meta.shape, node.attrs[0])
            if len(dims) < 2:
                continue
            index = own_index(x.meta.shape)
            if not all(_walks(r, x.meta.shape, dims) for r in self.reads(node, index, None)):
                self.stored.add(storage(x))
                self.inline_cost.clear()
                self.inlined.clear()

    def _sink(self) -> None:
        users: dict[Node, list[Node]] = {}
        for node in self.graph.nodes:
            for x in node.inputs:
                users.setdefault(x, []).append(node)
        for node in reversed(self.graph.nodes):  # from the fold back to what it is made of
            if node.op.kind != "elementwise" or node in self.stored:
                continue
            targets = {self.sunk.get(u, u) for u in users.get(node, ())}
            if len(targets) == 1 and self._sinks_into(node, *targets):
                self.sunk[node] = target = targets.pop()
                self.sunk_into.setdefault(target, []).insert(0, node)

    def _sinks_into(self, node: Node, target: Node) -> bool:
        """Whether `target` is a column reduction whose kernel can compute `node` on the way."""
        if target.op.kind != "reduce":
            return False
        shape = target.inputs[0].meta.shape
        dims = _folded(shape, target.attrs[0])
        if node.meta.shape != shape or _is_trailing(shape, dims):
            return False
        return all(_walks(read, shape, dims) for read in self.reads(node, own_index(shape), None))

    # ------------------------------------------------------------------------- reading

    def reads(self, node: Node, index: Index, group: Group | None) -> Iterator[Read]:
        """What computing `node` at `index` in `group` reads, looking through inlined values."""
        for read in self.direct_reads(node, index):
            if group is not None and self.owner.get(read.node) is group and not read.memory:
                yield read
            elif not read.memory and self.is_inlined(read.node):
                if read.node.op.lower.positioned:
                    yield read  # no memory, but the position counts along the loops all the same
                yield from self.reads(read.node, read.index, group)
            else:
                yield read

    def direct_reads(self, node: Node, index: Index) -> tuple[Read, ...]:
        """The values `node` reads when it is computed at `index`."""
        known = self._direct.get(node)
        if known is None or known[0] != index:
            known = self._direct[node] = index, tuple(node.op.lower.reads(node, index))
        return known[1]

    def is_inlined(self, node: Node) -> bool:
        """Whether whoever reads `node` computes it on the spot; it is in no group of its own."""
        known = self.inlined.get(node)
        if known is None:
            op = node.op
            known = self.inlined[node] = (
                op.cheap
                if op.kind == "generate"
                else node not in self.stored and self._cost(node) <= MOST_INLINED
            )
        return known

    def _cost(self, node: Node) -> int:
        cost = self.inline_cost.get(node)
        if cost is None:
            cost = self.inline_cost[node] = self._count_cost(node)
        return cost

    def _count_cost(self, node: Node) -> int:
        too_much = MOST_INLINED + 1
        if node.op.kind != "elementwise" or not (node.op.cheap or node.meta.numel == 1):
            return too_much
        cost = 1
        for read in self.direct_reads(node, own_index(node.meta.shape)):
            source = read.node
            if source.op.kind == "elementwise" and source not in self.stored:
                cost += self._cost(source)
        return cost

    # ----------------------------------------------------------------------- elementwise

    def place(self, node: Node) -> None:
        """Puts `node` into the loops of a neighbour, or opens a group."""
        homes = self._candidates(node)
        self._merge_all(homes)
        for group in homes:
            if self._fits_tail(node, group):
                self._join(node, own_index(node.meta.shape), group)
                group.tail.add(node)
                return
            index = _index_in(node, group)
            if index is not None and self._fits(node, index, group):
                self._join(node, index, group)
                return
        group = self._new_group("rows", node.meta.shape)
        self._join(node, own_index(node.meta.shape), group)

    def place_product(
        self,
        node: Node,
        rows: tuple[int, ...],
        columns: tuple[int, ...],
        order: tuple[int, ...] = (),
    ) -> None:
        """Opens a group that begins with a product; its loops are the dims of `node`, in another
        order if one is given."""
        shape = node.meta.shape
        order = order or tuple(range(len(shape)))
        group = self._new_group("rows", tuple([shape[d] for d in order]))
        group.products, group.rows, group.columns = 1, rows, columns
        index = [FIRST if size == 1 else Along(order.index(d)) for d, size in enumerate(shape)]
        self._join(node, tuple(index), group)

    def _candidates(self, node: Node) -> list[Group]:
        """Groups worth joining, best first: those that compute an input, then co-readers."""
        makers, readers = self._neighbours(node)
        makers.sort(key=lambda g: -g.number)  # the latest: what it waits for, others wait for too
        return makers + [g for g in readers if _has_room_beside(g) and g.shape == node.meta.shape]

    def _neighbours(self, node: Node) -> tuple[list[Group], list[Group]]:
        """Groups that compute something `node` reads, and others that read it too."""
        makers: list[Group] = []
        readers: list[Group] = []
        for read in self.reads(node, own_index(node.meta.shape), None):
            owner = self.owner.get(read.node)
            if owner is not None and owner.kind != "kernel" and owner not in makers:
                makers.append(owner)
            recent = [g.now() for g in self.readers.get(read.node, ())[-4:]]
            readers += [g for g in dict.fromkeys(recent) if g not in readers]
        return makers, [g for g in readers if g not in makers]

    def _fits(self, node: Node, index: Index, group: Group) -> bool:
        """Whether computing `node` at `index` in `group` is possible and makes no cycle."""
        if len(group.members) >= MOST_MEMBERS:
            return False
        for read in self.reads(node, index, group):
            owner = self.owner.get(storage(read.node))
            if owner is group:
                # A register holds the element that this turn of the loops computed, no other; the
                # tail is computed when all turns are over.
                same = group.index.get(read.node) == read.index and read.node not in group.tail
                if read.memory or is_alias(read.node) or not same:
                    return False
            elif owner is not None and owner.runs_after(group):
                return False  # each would have to run before the other
            elif not all([_walks(read, group.shape, dims) for dims in _runs(group)]):
                return False
        if not self._comes_last(node, group, prod(group.shape) == 1):
            return False
        # What is stored into parts joins them: a copy less.
        stored = [node, *(self.parts.get(node, ()) if group.products else ())]
        return all(
            [
                self._writes_walk(x, index, group.shape, dims)
                for x in stored
                for dims in _runs(group)
            ]
        )

    def _comes_last(self, node: Node, group: Group, once: bool) -> bool:
        """Whether `node` can be stored in `group` after all that reads what it overwrites.

        Loops that turn round `once` have read everything before they store anything.
        """
        for fence in self.graph.fences.get(node, ()):
            owner = self.owner.get(fence)
            if owner is not None and (owner.runs_after(group) or (owner is group and not once)):
                return False
        return True

    def _writes_walk(self, node: Node, index: Index, loops: Shape, dims: tuple[int, ...]) -> bool:
        """Whether the folded dims can be walked as one in the buffer that `node` is a part of."""
        target, region = self.regions.get(node, (None, ()))
        return target is None or _walks(Read(target, placed(region, index)), loops, dims)

    def _all_walk(self, group: Group, dims: tuple[int, ...]) -> bool:
        """Whether all memory that `group` reads and writes can be walked as one over `dims`."""
        return len(dims) < 2 or all(
            self._writes_walk(member, group.index[member], group.shape, dims)
            and all(
                _walks(read, group.shape, dims)
                for read in self.reads(member, group.index[member], group)
                if self.owner.get(storage(read.node)) is not group
            )
            for member in group.members
        )

    def _join(self, node: Node, index: Index, group: Group) -> None:
        reads = [read.node for read in self.reads(node, index, group)]
        if group.members and not any([self.owner.get(storage(x)) is group for x in reads]):
            group.beside += 1
        group.members.append(node)
        group.index[node] = index
        self.owner[node] = group
        for x in reads:
            self._depend(group, x)
        self._wait_for_fences(node, group)

    def _wait_for_fences(self, node: Node, group: Group) -> None:
        for fence in self.graph.fences.get(node, ()):
            owner = self.owner.get(fence)
            if owner is not None and owner is not group:
                self._follow(group, owner)

    def _depend(self, group: Group, read: Node) -> None:
        owner = self.owner.get(storage(read))
        if owner is group:
            return
        readers = self.readers.setdefault(read, [])
        if group not in readers:
            readers.append(group)
        if owner is not None:
            self._follow(group, owner)

    def _follow(self, group: Group, owner: Group) -> None:
        """Has `group` run after `owner`."""
        owner.after.add(group)
        added = owner.before | owner.bits
        if added & ~group.before:
            group.before |= added
            self._spread(group)

    def _spread(self, group: Group) -> None:
        """Tells all that run after `group`, directly or not, what runs before it."""
        todo = [group]
        while todo:
            earlier = todo.pop()
            added = earlier.before | earlier.bits
            for later in {g.now() for g in earlier.after}:
                if added & ~later.before:
                    later.before |= added
                    todo.append(later)

    # ------------------------------------------------------------------------- reductions

    def place_reduce(self, node: Node) -> None:
        """Puts a fold into the loops that compute or read what it folds, or opens a group."""
        (x,) = node.inputs
        shape, dims = x.meta.shape, _folded(x.meta.shape, node.attrs[0])
        kind = "rows" if _is_trailing(shape, dims) else "columns"
        index = own_index(node.meta.shape)
        sunk = self.sunk_into.get(node, [])
        home = self._tail_home(node)
        if home is not None:
            self._join(node, index, home)
            home.tail.add(node)
            return
        for group in self._reduce_candidates(node, kind, shape, dims):
            old = group.dims
            group.dims = dims
            sinks = all(self._fits(n, own_index(shape), group) for n in sunk)
            if sinks and self._all_walk(group, dims) and self._fits(node, index, group):
                break
            group.dims = old
        else:
            group = self._new_group(kind, shape, dims)
        for n in sunk:
            self._join(n, own_index(shape), group)
        self._join(node, index, group)

    def _tail_home(self, node: Node) -> Group | None:
        """The group whose rows this reduction folds to a single value, if it can end that group."""
        base = plain(node.inputs[0])
        if base is None or node.meta.numel != 1:
            return None
        group = self.owner.get(base)
        if group is not None:
            return (
                group
                if base not in group.tail and _is_row(group.index[base], base, group)
                else None
            )
        if not self.is_inlined(base) or base.op.kind != "elementwise":
            return None
        # A value per row that is in no group yet: one that reads the same may compute it.
        for group in self._neighbours(base)[1]:
            index = _index_in(base, group) if group.dims else None
            if index is None or not _is_row(index, base, group):
                continue
            if self._fits(base, index, group):
                self._join(base, index, group)
                return group
        return None

    def _fits_tail(self, node: Node, group: Group) -> bool:
        """Whether `node` is one value computed from what the tail of `group` gives."""
        if not group.tail or node.meta.numel != 1 or node.op.kind != "elementwise":
            return False
        inside = False
        for read in self.reads(node, own_index(node.meta.shape), group):
            owner = self.owner.get(storage(read.node))
            if owner is group:
                if read.node not in group.tail:
                    return False
                inside = True
            elif owner is not None and owner.runs_after(group):
                return False
        in_tail = all(
            [x in group.tail for x in self.graph.fences.get(node, ()) if self.owner.get(x) is group]
        )
        return inside and in_tail and self._comes_last(node, group, True)

    def _reduce_candidates(
        self, node: Node, kind: str, shape: Shape, dims: tuple[int, ...]
    ) -> list[Group]:
        makers, readers = self._neighbours(node)
        found = makers + readers
        if kind == "columns":  # gradients of parameters have nothing in common but their shapes
            found += [g for g in self.groups[-8:] if g not in found]
        open_to = (dims, ()) if kind == "rows" else (dims,)
        found = [g for g in found if not g.products]  # sums of a row are in several items
        return [g for g in found if g.kind == kind and g.shape == shape and g.dims in open_to]

    # ------------------------------------------------------------------ groups and merging

    def _new_group(self, kind: str, shape: Shape, dims: tuple[int, ...] = ()) -> Group:
        group = Group(len(self.groups), kind, shape, dims)
        self.groups.append(group)
        return group

    def new_kernel(self, node: Node) -> None:
        """Opens a group for `node` alone."""
        group = self._new_group("kernel", node.meta.shape)
        group.members.append(node)
        group.index[node] = own_index(node.meta.shape)
        self.owner[node] = group
        for x in node.inputs:
            self._depend(group, resolve(x, own_index(x.meta.shape))[0])
        self._wait_for_fences(node, group)

    def _merge_all(self, homes: list[Group]) -> None:
        """Merges independent groups with the same loops, so that a node can read both."""
        for second in homes[1:]:
            first = homes[0]
            if self._can_merge(first, second):
                self._merge(first, second)
                homes.remove(second)
                return

    def _can_merge(self, a: Group, b: Group) -> bool:
        if a.kind != "rows" or b.kind != "rows" or a.shape != b.shape:
            return False
        if a.dims and b.dims and a.dims != b.dims:
            return False
        if a.runs_after(b) or b.runs_after(a) or a.tail or b.tail:
            return False
        if (
            len(a.members) + len(b.members) > MOST_MEMBERS
            or a.products + b.products > MOST_PRODUCTS
        ):
            return False
        if (a.dims or b.dims) and (a.products or b.products):
            return False
        if a.products and b.products and _runs(a) != _runs(b):
            return False
        runs = [x or y for x, y in zip(_runs(a), _runs(b), strict=True)]
        return all(self._all_walk(g, dims) for g in (a, b) for dims in runs)

    def _merge(self, a: Group, b: Group) -> None:
        a.dims = a.dims or b.dims
        a.members = sorted(a.members + b.members, key=lambda n: n.index)
        a.index.update(b.index)
        for node in b.members:
            self.owner[node] = a
        a.before |= b.before
        a.bits |= b.bits
        a.after |= b.after
        a.beside += b.beside
        a.products += b.products
        a.rows, a.columns = a.rows or b.rows, a.columns or b.columns
        b.members, b.merged = [], a
        self._spread(a)


# ----------------------------------------------------------------------------- pure helpers


def _runs(group: Group) -> list[tuple[int, ...]]:
    """Axes of the loops that are walked as one."""
    return [group.dims, group.rows, group.columns]


def _has_room_beside(group: Group) -> bool:
    return group.kind == "rows" and group.beside < MOST_BESIDE


def _is_row(index: Index, node: Node, group: Group) -> bool:
    """Whether `node` at `index` is one value per row of `group`, in the order of the rows."""
    if group.kind != "rows" or not group.dims or any(at.more for at in index):
        return False
    if any(at.axis in group.dims for at in index):
        return False
    axes = [d for d, size in enumerate(group.shape) if size != 1 and d not in group.dims]
    return len(axes) > 0 and [at.axis for at in index if at != FIRST] == axes


def _must_store(graph: Primitives) -> set[Node]:
    """Values that must be in memory whatever is fused: the program or a kernel reads them there."""
    stored = {storage(x) for x in graph.outputs}
    for node in graph.nodes:
        lower = node.op.lower
        if lower.stores:
            stored.add(node)
        needed = lower.from_memory(node)
        if needed:
            stored.update([storage(x) for x in needed])
    return stored


def _regions(graph: Primitives) -> dict[Node, tuple[Node, Index]]:
    """For each part, the buffer it is stored into and where."""
    return {
        part: (node, index) for node in graph.nodes for part, index in node.op.lower.regions(node)
    }


def _folded(shape: Shape, dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([d for d in dims if shape[d] != 1])


def _is_trailing(shape: Shape, dims: tuple[int, ...]) -> bool:
    return all(size == 1 for d, size in enumerate(shape) if d > dims[-1])


def _walks(read: Read, loops: Shape, dims: tuple[int, ...]) -> bool:
    """Whether the folded dims can be walked as one when a value is read like this."""
    if len(dims) < 2:
        return True
    return not read.memory and walks_as_one(read.node, read.index, loops, dims)


def _index_in(node: Node, group: Group) -> Index | None:
    """Where `node` stands in the loops of `group`, if its shape fits there at all."""
    shape = node.meta.shape
    if shape == group.shape:
        return own_index(shape)
    if not group.dims and not group.products:
        return None
    kept = tuple([1 if d in group.dims else size for d, size in enumerate(group.shape)])
    if shape == kept:
        return own_index(shape)
    axes = [d for d, size in enumerate(kept) if size != 1]
    sizes = [kept[d] for d in axes]
    if [size for size in shape if size != 1] != sizes:
        return None
    remaining = iter(axes)
    return tuple([FIRST if size == 1 else Along(next(remaining)) for size in shape])


def fuse(graph: Primitives) -> tuple[list[Group], Fuser]:
    """The kernels of `graph`, in order."""
    fuser = Fuser(graph)
    return fuser.run(), fuser
