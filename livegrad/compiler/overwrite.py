"""Pass 3, overwrite: a write to a part happens in the memory of what nobody reads later.

    base ──► copy ──┐                                 base ────────────┐
                    ├─► assembly            ──►                        ├─► written: base's memory
    value ─► part ──┘                                 value ─► part ───┘

Whoever reads the base was recorded before the write, and runs before it: these are the fences of
the node that stores. Where the base is a leaf, its value is moved first; if nobody else sees the
leaf when the plan runs, it is moved to where it is, which costs nothing.
"""

from __future__ import annotations

from livegrad.compiler.access import plain, storage
from livegrad.compiler.expand import Primitives, make_node
from livegrad.compiler.inserted import COPY, MOVED
from livegrad.graph.node import Node, Spec
from livegrad.graph.op import Op


def overwrite(graph: Primitives) -> Primitives:
    """The graph with writes made in place where that is possible."""
    walk = _Overwriting(graph)
    for node in graph.nodes:
        walk.visit(node)
    if not walk.overwrites:
        return graph
    return walk.graph()


class _Overwriting:
    def __init__(self, graph: Primitives) -> None:
        self.before = graph
        self.users = _users(graph)
        self.kept = {storage(x) for x in graph.outputs}
        self.overwrites: dict[Node, Node] = {}
        self.fences: dict[Node, list[Node]] = {}
        self.moved: dict[Node, Node] = {}
        self.dropped: set[Node] = set()
        self.inserted: dict[Node, list[Node]] = {}

    def visit(self, node: Node) -> None:
        """Has `node` stored where the value that it changes a part of lies."""
        base = node.op.lower.overwritten(node)
        if base is None or plain(base) is None:
            return
        name, base = base, storage(base)
        if base in self.kept or not (base.op.kind == "leaf" or base.op.lower.owns_memory):
            return
        late = [user for user in self.users[base] if user.index > node.index]
        parts = {x: None for user in late for x in user.inputs if storage(x) is base}
        store = node.op.lower.storing(node)
        if all([_is_small_part(x, base) and x.index < store.index for x in parts]):
            for x in parts:
                self._read_early(x, late, store)
            self._store_in(node, name, base)

    def _read_early(self, x: Node, late: list[Node], store: Node) -> None:
        """Copies a part of the base before it is overwritten, for those who read it later.

        `kept = x[i].clone()` is read when it is used, if nobody says otherwise.
        """
        copy = self._insert(COPY, x, store)
        for user in late:
            user.inputs = tuple([copy if y is x else y for y in user.inputs])
        base = storage(x)
        self.users[base] = [u for u in self.users[base] if u not in late] + [copy]

    def _store_in(self, node: Node, name: Node, base: Node) -> None:
        """Has `node` stored in the memory of `base`, of which it changes what `name` shows."""
        store = node.op.lower.storing(node)
        home = self._moved(base, store) if base.op.kind == "leaf" else base
        gone = node.op.lower.store_in(node, self._named(name, base, home, store))
        readers = [x for x in self.users[base] if x is not node and x is not store]
        readers = [x for x in readers if x not in gone]
        if store is not node and store in self.users[base] and store.meta.numel != 1:
            readers.append(self._set_aside(store))
        self.dropped.update(gone)
        self.overwrites[node] = home
        self.fences[store] = [home, *readers]

    def _moved(self, leaf: Node, store: Node) -> Node:
        """A leaf's value in memory that may be the leaf's own."""
        moved = self._insert(MOVED, leaf, store)
        self.moved[moved] = leaf
        return moved

    def _named(self, name: Node, base: Node, home: Node, store: Node) -> Node:
        """`name`, a way to look at `base`, of `home` instead."""
        if name is base or base is home:
            return home if name is base else name
        x = self._named(name.inputs[0], base, home, store)
        made = make_node(name.spec, (x,), name.args, name.site)
        self.inserted[store].append(made)
        return made

    def _set_aside(self, store: Node) -> Node:
        """A copy of what is stored, which is read from where it goes to: `x[1:] = x[:-1]`."""
        (value,) = store.inputs
        copy = self._insert(COPY, value, store)
        store.inputs = (copy,)
        return copy

    def _insert(self, op: Op, x: Node, store: Node) -> Node:
        spec = Spec(op, (x.meta.dtype, "t"), x.meta)
        made = make_node(spec, (x,), (), store.site)
        self.inserted.setdefault(store, []).append(made)
        return made

    def graph(self) -> Primitives:
        """The graph that the walk has led to."""
        nodes: list[Node] = []
        for node in self.before.nodes:
            if node not in self.dropped:
                nodes += [*self.inserted.get(node, ()), node]
        for number, node in enumerate(nodes):
            node.index = number
        before = self.before
        return Primitives(
            nodes, before.leaves, before.outputs, before.ints, before.floats,
            self.overwrites, self.fences, self.moved,
        )  # fmt: skip


def _is_small_part(x: Node, base: Node) -> bool:
    """Whether copying what `x` shows of `base` is little beside copying all of it."""
    return x is not base and 2 * x.meta.nbytes <= base.meta.nbytes


def _users(graph: Primitives) -> dict[Node, list[Node]]:
    """For each value in memory, the nodes that read it, by whatever name."""
    users: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.op.kind != "movement":
            for home in {storage(x): None for x in node.inputs}:
                users.setdefault(home, []).append(node)
    return users
