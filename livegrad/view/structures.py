"""Structures that have run while somebody watched: their nodes, taken once, and their kernels."""

from __future__ import annotations

from typing import Any

from livegrad.graph.state import State
from livegrad.runtime.plans import digest_of_specs
from livegrad.view.capture import Captured
from livegrad.view.kernels import Account

MOST_GRAPHS = 64
MOST_WAYS = 8


class Known:
    """A structure that has run in one way: its nodes, and its kernels once somebody asks.

    What was run piece by piece is planned later, and more of it may be kept at another time: then
    the same nodes are known in several ways.
    """

    def __init__(self, captured: Captured, ways: list[Known] | None = None) -> None:
        self.captured = captured
        self.executable: Any = None
        self._ways = [] if ways is None else ways
        self._ways.append(self)
        self._account: Account | None = None
        self._rest: Known | None = None

    @property
    def account(self) -> Account:
        """The kernels, which are looked at when somebody first asks."""
        if self._account is None:
            self._account = Account(self.executable, self.captured)
        return self._account

    def run_by(self, executable: Any) -> Known:
        """These nodes, run by a plan, or by a list: lists of one structure are alike."""
        for known in self._ways:
            if known.executable is None:
                known.executable = executable
            if known.executable is executable or (known.is_list and is_list(executable)):
                return known
        if len(self._ways) >= MOST_WAYS:
            del self._ways[0]
        made = Known(self.captured, self._ways)
        made.executable = executable
        return made

    @property
    def is_list(self) -> bool:
        """Whether it was run piece by piece."""
        return is_list(self.executable)

    @property
    def has_account(self) -> bool:
        """Whether its kernels were looked at."""
        return self._account is not None

    def behind(self, count: int) -> Known | None:
        """What is left if the first nodes were run piece by piece: updates, which have a plan."""
        left = self.captured.order[count:]
        if self._rest is None or self._rest.captured.order != left:
            part = Captured()
            part.nodes, part.order = self.captured.nodes, left
            part.is_summary = self.captured.is_summary
            self._rest = Known(part)
        return self._rest if left else None


def is_list(executable: Any) -> bool:
    """Whether something that ran is a list of pieces; else it is a plan."""
    return hasattr(executable, "step_places")


class Structures:
    """Those that were met lately, by what was pending and in which modules."""

    def __init__(self) -> None:
        self._known: dict[Any, Known] = {}

    def get(self, key: Any) -> Known | None:
        """What is known by a key."""
        return self._known.get(key)

    def add(self, key: Any, captured: Captured) -> Known:
        """Notes the nodes of a structure; those that were met long ago are forgotten."""
        known = self._known[key] = Known(captured)
        while len(self._known) > MOST_GRAPHS:
            del self._known[next(iter(self._known))]
        return known

    def forget(self, known: Known) -> None:
        """Forgets a structure that has not been run."""
        for key in [key for key, each in self._known.items() if each is known]:
            del self._known[key]


def key_of_pending(state: State, modules: Any) -> Any:
    """What a structure is known by: specs, which nodes read which, and where they were recorded.

    `modules` stands for the last.
    """
    base, end = state.base, state.base + len(state.nodes)
    read = [x.index for node in state.nodes for x in node.inputs]
    links = hash(tuple([index - base if base <= index < end else -1 for index in read]))
    return digest_of_specs(state.nodes), links, modules
