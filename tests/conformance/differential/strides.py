"""The gradients that autograd.grad returns, laid out in PyTorch's memory as they are in livegrad's.

How they lie follows from the rules that made them, and no rule is promised; but it decides what
`reshape` copies, and which views there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

import livegrad

from .program import CHECK
from .sides import Side

Strides = list[tuple[int, ...] | None]  # of each gradient that a call returned


def strides_of(lines: Sequence[str]) -> list[Strides]:
    """The strides of what each call of autograd.grad in a program returns here."""
    found: list[Strides] = []
    real = livegrad.autograd.grad

    def grad(*args: Any, **options: Any) -> Any:
        found.append([])
        result = real(*args, **options)
        found[-1] += [None if g is None else tuple(g.stride()) for g in result]
        return result

    side = Side(livegrad)
    with patch.object(livegrad.autograd, "grad", grad):
        for line in lines:
            side.read() if line == CHECK else side.run(line)
    side.variables.clear()
    return found


class LaidOut:
    """Within it, what autograd.grad of PyTorch returns has the given strides, call by call."""

    changed = 0

    def __init__(self, strides: Sequence[Strides]):
        self.strides = iter(strides)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        real = torch.autograd.grad

        def grad(*args: Any, **options: Any) -> Any:
            wanted = next(self.strides, [])
            found = real(*args, **options)
            if len(found) != len(wanted):  # refused here
                return found
            return tuple(map(self.laid_out, found, wanted))

        with patch.object(torch.autograd, "grad", grad):
            yield

    def laid_out(self, x: torch.Tensor | None, strides: tuple[int, ...] | None) -> Any:
        if x is None or strides is None or len(strides) != x.ndim or x.stride() == strides:
            return x
        LaidOut.changed += 1
        return torch.empty_strided(x.shape, strides, dtype=x.dtype).copy_(x)
