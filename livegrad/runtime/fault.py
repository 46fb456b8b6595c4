"""What goes wrong while a plan runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad.graph.node import Node, Site, quote_site

if TYPE_CHECKING:
    from livegrad.compiler.plan import Plan


class Fault(Exception):
    """An error found while a plan ran: the number of the step, and what went wrong.

    A native step reports which of its instructions has refused a value, and the value.
    """

    def __init__(
        self,
        number: int,
        kind: type[Exception] = RuntimeError,
        message: str = "a value was refused",
        code: int = 0,
        value: int = 0,
    ) -> None:
        super().__init__(message)
        self.number = number
        self.kind = kind
        self.message = message
        self.code = code
        self.value = value
        # Filled in by `Executable.locate`: the recorded node, and the error for the user.
        self.recorded: Node | None = None
        self.error: Exception = self

    def suspect(self, plan: Plan) -> Node:
        """The planned node whose fault it is."""
        assert plan.notes is not None
        notes = plan.notes.steps[self.number]
        return notes.suspects[self.code - 1] if self.code else notes.nodes[0]

    def blamed_on(self, site: Site | None) -> Fault:
        """The same, with an error for the user that names a line."""
        error: Any = self.kind(f"{self.message} (recorded at {quote_site(site)})")
        error.recorded_at = site  # for its traceback, see runtime/folding.py
        self.error = error
        return self

    def complain(self, suspect: Node) -> None:
        """Has a node say what is wrong with the value that it refused."""
        assert suspect.op.complaint is not None
        self.kind, self.message = suspect.op.complaint(suspect, self.value)
