"""A random program, written line by line while PyTorch runs it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch

from .autograd import differentiable, scalar
from .explained import explanation
from .pen import Pen, Stuck
from .program import CHECK
from .statements import KINDS, LATER, SHARE, SORTS, opening, weights_of

LIVE = 14  # variables at most; old ones are dropped
LARGEST = 200  # elements


def program(seed: str) -> list[str]:
    """The program of a seed."""
    pen = Pen(seed)
    sort = later_sort(seed) or pen.choose(*SORTS)
    lines: list[str] = []
    wanted, checks = pen.rng.randint(4, 22), pen.choose(0.02, 0.1, 0.25)
    for line in candidates(pen, sort, 20 * wanted):
        if not kept(pen, line):
            continue
        lines.append(line)
        if pen.chance(checks):
            lines.append(CHECK)
        if len(lines) >= wanted:
            break
    lines.append(CHECK)
    if pen.chance(0.6):
        lines += gradients(pen)
    if pen.chance(0.4):
        lines += probes(pen)
    return lines


def later_sort(seed: str) -> str | None:
    """The sort of a program if it is one that came later, by numbers of its own."""
    rng = Random(f"{seed} later")
    return rng.choice(list(LATER)) if rng.random() < SHARE else None


def candidates(pen: Pen, sort: str, count: int) -> Iterator[str]:
    """Lines that may follow; each is made of what is there after the ones before it."""
    yield from opening(sort, pen)
    kinds, weights = list(weights_of(sort)), list(weights_of(sort).values())
    for _ in range(count):
        if len(pen.side.own()) > LIVE:
            yield f"del {pen.choose(*pen.side.own())}"
        try:
            yield KINDS[pen.rng.choices(kinds, weights)[0]](pen)
        except (Stuck, RuntimeError):  # RuntimeError: PyTorch gave up a view, its base was written
            continue


def kept(pen: Pen, line: str) -> bool:
    """Runs a line; whether it is part of the program. Few that PyTorch refuses are."""
    before = dict(pen.side.variables)
    error = pen.writes(line)
    if error is not None:
        if isinstance(error, SyntaxError | NameError):
            raise error
        return pen.chance(0.05 if explanation(error, None) else 0.3)
    if any(isinstance(x, torch.Tensor) and too_large(x) for x in pen.side.own().values()):
        pen.side.variables.clear()
        pen.side.variables.update(before)
        return False
    return True


def too_large(x: torch.Tensor) -> bool:
    return x.numel() > LARGEST or x.dim() > 5


def gradients(pen: Pen) -> list[str]:
    """Backward passes from what has a graph: what was done to it shows in the leaves."""
    found = pen.named(lambda x: isinstance(x, torch.Tensor) and differentiable(x) and not x.is_leaf)
    lines = [
        f"{scalar(name, pen.value(name))}.backward(retain_graph=True)"
        for name in pen.rng.sample(found, min(len(found), 4))
    ]
    return [*[line for line in lines if kept(pen, line)], CHECK] if lines else []


def probes(pen: Pen) -> list[str]:
    """Different numbers added to each tensor in turn: what shares memory shows it."""
    lines = []
    for i, (name, x) in enumerate(pen.side.own().items()):
        if isinstance(x, torch.Tensor) and x.dtype != torch.bool:
            line = f"{name}.detach().add_({i + 1})"
            if pen.writes(line) is None:
                lines.append(line)
    return [*lines, CHECK]
