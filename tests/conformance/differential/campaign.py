"""Many programs: what they show, in counts, and each new kind of difference as a short program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .clipping import Clipping
from .explained import KEPT
from .explained_states import OWN_STRIDES, made_after
from .explained_values import SIGN, numbers_of
from .generate import program
from .integers import Saturating
from .noise import OtherNans, OtherRoundings, hangs_on, may_become, size_hangs_on_roundings
from .program import names, source
from .run import Difference, quietly, run
from .shrink import Shrinker
from .signs import Negating
from .strides import LaidOut, strides_of

CLIPPED_NAN = "PyTorch's gradient at NaN, of what clips or shrinks, is that of vectors, or another"
NO_INTEGER = "NaN and infinities as integers are what the processor makes of them, in PyTorch"
ROUNDINGS = "the value hangs on roundings: PyTorch's own changes with them"


@dataclass(frozen=True)
class Finding:
    """A difference that a program shows; `lines` are what is left of it after shrinking."""

    seed: str
    difference: Difference
    lines: tuple[str, ...]

    def signature(self) -> str:
        """What groups findings: in what they differ, and the operations of the short program."""
        called = re.findall(r"\.([A-Za-z]\w*)|(?<=[\w)])(\[)", "\n".join(self.lines))
        names = {a or b for a, b in called} - {"tensor", "float32", "float64", "int64", "bool"}
        return f"{self.difference.kind} | {' '.join(sorted(names))}"

    def text(self) -> str:
        return f"# seed {self.seed}: {self.difference.kind}\n# {self.difference.detail}\n" + source(
            self.lines
        )


def is_past(other: Difference | None, found: Difference, lines: Sequence[str]) -> bool:
    """Whether a PyTorch that does something as livegrad does it no longer differs in `found`."""
    if other is None:
        return True
    if (other.line, other.place) <= (found.line, found.place):
        return False
    return other.reason is not None or is_rounding(other, lines)


def is_picking(line: str) -> bool:
    """Whether how much a line gives is a matter of values."""
    return re.search(r"\b(unique|unique_consecutive|nonzero|masked_select)\(", line) is not None


def is_rounding(found: Difference, lines: Sequence[str]) -> bool:
    """Whether a variable hangs on roundings, which may make of it what it is here."""
    if found.variable is None:
        return False
    before = lines[: found.line]
    if not hangs_on(OtherRoundings, before, found.variable):
        return False
    shown, _, mine = found.detail.partition(", livegrad ")
    of = {found.variable: False, f"{found.variable}.grad": True}.get(shown.partition(":")[0])
    if of is None or not found.kind.endswith("value") or re.search(r"(\d|nan|inf)j\b", mine):
        return True
    mine = mine.replace("True", "1").replace("False", "0")
    return may_become(numbers_of(mine), before, found.variable, of)


def check_reason(lines: Sequence[str], expected: str | None) -> None:
    """AssertionError unless a program differs, for a reason with these words, or None for none."""
    with quietly():
        found = Campaign().judged(lines)
    assert found is not None
    assert (found.reason is None) == (expected is None), found
    assert expected is None or expected in (found.reason or "")


@dataclass
class Campaign:
    """Runs programs by their seeds, and remembers what they showed."""

    without: frozenset[str] = frozenset()
    shrinking: bool = True
    programs: int = 0
    statements: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def run(self, seed: str) -> None:
        """Runs the program of a seed; remembers what none of the known reasons explains."""
        with quietly():
            lines: list[str] = []
            try:
                lines = program(seed)
                found = self.judged(lines)
            except Exception as error:  # of the harness's own: the programs after this one go on
                fault = Difference(0, "a fault of the fuzzer", repr(error))
                self.programs += 1
                self.findings.append(Finding(seed, fault, tuple(lines)))
                return
            self.programs += 1
            self.statements += len(lines) if found is None else found.line + 1
            if found is None:
                return
            if found.reason is not None:
                self.explained[found.reason] += 1
            else:
                self.findings.append(self.shrunk(seed, lines[: found.line + 1], found))

    def judged(self, lines: Sequence[str]) -> Difference | None:
        """The difference that a program shows, with the reason if it has a known one."""
        found = run(lines, self.without)
        if found is None or found.reason not in (None, KEPT):
            return found
        kept = run(lines, self.without, keeping=True)
        if is_past(kept, found, lines):
            return replace(found, reason=KEPT)
        if kept is not None and kept.reason is not None and kept.kind == found.kind:
            return kept  # refused for another reason in the same line, where values are kept
        if found.reason is KEPT:  # which it is not, then: PyTorch with the values kept differs too
            assert kept is not None
            found = kept
        if (reason := self.reason_of_rule(lines, found)) is not None:
            return replace(found, reason=reason)
        if found.variable is None and any(
            size_hangs_on_roundings(lines[: found.line], name)
            for name in sorted(names(lines[found.line]).reads & made_after(is_picking, lines))
        ):
            return replace(found, reason=ROUNDINGS)
        if is_rounding(found, lines):
            return replace(found, reason=ROUNDINGS)
        if found.variable and hangs_on(OtherNans, lines[: found.line], found.variable):
            return replace(found, reason=SIGN)
        return found

    def reason_of_rule(self, lines: Sequence[str], found: Difference) -> str | None:
        """The reason if a PyTorch that has one of livegrad's rules no longer differs in `found`."""
        rules: list[tuple[Any, dict[str, Any], str]] = [
            (Saturating, {"saturating": True}, NO_INTEGER),
            (Negating, {"negating": True}, SIGN),
            (Clipping, {"clipping": True}, CLIPPED_NAN),
        ]
        if any("autograd.grad(" in line for line in lines):
            rules.append((LaidOut, {"laying": LaidOut(strides_of(lines))}, OWN_STRIDES))
        for rule, otherwise, reason in rules:
            before = rule.changed
            other = run(lines, self.without, keeping=True, **otherwise)
            if rule.changed > before and is_past(other, found, lines):
                return reason
        return None

    def shrunk(self, seed: str, lines: Sequence[str], found: Difference) -> Finding:
        if not self.shrinking:
            return Finding(seed, found, tuple(lines))

        def fails(shorter: Sequence[str]) -> bool:
            other = self.judged(shorter)
            return other is not None and other.kind == found.kind and other.reason is None

        short = Shrinker(fails).shrink(lines)
        return Finding(seed, self.judged(short) or found, tuple(short))

    def add(self, other: Campaign) -> None:
        self.programs += other.programs
        self.statements += other.statements
        self.explained += other.explained
        self.findings += other.findings

    def summary(self) -> str:
        kinds = Counter(finding.difference.kind for finding in self.findings)
        lines = [
            f"{self.programs} programs, {self.statements} lines: "
            f"{len(self.findings)} unexplained, {sum(self.explained.values())} explained"
        ]
        lines += [f"  unexplained {n:5d}  {kind}" for kind, n in kinds.most_common()]
        lines += [f"  explained   {n:5d}  {reason}" for reason, n in self.explained.most_common()]
        return "\n".join(lines)
