"""Where the training lint listens: places in the package test a slot here, and call what is there.

Everything is None until an optimiser is made, and again once the first steps are over; see
`livegrad.lint`, which fills the slots in.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from livegrad.graph.node import Site, site_location
from livegrad.graph.record import user_site


class TrainingWarning(UserWarning):
    """A likely mistake in a training program; `livegrad.lint` says which are found."""


def _begin(optimizer: Any) -> None:
    import_module("livegrad.lint.events").made(optimizer)


class Watch:
    """What the lint wants to be told of; None for what it does not.

    made(optimizer)             an optimiser was made
    step(optimizer, before)     it is about to take a step, or has taken one
    backward(tensors)           backward is about to start there
    read(node, number)          a Python number was read
    mode(module)                a layer that behaves differently while training trains without
                                gradients, or has gradients while not training
    dropped()                   dropout without gradients
    suspect                     something to be looked at in the next step, whichever optimiser's

    A slot is read once where it is tested and called: another thread may set it to None.
    """

    enabled = os.environ.get("LIVEGRAD_LINT", "").lower() not in ("off", "0", "no", "false")
    made: Callable[[Any], None] | None = _begin if enabled else None
    step: Callable[[Any, bool], None] | None = None
    backward: Callable[[Any], None] | None = None
    read: Callable[[Any, Any], None] | None = None
    mode: Callable[[Any], None] | None = None
    dropped: Callable[[], None] | None = None
    suspect: Any = None


# As Python keeps them per module: what the default filter has shown already.
_shown: dict[str, dict[Any, Any]] = {}


def warn(message: str, site: Site | None = None) -> None:
    """A TrainingWarning at a line of the user's program; by default the one that is running."""
    name, line = site_location(user_site() if site is None else site)
    registry = _shown.setdefault(name, {})
    warnings.warn_explicit(message, TrainingWarning, name, line or 1, registry=registry)
