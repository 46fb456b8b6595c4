"""Moulds are learnt by planning a node by itself, with symbols for sizes.

    plan with symbols ──► words of a program, some of them terms ──► code for the terms

With this module all of the compiler is imported: for what no earlier process has learnt.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from livegrad.compiler.expand import Recorded, leaf_for, make_node
from livegrad.compiler.pipeline import compile_plan
from livegrad.compiler.place import ALIGN, ARENA_SLOTS
from livegrad.compiler.plan import Patch, Plan
from livegrad.compiler.sizes import Outline, symbolic
from livegrad.graph.node import Node, Spec
from livegrad.graph.numbers import Specialised
from livegrad.graph.symbol import Session, Symbol
from livegrad.runtime.cpu.assemble import Parts, parts_of
from livegrad.runtime.cpu.driver import HEADER_SLOTS, STEP_SLOTS
from livegrad.runtime.cpu.pieces.layout import (
    BLOCKS_WORD,
    DOUBLE,
    EQUAL,
    GUARD,
    LEAST,
    LESS,
    MINUS,
    MOST,
    NOT,
    NUMBER,
    PATCHES_WORD,
    PLUS,
    QUOTIENT,
    RATIO,
    REMAINDER,
    STEPS_WORD,
    TIMES,
)
from livegrad.runtime.cpu.pieces.moulds import Mould, Told, Unfit
from livegrad.runtime.cpu.pieces.questions import Question, Views
from livegrad.runtime.fault import Fault
from livegrad.runtime.speedup import original_functions

# ------------------------------------------------------------------------------- what is planned


def recorded_for(question: Question) -> Recorded:
    """The node by itself, or its gradient, as if it had been recorded on its own."""
    node, mask = question.node, question.mask
    nodes: list[Node] = []
    pairs = [_seen(x, each, nodes) for x, each in zip(node.inputs, question.looks, strict=True)]
    inputs, leaves = tuple([at for _, at in pairs]), [leaf for leaf, _ in pairs]
    if mask is None:
        nodes.append(make_node(node.spec, inputs, node.args, node.site))
        return Recorded(nodes, leaves, [len(nodes) - 1])
    # Whoever recorded a backward pass has imported it.
    from livegrad.autograd import pending

    g, y = leaf_for(node), leaf_for(node)
    spec = Spec(pending.PULL, (node.op, node.attrs, tuple(mask)), g.meta)
    spec.floats = node.spec.floats
    pull = make_node(spec, (g, *inputs, y), node.args, node.site)
    nodes.append(pull)
    first = len(nodes)
    wanted = [x.meta.plain for x, m in zip(node.inputs, mask, strict=True) if m]
    for number, meta in enumerate(wanted):
        result = Spec(pending.GRADIENT_OF, (number,), meta)
        nodes.append(make_node(result, (pull,), (), node.site))
    return Recorded(nodes, [g, *leaves, y], list(range(first, len(nodes))))


def _seen(x: Node, views: Views, nodes: list[Node]) -> tuple[Node, Node]:
    """A leaf, and what an input is when it is seen through views of that, which are recorded."""
    leaf = leaf_for(views[0].inputs[0] if views else x)
    at = leaf
    for view in views:
        at = make_node(view.spec, (at,), view.args, view.site)
        nodes.append(at)
    return leaf, at


# ------------------------------------------------------------------------------------- learning


def learn(question: Question, spoilt: bool) -> tuple[Mould, Outline | None]:
    """The mould of a plan, and what it gives for other sizes, to be compared.

    It is for these sizes alone, and there is nothing to compare, if symbols get lost on the way,
    or have been: it is `spoilt`. Unfit if it cannot be listed.
    """
    recorded = recorded_for(question)
    if any([node.op.kind == "host" for node in recorded.nodes]):
        raise Unfit
    if not question.sizes or spoilt:
        return _fixed(recorded, question.sizes), None
    try:
        with original_functions():
            return learn_with_symbols(recorded, question.sizes)
    except Exception:  # as in compiler/sizes.py: there are ordinary plans
        return _fixed(recorded, question.sizes), None


def learn_with_symbols(recorded: Recorded, sizes: list[int]) -> tuple[Mould, Outline]:
    """A mould that holds for all sizes which its code does not refuse, and the outline it is of."""
    before, Specialised.seen = Specialised.seen, False
    try:
        with Session(sizes) as session:
            plan = compile_plan(symbolic(recorded, session))
            _check(plan)
            return _cast(plan, len(sizes), session), Outline(plan, session)
    finally:
        Specialised.seen = before


def mould_of(outline: Outline, sizes: list[int]) -> Mould | None:
    """An outline of many nodes as a mould; None if it cannot be one."""
    try:
        _check(outline.plan)
        with original_functions(), outline.session:
            return _cast(outline.plan, len(sizes), outline.session)
    except Unfit:
        return None


def _fixed(recorded: Recorded, sizes: list[int]) -> Mould:
    before, Specialised.seen = Specialised.seen, False
    try:
        plan = compile_plan(recorded)
        _check(plan)
        return _cast(plan, len(sizes), None)
    finally:
        Specialised.seen = before


def relearnt(question: Question, mould: Mould) -> Outline | None:
    """The outline of a mould that another process has learnt, if it would be learnt again."""
    try:
        with original_functions():
            again, outline = learn_with_symbols(recorded_for(question), question.sizes)
    except Exception:
        return None
    return outline if again.is_like(mould) else None


def is_planned_so(question: Question, outline: Outline) -> bool | None:
    """Whether an outline gives the plan for the sizes of a question; None if it is for others."""
    filled = outline.fill(question.sizes)
    return None if filled is None else filled == compile_plan(recorded_for(question))


def suspect_of(question: Question, fault: Fault) -> Node:
    """The planned node whose fault it is."""
    return fault.suspect(compile_plan(recorded_for(question)))


def _check(plan: Plan) -> None:
    if Specialised.seen or any([step.host for step in plan.steps]):
        raise Unfit


def _cast(plan: Plan, sizes: int, session: Session | None) -> Mould:
    offsets, arena = _side_by_side([life.nbytes for life in plan.lives])
    parts = parts_of(plan.steps, with_code=False)
    if session is None:
        arena = plan.arena
    parts.patches = [_placed(patch, offsets) for patch in parts.patches]
    words = program_words(parts)
    code = _Code(sizes)
    if session is not None:
        code.compute(session.lines)
        code.require(session.guards)
    return Mould(
        plan.leaves,
        code.instructions,
        [0 if isinstance(x, Symbol) else x for x in words],
        [(at, code.of(x)) for at, x in enumerate(words) if isinstance(x, Symbol)],
        [code.of(b.nbytes) for b in plan.buffers],
        _sources(plan),
        [code.of(o.nbytes) for o in plan.outputs],
        code.of(arena),
        code.of(parts.scratch),
        [_told(plan, number) for number in range(len(plan.steps))],
        bool(plan.donations),
    )


def _told(plan: Plan, number: int) -> Told:
    assert plan.notes is not None
    step, notes = plan.steps[number], plan.notes.steps[number]
    return Told(step.kind, step.signature, step.calls, [node.op.name for node in notes.nodes])


def _sources(plan: Plan) -> list[int]:
    """For each result the new tensor that it is, or -1 - the number of one read or made before."""
    first = 1 + plan.leaves
    found: list[int] = []
    for output in plan.outputs:
        if output.leaf >= 0:
            found.append(-1 - output.leaf)
        elif output.slot - first in found:
            found.append(-1 - plan.leaves - (output.slot - first))
        else:
            found.append(output.slot - first)
    return found


def _side_by_side(sizes: list[int]) -> tuple[list[int], int]:
    """Offsets of values in memory, and its bytes: where they are must not depend on sizes."""
    offsets, at = [], 0
    for size in sizes:
        offsets.append(at)
        at = at + (size + ALIGN - 1) // ALIGN * ALIGN
    return offsets, at


def _placed(patch: Patch, offsets: list[int]) -> Patch:
    kind, slot, source, value = patch
    if source >= ARENA_SLOTS:
        return kind, slot, 0, value + offsets[source - ARENA_SLOTS]
    return patch


def program_words(parts: Parts) -> list[int]:
    """A program as the driver reads it, with places instead of addresses in its header."""
    blocks = HEADER_SLOTS
    patches = blocks + len(parts.slots)
    steps = patches + 4 * len(parts.patches)
    words = [0] * HEADER_SLOTS
    words[BLOCKS_WORD], words[PATCHES_WORD], words[STEPS_WORD] = blocks, patches, steps
    words[2], words[4] = len(parts.patches), len(parts.steps)
    words += parts.slots
    for patch in parts.patches:
        words += patch
    for step in parts.steps:
        words += [*step, *[0] * (STEP_SLOTS - len(step))]
    return words


# -------------------------------------------------------------------------------------- code

_SIGNS = {
    ast.Add: PLUS, ast.Sub: MINUS, ast.Mult: TIMES, ast.FloorDiv: QUOTIENT, ast.Mod: REMAINDER,
}  # fmt: skip
_FUNCTIONS = {"min": LEAST, "max": MOST}


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class _Code:
    """The lines and guards of a session (graph/symbol.py) as instructions over registers."""

    def __init__(self, sizes: int) -> None:
        self.instructions: list[tuple[int, int, int]] = []
        self.registers = {f"v{i}": i for i in range(sizes)}
        self.first = sizes
        self.numbers: dict[int, int] = {}
        # Registers with the bits of doubles, with which nothing is computed.
        self.doubles: set[int] = set()

    def of(self, x: int) -> int:
        """The register of a term, or of a number."""
        if isinstance(x, Symbol):
            known = self.registers.get(x.term)  # most have a name
            return self._value(_expression(x.term)) if known is None else known
        return self._number(x)

    def compute(self, lines: Iterable[str]) -> None:
        """Lines such as `t1 = t0 + 1`, parsed together: that takes a fraction of the time."""
        for statement in ast.parse("\n".join(lines)).body:
            assert isinstance(statement, ast.Assign)
            (target,) = statement.targets
            assert isinstance(target, ast.Name)
            self.registers[target.id] = self._value(statement.value)

    def require(self, guards: Iterable[str]) -> None:
        """Guards such as `t1 < 5`, without which the rest means nothing."""
        for statement in ast.parse("\n".join(guards)).body:
            assert isinstance(statement, ast.Expr)
            self._put(GUARD, self._truth(statement.value), 0)

    def _put(self, what: int, a: int, b: int) -> int:
        self.instructions.append((what, a, b))
        return self.first + len(self.instructions) - 1

    def _number(self, x: int) -> int:
        if x not in self.numbers:
            self.numbers[x] = self._put(NUMBER, x, 0)
        return self.numbers[x]

    def _value(self, node: ast.expr) -> int:
        if isinstance(node, ast.Name):
            return self.registers[node.id]
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return self._number(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._put(MINUS, self._number(0), self._value(node.operand))
        if isinstance(node, ast.BinOp):
            return self._computed(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._called(node.func.id, [self._value(x) for x in node.args])
        raise Unfit(ast.unparse(node))

    def _computed(self, node: ast.BinOp) -> int:
        a, b = self._value(node.left), self._value(node.right)
        if {a, b} & self.doubles:
            raise Unfit(ast.unparse(node))
        if isinstance(node.op, ast.Div):
            return self._double(RATIO, a, b)
        if type(node.op) not in _SIGNS:
            raise Unfit(ast.unparse(node))
        return self._put(_SIGNS[type(node.op)], a, b)

    def _called(self, name: str, args: list[int]) -> int:
        if name == "bits_of_double" and args[0] in self.doubles:
            return args[0]
        if name == "float":
            return self._double(DOUBLE, args[0], 0)
        if name not in _FUNCTIONS or set(args) & self.doubles:
            raise Unfit(name)
        return self._put(_FUNCTIONS[name], *args)

    def _double(self, what: int, a: int, b: int) -> int:
        made = self._put(what, a, b)
        self.doubles.add(made)
        return made

    def _truth(self, node: ast.expr) -> int:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._put(NOT, self._truth(node.operand), 0)
        assert isinstance(node, ast.Compare), ast.unparse(node)
        a, b = self._value(node.left), self._value(node.comparators[0])
        sign = node.ops[0]
        if isinstance(sign, ast.Eq | ast.NotEq):
            found = self._put(EQUAL, a, b)
        elif isinstance(sign, ast.Lt | ast.GtE):
            found = self._put(LESS, a, b)
        else:
            found = self._put(LESS, b, a)
        turned = isinstance(sign, ast.NotEq | ast.GtE | ast.LtE)
        return self._put(NOT, found, 0) if turned else found
