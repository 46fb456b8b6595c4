"""Plans without sizes: what was planned for some sizes is filled in for others.

    key      what was recorded, with sizes replaced by numbers: equal sizes have equal numbers
    learn    plans once more with sizes as symbols (graph/symbol.py): an Outline, which has terms
             for what depends on sizes, and guards for what was decided by them
    fill     sizes in, plan out, if all guards hold; values are placed in the arena anew

A program with a few sizes is planned for each. An outline is learnt from the third, and is first
compared with plans made in the ordinary way: code that a symbol gets lost in is found out by that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from livegrad.compiler.binder import bits_of_double
from livegrad.compiler.expand import Recorded, make_node
from livegrad.compiler.kept import KEPT, size_of_plan
from livegrad.compiler.pipeline import compile_plan
from livegrad.compiler.place import ARENA_SLOTS, arrange
from livegrad.compiler.plan import Block, HostCall, Life, Output, Plan, Step, Where
from livegrad.compiler.verify import Verifier
from livegrad.graph.handle import LEAF
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Node, Spec
from livegrad.graph.numbers import Specialised
from livegrad.graph.symbol import Session, Symbol

# Sizes that are planned one by one before an outline is learnt, and how often it is checked.
FEW = 2
CHECKS = 3
# Guards may hold for some sizes only: so many outlines are learnt of one structure.
_MOST_OUTLINES = 6


@dataclass(eq=False)
class Structure:
    """What is known about programs that differ in sizes only."""

    key: tuple[Any, ...]
    sizes: int = 0
    # None: there can be none.
    outlines: list[Outline] | None = field(default_factory=list)

    def keep(self) -> None:
        """Notes what the structure and its outlines take in memory."""
        steps = sum([len(outline.plan.steps) for outline in self.outlines or ()])
        nodes = len(self.key) * (1 + len(self.outlines or ()))
        KEPT.put(self, size_of_plan(nodes, steps, 0), lambda: _drop(self))


_structures: dict[tuple[Any, ...], Structure] = {}


def forget() -> None:
    """Forgets all outlines."""
    _structures.clear()


def _drop(structure: Structure) -> None:
    _structures.pop(structure.key, None)


def plan_for(recorded: Recorded, in_python: Callable[[], AbstractContextManager[None]]) -> Plan:
    """A plan for what was recorded. Within `in_python`, no function is native: symbols would be
    lost in them."""
    key, sizes = _key(recorded)
    structure = _structures.get(key)
    if structure is None:
        structure = _structures[key] = Structure(key)
        structure.keep()
    KEPT.use(structure)
    structure.sizes += 1
    for outline in structure.outlines or ():
        filled = outline.fill(sizes)
        if filled is not None:
            if outline.checks >= CHECKS:
                assert not Verifier.enabled or filled == compile_plan(recorded), (
                    "an outline gives another plan than the passes"
                )
                return filled
            return _checked(structure, outline, filled, compile_plan(recorded))
    plan = compile_plan(recorded)
    outlines = structure.outlines
    if structure.sizes > FEW and outlines is not None and len(outlines) < _MOST_OUTLINES:
        with in_python():
            learnt = _learnt(recorded, sizes)
        if learnt is None:
            structure.outlines = None
        else:
            outlines.append(learnt)
            structure.keep()
            filled = learnt.fill(sizes)
            assert filled is not None, "an outline holds for the sizes it was learnt from"
            _checked(structure, learnt, filled, plan)
    return plan


def trusted_outline(recorded: Recorded) -> tuple[Outline, list[int]] | None:
    """The outline that gave a plan for what was recorded, and the sizes; None if it is to be
    compared with others first, or there is none."""
    key, sizes = _key(recorded)
    structure = _structures.get(key)
    for outline in (structure.outlines if structure is not None else None) or ():
        if outline.checks >= CHECKS and outline.fill(sizes) is not None:
            return outline, sizes
    return None


def outline_of(
    recorded: Recorded, in_python: Callable[[], AbstractContextManager[None]]
) -> Outline | None:
    """An outline of what was recorded, which is not kept."""
    with in_python():
        return _learnt(recorded, _key(recorded)[1])


def _checked(structure: Structure, outline: Outline, filled: Plan, plan: Plan) -> Plan:
    """`plan`; if it is not what the outline gave, there are to be no outlines."""
    outline.checks += 1
    if filled != plan:
        structure.outlines = None
    return plan


# ----------------------------------------------------------------------------- without sizes


def _key(recorded: Recorded) -> tuple[tuple[Any, ...], list[int]]:
    """What was recorded without its sizes, and the sizes."""
    numbers: dict[int, int] = {}
    places: dict[Node, int] = {}
    key: list[Any] = [tuple(recorded.outputs), len(recorded.leaves)]
    for node in recorded.leaves:
        places[node] = len(places)
        key.append(("leaf", _numbered(node.meta, numbers)))
    for node in recorded.nodes:
        spec = node.spec
        key.append((
            spec.op,
            spec.attrs,
            _numbered(node.meta, numbers),
            tuple([places[x] for x in node.inputs]),
            tuple([type(a) for a in node.args]),
        ))  # fmt: skip
        places[node] = len(places)
    return tuple(key), list(numbers)


def _numbered(meta: Meta, numbers: dict[int, int]) -> tuple[Any, ...]:
    """A meta with each size but 0 and 1 replaced by its number."""
    return meta.dtype, *[
        size if size < 2 else numbers.setdefault(size, len(numbers)) + 2 for size in meta.shape
    ]


# ----------------------------------------------------------------------------------- learning


def _learnt(recorded: Recorded, sizes: list[int]) -> Outline | None:
    """`learn`, which must not fail where the program has not: there are ordinary plans."""
    try:
        return learn(recorded, sizes)
    except Exception:
        if Verifier.enabled:
            raise
        return None


def learn(recorded: Recorded, sizes: list[int]) -> Outline | None:
    """The outline of a plan, learnt with these sizes; None if the plan holds for them only."""
    before, Specialised.seen = Specialised.seen, False
    try:
        with Session(sizes) as session:
            plan = compile_plan(symbolic(recorded, session))
            if Specialised.seen:
                return None
            assert not _has_symbols([(step.signature, step.calls) for step in plan.steps])
            if _has_symbols([step.host.attrs for step in plan.steps if step.host]):
                return None
            return Outline(plan, session)
    finally:
        Specialised.seen = before


def symbolic(recorded: Recorded, session: Session) -> Recorded:
    """A copy of what was recorded whose sizes are symbols."""
    copies: dict[Node, Node] = {}

    def meta_for(node: Node) -> Meta:
        shape = [session.sizes.get(size, size) for size in node.meta.shape]
        return meta_of(tuple(shape), node.meta.dtype)

    def copied(node: Node, spec: Spec, inputs: tuple[Node, ...], args: tuple[Any, ...]) -> Node:
        copies[node] = make_node(spec, inputs, args, node.site)
        return copies[node]

    # A leaf may have been computed from others, which do not matter any more.
    leaves = [copied(node, Spec(LEAF, (), meta_for(node)), (), ()) for node in recorded.leaves]
    nodes = []
    for node in recorded.nodes:
        spec = Spec(node.spec.op, node.spec.attrs, meta_for(node))
        spec.floats, spec.grad, spec.flows = node.spec.floats, node.spec.grad, node.spec.flows
        nodes.append(copied(node, spec, tuple([copies[x] for x in node.inputs]), node.args))
    return Recorded(nodes, leaves, recorded.outputs)


def _has_symbols(x: Any) -> bool:
    """Whether kernels would depend on sizes, which they must not."""
    if isinstance(x, tuple | list):
        return any([_has_symbols(y) for y in x])
    return isinstance(x, Symbol)


# ------------------------------------------------------------------------------------ filling


class Outline:
    """A plan with holes where something depends on sizes."""

    def __init__(self, plan: Plan, session: Session) -> None:
        self.checks = 0
        self.plan, self.session = plan, session
        self._terms: dict[str, int] = {}  # and integers that depend on no size
        self._lives = [(self._hole(x.nbytes), x.first, x.last) for x in plan.lives]
        self._steps = [self._step(step) for step in plan.steps]
        self._outputs = [(o.slot, self._hole(o.nbytes), o.leaf) for o in plan.outputs]
        self._buffers = [(o.slot, self._hole(o.nbytes), o.leaf) for o in plan.buffers]
        self._values = _compiled(session, list(self._terms))

    def _hole(self, x: int) -> int:
        """The place of an integer's term among the values."""
        term = x.term if isinstance(x, Symbol) else repr(x)
        return self._terms.setdefault(term, len(self._terms))

    def _step(self, step: Step) -> tuple[Any, ...]:
        blocks = [
            (
                [self._hole(x) for x in block.slots],
                [(*patch[:3], self._hole(patch[3])) for patch in block.patches],
                self._hole(block.grain),
                self._hole(block.scratch),
            )
            for block in step.blocks
        ]
        flags = (step.may_fault, step.tail, step.all_or_nothing)
        fixed = (step.kind, step.signature, step.calls, *flags)
        return fixed, self._holes(step.shape), blocks, self._host(step.host)

    def _host(self, call: HostCall | None) -> Any:
        if call is None:
            return None
        parts = dict(vars(call))
        # Attributes of ops depend on no size, or there is no outline.
        return {
            k: (None, x) if k in ("attrs", "args") else self._holes(x) for k, x in parts.items()
        }

    def _holes(self, x: Any) -> Any:
        """A nested structure with its integers as holes: (type, parts), a hole, or (None, x)."""
        if isinstance(x, tuple | list):
            return type(x), [self._holes(y) for y in x]
        if isinstance(x, Where):
            return Where, [self._hole(x.slot), self._hole(x.offset)]
        if isinstance(x, int) and not isinstance(x, bool):
            return self._hole(x)
        return None, x

    def fill(self, sizes: list[int]) -> Plan | None:
        """The plan for these sizes; None if it was not made for such sizes."""
        try:
            values = self._values(*sizes)
        except ArithmeticError:
            return None
        if values is None:
            return None
        plan = self.plan
        lives = [Life(values[nbytes], first, last) for nbytes, first, last in self._lives]
        arena = arrange(lives)
        offsets = [life.offset for life in lives]
        return Plan(
            [_filled_step(step, values, offsets) for step in self._steps],
            [Output(slot, values[nbytes], leaf) for slot, nbytes, leaf in self._outputs],
            [Output(slot, values[nbytes], leaf) for slot, nbytes, leaf in self._buffers],
            plan.writes,
            plan.donations,
            arena,
            plan.leaves,
            plan.first_int,
            plan.ints,
            plan.floats,
            lives,
            filled=True,
            notes=plan.notes,
        )


