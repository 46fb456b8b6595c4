"""A program run by PyTorch and livegrad side by side, up to the first difference."""

from __future__ import annotations

import builtins
import re
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import livegrad

from .compare import Unequal, compare, compare_identities, compare_logs, compare_writes
from .explained import explanation, is_own_fault
from .explained_states import explanation_of_state
from .program import CHECK
from .sides import Side, TorchSide
from .undefined import ONE_GRADIENT, may_write, notes, share_gradients, writes_of

SECONDS = 60  # for one program; one that takes longer hangs


@dataclass(frozen=True)
class Difference:
    """At a line, PyTorch and livegrad differ in `kind`; a reason if it is meant to be so."""

    line: int
    kind: str
    detail: str
    reason: str | None = None
    variable: str | None = None
    place: int = 0  # of the variable among all, in a check


class TookTooLong(BaseException):
    pass


@dataclass(frozen=True)
class Pair:
    want: TorchSide
    got: Side
    without: frozenset[str]
    # Why values may differ from now on.
    notes: set[str] = field(default_factory=set)

    def step(self, at: int, line: str, before_it: Sequence[str] = ()) -> Difference | None:
        """Runs a line on both sides; how they differ in what they raise."""
        before = dict(self.got.variables)
        wrong, found, late = self.want.run(line), self.got.run(line), False
        if wrong is not None and found is None:
            # A fault that only values show may wait for the next read.
            found, late = self.got.read(), True
            self.got.variables.clear()
            self.got.variables.update(before)
        tensors = self.want.tensors()
        named = [tensors[name] for name in re.findall(r"\w+", line) if name in tensors]
        if class_of(wrong) == class_of(found) and not is_own_fault(wrong):
            writes = writes_of(line, self.want.variables) if may_write(line) else []
            spelled = spelled_out(line, self.want.variables)
            self.notes.update(notes(spelled, named, found, tensors.values(), writes))
            return None
        kind = f"{class_of(wrong)} in torch, {class_of(found)} here"
        detail = f"torch {wrong!r:.300}, livegrad{' at a read' if late else ''} {found!r:.300}"
        reason = explanation(wrong, found, line, named, before_it, tensors)
        return Difference(at, kind, detail, reason)

    def check(self, at: int) -> Difference | None:
        """Compares all variables, and what the hooks wrote."""
        if (error := self.got.read()) is not None:
            return Difference(at, f"{class_of(error)} at a read", f"livegrad {error!r:.300}")
        theirs, mine = self.want.own(), self.got.own()
        try:
            for name, x in theirs.items():
                compare(name, x, mine.get(name), self.without)
            compare_identities(theirs, mine)
            if "version" not in self.without:
                compare_writes(self.want.writes(), self.got.writes())
            compare_logs(self.want.log, self.got.log, self.without)
        except Unequal as unequal:
            if unequal.what == "grad value" and share_gradients(self.want.tensors().values()):
                self.notes.add(ONE_GRADIENT)
            variable = re.split(r"[.\[]", unequal.name)[0]
            return Difference(
                at,
                unequal.what,
                f"{unequal.name}: {unequal.detail}",
                variable=variable,
                place=place_of(variable, unequal.what, list(theirs)),
            )
        except Exception as error:
            return Difference(at, f"{class_of(error)} at a read", f"livegrad {error!r:.300}")
        return None

    def explained(self, found: Difference, lines: Sequence[str]) -> Difference:
        """What a check after `lines` has found, with the reason if it has a known one."""
        reason = explanation_of_state(
            found.kind,
            found.detail,
            found.variable,
            lines,
            self.shown(found),
            self.notes,
            self.want.dropped,
        )
        return replace(found, reason=reason)

    def shown(self, found: Difference) -> dict[str, Any]:
        """PyTorch's variables; instead of one that has several tensors, the one that differs."""
        theirs = self.want.own()
        several, place = theirs.get(str(found.variable)), re.match(r"\w+\[(\d+)\]", found.detail)
        if place is None or not isinstance(several, tuple | list):
            return theirs
        return {**theirs, str(found.variable): several[int(place[1])]}

    def end(self) -> None:
        """Forgets the variables, and what is pending of them: the next program begins afresh."""
        self.want.variables.clear()
        self.got.variables.clear()
        with suppress(Exception):
            livegrad.ones(1).tolist()


def spelled_out(line: str, variables: dict[str, Any]) -> str:
    """A line with the modules that it calls named by their classes."""

    def class_name(called: re.Match[str]) -> str:
        module = variables.get(called[1])
        return f"{type(module).__name__}(" if hasattr(module, "forward") else called[0]

    return re.sub(r"\b(\w+)\(", class_name, line)


def place_of(variable: str, what: str, variables: list[str]) -> int:
    """When a check looks at something: one variable after the other, then at all in other ways."""
    after = ("identity", "version", "log")
    if what in after or variable not in variables:
        return len(variables) + (after.index(what) if what in after else 0)
    return variables.index(variable)


def class_of(error: Exception | None) -> str:
    """The built-in class that an `except` clause would name; 'nothing' for no error."""
    if error is None:
        return "nothing"
    return next(c.__name__ for c in type(error).__mro__ if c.__module__ == builtins.__name__)


def run(
    lines: Sequence[str], without: frozenset[str] = frozenset(), **otherwise: Any
) -> Difference | None:
    """The first difference between PyTorch's run of a program and livegrad's, or None.

    `otherwise` says what PyTorch does as livegrad does it: see `TorchSide`.
    """
    pair = Pair(TorchSide(**otherwise), Side(livegrad), without)
    at = 0
    try:
        with time_limit(SECONDS):
            for at, line in enumerate(lines):
                found = pair.check(at) if line == CHECK else pair.step(at, line, lines[:at])
                if found is not None:
                    return pair.explained(found, lines[:at]) if line == CHECK else found
    except TookTooLong:
        return Difference(at, "hang", f"more than {SECONDS} seconds")
    finally:
        pair.end()
    return None


@contextmanager
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def give_up(*_: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
