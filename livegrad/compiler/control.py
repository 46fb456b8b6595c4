"""Control flow: blocks, jumps, structured loops and branches, written as IR text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from livegrad.compiler.instructions import Instructions
from livegrad.compiler.values import Operand, Value, lanes_of


class Loop:
    """A counted loop being written: its counter and the values carried between rounds."""

    __slots__ = ("carried", "index", "results", "step", "updated")

    def __init__(self, index: Value, carried: list[Value], step: Value) -> None:
        self.index = index
        self.step = step
        self.carried = carried
        self.updated: list[Value] | None = None
        self.results: list[Value] = []

    def advance(self, step: Value) -> None:
        """Go on by so many, which may be others in each round."""
        self.step = step

    def update(self, *values: Value | Sequence[Value]) -> None:
        """Give the carried values of the next round, in order (or as one list)."""
        flat: list[Value] = []
        for value in values:
            flat.extend([value] if isinstance(value, Value) else value)
        self.updated = flat


class ControlFlow(Instructions):
    """Blocks and jumps. Inside a block opened by another, what the outer one computed is known."""

    __slots__ = ("_block", "_labels")

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self._labels = 0
        self._block = "entry"

    def new_label(self, hint: str = "block") -> str:
        """A fresh label."""
        self._labels += 1
        return f"{hint}{self._labels}"

    def _start(self, name: str) -> None:
        self._lines.append(f"{name}:")
        self._block = name

    def br(self, target: str) -> None:
        """Jump to a label, ending the block."""
        self._lines.append(f"  br label %{target}")

    def cond_br(self, condition: Value, then: str, otherwise: str) -> None:
        """Jump by an i1, ending the block."""
        self._lines.append(f"  br i1 {condition.name}, label %{then}, label %{otherwise}")

    def phi(self, type: str, incoming: Sequence[tuple[Value, str]]) -> Value:
        """The value that came with the jump, from (value, label) pairs; first in its block."""
        pairs = ", ".join([f"[ {value.name}, %{label} ]" for value, label in incoming])
        return self._define(type, f"phi {type} {pairs}")

    @contextmanager
    def if_(self, condition: Value) -> Iterator[None]:
        """Run the body only if the scalar i1 holds; values do not leave it (stores do)."""
        then, after = self.new_label("then"), self.new_label("endif")
        known = self._known
        self.cond_br(condition, then, after)
        self._known = known.copy()
        self._start(then)
        yield
        self.br(after)
        self._known = known
        self._start(after)

    @contextmanager
    def loop(
        self,
        start: Operand,
        end: Operand,
        step: Operand = 1,
        carried: Sequence[Value] = (),
    ) -> Iterator[Loop]:
        """Count an i64 from `start` up to, not including, `end`; `step` is positive.

        with b.loop(0, n, b.lanes, [zero]) as loop:
            loop.update(b.fadd(loop.carried[0], b.load(f32, b.gep(x, "float", loop.index))))
        total = loop.results[0]
        """
        # The test stands at the bottom, behind one guard: a jump per round, as -O2 would do.
        start, end, step = (
            x if isinstance(x, Value) else self.const("i64", x) for x in (start, end, step)
        )
        body, after = self.new_label("loop"), self.new_label("endloop")
        guard, known = self._block, self._known
        self.cond_br(self.icmp("slt", start, end), body, after)
        self._known = known.copy()
        self._start(body)
        first = [start, *carried]
        phis = [self._define(value.type, "") for value in first]
        lines = range(len(self._lines) - len(phis), len(self._lines))
        loop = Loop(phis[0], phis[1:], step)
        yield loop
        updated = self._updates(loop, carried)
        last = [self.add(loop.index, loop.step), *updated]
        self.cond_br(self.icmp("slt", last[0], end), body, after)
        latch = self._block
        for line, value, old, new in zip(lines, phis, first, last, strict=True):
            pairs = f"[ {old.name}, %{guard} ], [ {new.name}, %{latch} ]"
            self._lines[line] = f"  {value.name} = phi {value.type} {pairs}"
        self._known = known
        self._start(after)
        loop.results = [
            self.phi(old.type, [(old, guard), (new, latch)])
            for old, new in zip(carried, updated, strict=True)
        ]

    def _updates(self, loop: Loop, carried: Sequence[Value]) -> list[Value]:
        updated = loop.updated if loop.updated is not None else []
        types = [value.type for value in carried], [value.type for value in updated]
        if types[0] != types[1]:
            raise ValueError(
                f"loop: update() must match carried; got {types[1]}; expected {types[0]}"
            )
        return updated

    def any_lane(self, mask: Value) -> Value:
        """A scalar i1: whether any lane of the mask is set."""
        lanes = lanes_of(mask.type)
        if not lanes:
            return mask
        bits = self._pure(f"i{lanes}", f"bitcast {mask.type} {mask.name} to i{lanes}")
        return self.icmp("ne", bits, 0)

    def either(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
    ) -> list[Value]:
        """What one of two functions gives, by a scalar i1; the other's code does not run."""
        labels, after = (self.new_label("then"), self.new_label("else")), self.new_label("endif")
        known = self._known
        self.cond_br(condition, *labels)
        found, ends = [], []
        for label, make in zip(labels, (then, otherwise), strict=True):
            self._known = known.copy()
            self._start(label)
            found.append(make())
            ends.append(self._block)
            self.br(after)
        self._known = known
        self._start(after)
        pairs = [list(zip(values, ends, strict=True)) for values in zip(*found, strict=True)]
        return [self.phi(incoming[0][0].type, incoming) for incoming in pairs]

    def where_rare(self, mask: Value, rare: Callable[[], Value], common: Value) -> Value:
        """`select(mask, rare(), common)` that runs the code of `rare` only if a lane needs it."""
        before = self._block
        with self.if_(self.any_lane(mask)):
            patched = self.select(mask, rare(), common)
            end = self._block
        return self.phi(common.type, [(common, before), (patched, end)])