Values = tuple[int, ...]


def _filled_step(step: tuple[Any, ...], values: Values, offsets: list[int]) -> Step:
    (kind, signature, calls, *flags), shape, blocks, host = step
    filled = []
    for slots, patches, grain, scratch in blocks:
        placed = [_filled_patch(patch, values, offsets) for patch in patches]
        filled.append(Block([values[x] for x in slots], placed, values[grain], values[scratch]))
    sizes = _filled(shape, values, offsets)
    return Step(kind, sizes, filled, signature, calls, _filled_host(host, values, offsets), *flags)


def _filled_host(parts: Any, values: Values, offsets: list[int]) -> HostCall | None:
    if parts is None:
        return None
    return HostCall(**{name: _filled(x, values, offsets) for name, x in parts.items()})


def _filled_patch(
    patch: tuple[Any, ...], values: Values, offsets: list[int]
) -> tuple[int, int, int, int]:
    kind, slot, source, hole = patch
    if source >= ARENA_SLOTS:
        return kind, slot, 0, values[hole] + offsets[source - ARENA_SLOTS]
    return kind, slot, source, values[hole]


def _filled(x: Any, values: Values, offsets: list[int]) -> Any:
    """A nested structure with its holes filled."""
    if type(x) is int:
        return values[x]
    kind, parts = x
    if kind is None:
        return parts
    found = [_filled(y, values, offsets) for y in parts]
    if kind is not Where:
        return kind(found)
    slot, offset = found
    if slot >= ARENA_SLOTS:
        return Where(0, offset + offsets[slot - ARENA_SLOTS])
    return Where(slot, offset)


def _compiled(session: Session, terms: list[str]) -> Callable[..., Any]:
    """A function from sizes to the values of terms, or to None if a guard does not hold."""
    guards = " and ".join([f"({guard})" for guard in session.guards]) or "True"
    lines = [
        f"def values({', '.join(session.inputs)}):",
        *[f"    {line}" for line in session.lines],
        f"    if not ({guards}):",
        "        return None",
        f"    return ({', '.join(terms)}{',' if terms else ''})",
    ]
    names: dict[str, Any] = {"bits_of_double": bits_of_double}
    exec("\n".join(lines), names)
    made: Callable[..., Any] = names["values"]
    return made
