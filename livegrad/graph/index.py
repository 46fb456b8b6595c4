"""Index maps: where each dim of a value is read, as an affine function of a kernel's loop counters.

A movement op (permute, expand, slice, flip …) computes nothing. Its `view` rule turns the index
at which its *output* is wanted into the index at which its *input* must be read; composing the
rules lets a kernel read straight through any chain of views.
"""

from __future__ import annotations

from typing import NamedTuple

from livegrad.graph.record import IntArg


class Along(NamedTuple):
    """Index along one dim: `coef * counter[axis] + offset + Σ mult * run-time argument[slot]`.

    `axis` is -1 where no loop counter takes part (a broadcast or selected dim).
    """

    axis: int
    coef: int = 1
    offset: int = 0
    args: tuple[tuple[int, int], ...] = ()


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
    return Along(along.axis, along.coef * step, offset, args)
