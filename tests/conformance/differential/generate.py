"""A random program, written line by line while PyTorch runs it."""

from __future__ import annotations

import torch

from .creation import leaf
from .explained import explanation
from .pen import Pen, Stuck
from .program import CHECK
from .statements import KINDS

LIVE = 14  # variables at most; old ones are dropped
LARGEST = 200  # elements


def program(seed: str) -> list[str]:
    """The program of a seed."""
    pen = Pen(seed)
    lines: list[str] = []
    wanted = pen.rng.randint(4, 22)
    checks = pen.choose(0.02, 0.1, 0.25)
    for _ in range(20 * wanted):
        if len(lines) >= wanted:
            break
        line = next_line(pen, started=len(pen.side.own()) > 1)
        if line is None or not kept(pen, line):
            continue
        lines.append(line)
        if pen.chance(checks):
            lines.append(CHECK)
    lines.append(CHECK)
    return lines + (probes(pen) if pen.chance(0.4) else [])


def next_line(pen: Pen, started: bool) -> str | None:
    if len(pen.side.own()) > LIVE:
        return f"del {pen.choose(*pen.side.own())}"
    if not started and pen.chance(0.7):
        return leaf(pen)
    kinds = list(KINDS) if started else ["creation"]
    kind = pen.rng.choices(kinds, [KINDS[k][0] for k in kinds])[0]
    try:
        return KINDS[kind][1](pen)
    except (Stuck, RuntimeError):  # RuntimeError: PyTorch gave up a view, its base was written to
        return None


def kept(pen: Pen, line: str) -> bool:
    """Runs a line; whether it is part of the program. Few that PyTorch refuses are."""
    before = dict(pen.side.variables)
    error = pen.writes(line)
    if error is not None:
        if isinstance(error, SyntaxError | NameError):
            raise error
        return pen.chance(0.05 if explanation(line, error, None) else 0.3)
    if any(isinstance(x, torch.Tensor) and too_large(x) for x in pen.side.own().values()):
        pen.side.variables.clear()
        pen.side.variables.update(before)
        return False
    return True


def too_large(x: torch.Tensor) -> bool:
    return x.numel() > LARGEST or x.dim() > 5


def probes(pen: Pen) -> list[str]:
    """Different numbers added to each tensor in turn: what shares memory shows it."""
    lines = []
    for i, (name, x) in enumerate(pen.side.own().items()):
        if isinstance(x, torch.Tensor) and x.dtype != torch.bool:
            line = f"{name}.detach().add_({i + 1})"
            if pen.writes(line) is None:
                lines.append(line)
    return [*lines, CHECK]
