"""Index maps: where each dim of a value is read, as an affine function of a kernel's loop counters.

A movement op (permute, expand, slice, flip …) computes nothing. Its `view` rule turns the index
at which its *output* is wanted into the index at which its *input* must be read; composing the
rules lets a kernel read straight through any chain of views.
"""

from __future__ import annotations

from typing import NamedTuple

from livegrad.graph.numbers import IntArg


class Along(NamedTuple):
    """Index along one dim: `coef * counter[axis] + offset + Σ mult * run-time argument[slot]`.

    `axis` is -1 where no loop counter takes part (a broadcast or selected dim). `more` lists
    further counters as (axis, coef): an element of a window is at window + place in it.
    """

    axis: int
    coef: int = 1
    offset: int = 0
    args: tuple[tuple[int, int], ...] = ()
    more: tuple[tuple[int, int], ...] = ()

    @property
    def terms(self) -> tuple[tuple[int, int], ...]:
        """All counters that take part, as (axis, coef)."""
        return ((self.axis, self.coef), *self.more) if self.axis >= 0 else ()


Index = tuple[Along, ...]

FIRST = Along(-1, 0)


def stepped(along: Along, step: int, start: int) -> Along:
    """The index `step * along + start`; a start known only at run time stays symbolic."""
    args = tuple([(slot, mult * step) for slot, mult in along.args])
    offset = along.offset * step
    if isinstance(start, IntArg):
        args = (*args, (start.slot, 1))
    else:
        offset += start
    more = tuple([(axis, coef * step) for axis, coef in along.more])
    return Along(along.axis, along.coef * step, offset, args, more)


def added(a: Along, b: Along) -> Along:
    """The index `a + b`."""
    coefs: dict[int, int] = {}
    for axis, coef in (*a.terms, *b.terms):
        coefs[axis] = coefs.get(axis, 0) + coef
    terms = sorted([(axis, coef) for axis, coef in coefs.items() if coef])
    offset, args = a.offset + b.offset, a.args + b.args
    if not terms:
        return Along(-1, 0, offset, args)
    return Along(*terms[0], offset, args, tuple(terms[1:]))
