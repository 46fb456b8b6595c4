"""What the package tells the lint (see `graph/events.py`), and for how long it listens."""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

from livegrad.graph.events import BACKWARD, DROPPED, MODE, NODES, READ, STEP, Read
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.node import Node
from livegrad.graph.watch import TrainingWarning, Watch
from livegrad.lint import graphs, modes, steps
from livegrad.lint.hearing import hear, ignore
from livegrad.lint.rules import Lint, disable, say


class Losses:
    """Where backward started lately, and how many backward passes are still looked at."""

    recent: set[int] = set()  # noqa: RUF012 - numbers of nodes
    left = 0
    told = False


# What was seen is looked at and changed by one thread at a time.
_lock = threading.RLock()


def _guarded(listen: Callable[..., None]) -> Callable[..., None]:
    """A listener whose own faults end the lint, not the training."""

    @functools.wraps(listen)
    def run(*args: Any) -> None:
        try:
            with _lock:
                listen(*args)
        except TrainingWarning:  # where warnings are errors
            raise
        except Exception as error:
            disable()
            warnings.warn(f"livegrad.lint failed and is off now: {error!r}", stacklevel=3)

    return run


def forget() -> None:
    """Forgets all that was seen."""
    steps.forget()
    modes.forget()
    Losses.recent, Losses.left, Losses.told = set(), 0, False


@_guarded
def made(optimizer: Any) -> None:
    """An optimiser was made: its first steps are looked at."""
    steps.steps[optimizer] = steps.Steps()
    if Lint.steps_left <= 0:
        optimizer.watched = False
        return
    Losses.left = Lint.STEPS
    Lint.watching = True
    hear(STEP, step)
    hear(BACKWARD, backward)
    hear(READ, read)
    hear(DROPPED, _dropped)


@_guarded
def backward(tensors: Any) -> None:
    """Backward is about to start."""
    Losses.left -= 1
    if Losses.left < 0:
        ignore(BACKWARD)
        return
    given = [tensors] if isinstance(tensors, Handle) else list(tensors)
    roots = [node_of(x) for x in given if isinstance(x, Handle)]
    roots = [node for node in roots if node.grad_to is not None]
    leaves = graphs.look(roots)
    steps.gradients_come(leaves)
    held = {id(p) for known in steps.steps for p in steps.parameters(known)}
    if any([id(x) in held for x in leaves]):
        Losses.recent.update([NODES[node] for node in _numbers(roots)])


def _numbers(roots: list[Node]) -> list[Node]:
    """The losses themselves, and those that they are sums or multiples of."""
    found = list(roots)
    for node in found:  # grows while it is walked
        if node.op.kind == "elementwise" and len(found) < 32:
            found += [x for x in node.inputs if x.meta.numel == 1 and x.grad_to is not None]
    return found


def step(optimizer: Any, before: bool) -> None:
    """A step is about to be taken, or has been."""
    if optimizer.watched or Watch.suspect is not None:
        _step(optimizer, before)


@_guarded
def _step(optimizer: Any, before: bool) -> None:
    if before:
        modes.stepped(optimizer)
    if not optimizer.watched:
        return
    if steps.is_shared(optimizer):
        _stop_watching(optimizer)
        return
    if before:
        steps.before(optimizer)
        return
    steps.after(optimizer)
    if steps.steps[optimizer].taken == 1:
        hear(MODE, _mode)
    if steps.steps[optimizer].taken >= Lint.STEPS or Lint.steps_left <= 0:
        _stop_watching(optimizer)


def _stop_watching(optimizer: Any) -> None:
    optimizer.watched = False
    steps.steps[optimizer].used = []
    Lint.watching = any([known.watched for known in steps.steps])
    if not Lint.watching:
        ignore(BACKWARD)
        if Watch.suspect is None:
            ignore(READ)
            ignore(STEP)


def read(event: Read) -> None:
    """A value was read."""
    number = event.number
    if number is not None and (number - number != 0 or Watch.suspect is not None):
        _number_read(event)


@_guarded
def _number_read(event: Read) -> None:
    number = event.number
    if Watch.suspect is not None:
        modes.number_read()
    if number - number != 0 and not Losses.told and event.node in Losses.recent:
        Losses.told = True
        say(
            "loss",
            f"the loss is {number}. Look for a learning rate that is too large, a logarithm or a "
            "quotient of 0, or infinite data",
        )


_mode = _guarded(modes.mode)
_dropped = _guarded(modes.dropped)
Lint.memories.append(forget)
modes.Modes.read = read
modes.Modes.step = step
modes.Modes.ran_again = _guarded(modes.ran_again)
# A forked child has none of the threads that may hold the lock.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]
