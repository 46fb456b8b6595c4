"""Moulds: the programs of pieces without their sizes.

    plan with symbols ──► words of a program, some of them terms ──► code for the terms
                                   │                                      │
                                   ▼                                      ▼
    sizes of a node ──────────► image with holes ◄────────────── registers      natively: filling.py

So a piece serves every size, and what a new size costs is filling in its words.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, NamedTuple

from livegrad.compiler.expand import Recorded
from livegrad.compiler.pipeline import compile_plan
from livegrad.compiler.place import ALIGN, ARENA_SLOTS
from livegrad.compiler.plan import Patch, Plan
from livegrad.compiler.sizes import Outline, symbolic
from livegrad.graph.meta import Meta
from livegrad.graph.numbers import Specialised
from livegrad.graph.symbol import Session, Symbol
from livegrad.runtime.cpu import blas
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


class Unfit(Exception):
    """Something that cannot be listed: NumPy runs it, or its plan is for its numbers only."""


# ------------------------------------------------------------------------------------- sizes


def numbered(metas: list[Meta]) -> tuple[list[int], list[int]]:
    """For each dim 0, 1, or 2 + the number of its size; and the sizes: see PATTERN in layout.py."""
    numbers: dict[int, int] = {}
    pattern = [
        size if size < 2 else 2 + numbers.setdefault(size, len(numbers))
        for meta in metas
        for size in meta.shape
    ]
    return pattern, list(numbers)


# ------------------------------------------------------------------------------------- moulds


class Mould(NamedTuple):
    """A program whose words are numbers or, as far as they depend on sizes, registers."""

    plan: Plan
    # What it gives for other sizes can be compared; None: it holds for its own sizes only.
    outline: Outline | None
    code: list[tuple[int, int, int]]
    image: list[int]
    fills: list[tuple[int, int]]
    # Registers: bytes of new tensors, of results, of scratch memory, and of that of a thread.
    outs: list[int]
    results: list[int]
    scratch: int
    thread_scratch: int
    kernels: list[Any]


def learn(recorded: Recorded, sizes: list[int]) -> Mould:
    """The mould of a plan, which holds for all sizes that its code does not refuse."""
    before, Specialised.seen = Specialised.seen, False
    try:
        with Session(sizes) as session:
            plan = compile_plan(symbolic(recorded, session))
            _check(plan)
            return _cast(plan, Outline(plan, session), len(sizes), session)
    finally:
        Specialised.seen = before


def fixed(recorded: Recorded, sizes: list[int]) -> Mould:
    """A mould for these sizes alone: of what has lost symbols on the way."""
    before, Specialised.seen = Specialised.seen, False
    try:
        plan = compile_plan(recorded)
        _check(plan)
        return _cast(plan, None, len(sizes), None)
    finally:
        Specialised.seen = before


def _check(plan: Plan) -> None:
    products = any([step.product for step in plan.steps])
    on_host = any([step.host for step in plan.steps]) or (products and not blas.gemm_available())
    if Specialised.seen or on_host:
        raise Unfit


def _cast(plan: Plan, outline: Outline | None, sizes: int, session: Session | None) -> Mould:
    offsets, arena = _side_by_side([life.nbytes for life in plan.lives])
    parts = parts_of(plan.steps)
    if session is None:
        arena = plan.arena
    parts.patches = [_placed(patch, offsets) for patch in parts.patches]
    words = program_words(parts)
    code = _Code(sizes)
    if session is not None:
        code.compute(session.lines)
        code.require(session.guards)
    return Mould(
        plan,
        outline,
        code.instructions,
        [_plain(x) for x in words],
        [(at, code.of(x)) for at, x in enumerate(words) if isinstance(x, Symbol)],
        [code.of(b.nbytes) for b in plan.buffers],
        [code.of(o.nbytes) for o in plan.outputs],
        code.of(arena),
        code.of(parts.scratch),
        parts.kernels,
    )


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


def _plain(x: int) -> int:
    return int.__add__(x, 0)


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
