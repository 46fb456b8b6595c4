"""What `livegrad.blame` gives: an operation and its line, and why it is to blame, for people."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from livegrad.debug.places import expression_at
from livegrad.debug.values import Range
from livegrad.graph.node import Site, site_location


class Link(NamedTuple):
    """One operation on the way of a value that is not finite."""

    op: str
    file: str
    line: int
    values: Range | None = None


class Blame:
    """What made a value that is not finite.

    - `op`, `file`, `line`, `source`, `module`: the operation, where the program has it, and in
      which module's method; `how` is "forward", "backward" (its gradient is to blame), "data" (a
      value that was given to the program), "parameter" or "update" (of the optimiser)
    - `inputs`: what is in the values that it was computed from; `result`: what came of them;
      `gradient`: of a backward pass, what came to the operation
    - `chain`: the operations from there to where it was seen
    - `step`: the optimiser's step, counted from 1, in which it was first seen; None elsewhere
    - `parameters`: whose gradients are concerned; `note`: what else there is to say
    """

    def __init__(self, op: str, how: str, site: Site | None) -> None:
        self.op, self.how = op, how
        self.file, self.line = site_location(site)
        self.expression = expression_at(site)
        self.module: str | None = None
        self.step: int | None = None
        self.seen_in = ""
        self.inputs: tuple[Range, ...] = ()
        self.result: Range | None = None
        self.gradient: Range | None = None
        self.chain: tuple[Link, ...] = ()
        self.parameters: tuple[str, ...] = ()
        self.note = ""
        self.is_rule = False  # the operation itself stands in a backward pass: a rule of the user's

    @property
    def source(self) -> str:
        """The text of the line."""
        return self.expression.line

    def __repr__(self) -> str:
        return self.__str__()

    def __str__(self) -> str:
        lines = [self._headline(), *self._where()]
        lines += [f"    input {i}: {x}" for i, x in enumerate(self.inputs)]
        if self.gradient is not None:
            lines.append(f"    gradient that came: {self.gradient}")
        if self.result is not None:
            lines.append(f"    {'gradient' if self.how == 'backward' else 'result'}: {self.result}")
        if self.note:
            lines.append(f"  {self.note}")
        if len(self.chain) > 1:
            way = (
                "the loss came from it through" if self.how == "backward" else "from there through"
            )
            lines.append(f"  {way}: " + " → ".join(_shortened(self.chain)))
        if self.parameters:
            lines.append(f"  gradients concerned: {_few(self.parameters)}")
        return "\n".join(lines)

    def _headline(self) -> str:
        what = "a value that is not finite"
        if self.result is not None:
            what = "NaN" if self.result.nan else "inf"
        when = f" {self.seen_in}" if self.seen_in else ""
        who = {
            "backward": f"{self.op} in a backward pass"
            if self.is_rule
            else f"the gradient of {self.op}",
            "parameter": f"the parameter {self.op}",
            "update": f"the update by {self.op}",
        }.get(self.how, self.op)
        made = "in data" if self.how == "data" else f"first made by {who}"
        return f"{what} {made}{when}"

    def _where(self) -> list[str]:
        inside = f", in {self.module}" if self.module else ""
        return [f"  {self.file}:{self.line}{inside}", self.expression.marked("      ")]


def _shortened(chain: Sequence[Link], most: int = 12) -> list[str]:
    told = [f"{link.op} ({os.path.basename(link.file)}:{link.line})" for link in chain]
    if len(told) <= most:
        return told
    return [*told[: most // 2], f"… {len(told) - most} more …", *told[-most // 2 :]]


def _few(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


__all__ = ["Blame", "Link"]
