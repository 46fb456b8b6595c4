"""The training lint before it is loaded: whether it is on, and how it warns; see `livegrad.lint`.

It is loaded when the first optimiser is made, and then listens to what it needs for a while.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from livegrad.graph.node import Site, site_location
from livegrad.graph.site import user_site
from livegrad.native.hot import hot_slots


class TrainingWarning(UserWarning):
    """A likely mistake in a training program; `livegrad.lint` says which are found."""


_OFF = ("off", "0", "no", "false")


class Watch:
    """Whether the lint is on; and something it wants to look at in the next step."""

    enabled = os.environ.get("LIVEGRAD_LINT", "").lower() not in _OFF
    suspect: Any = None


@hot_slots
class _Blaming:
    """Whether the package looks for values that are not finite: see `livegrad.debug.blaming`.

    `enabled` ends with the first that was told of. `reads` says that numbers which are read are
    looked at, too: an optimiser has taken a step. `optimizer` is the one that takes a step now:
    its gradients are asked about with the updates that the thread of `state` records, and
    `knows_loss` says that one of these asks about the loss. `asked` is where what is pending ended
    when that had been asked before the step. `untold` is what was found, to be said when the step
    is over.
    """

    __slots__ = ("asked", "enabled", "knows_loss", "optimizer", "reads", "state", "untold")

    def __init__(self) -> None:
        self.enabled = os.environ.get("LIVEGRAD_BLAME", "").lower() not in _OFF
        self.reads = False
        self.knows_loss = False
        self.optimizer: Any = None
        self.state: Any = None
        self.asked = -1
        self.untold: Any = None


BLAMING = _Blaming()

# As Python keeps them per module: what the default filter has shown already.
_shown: dict[str, dict[Any, Any]] = {}


def warn(message: str, site: Site | None = None) -> None:
    """A TrainingWarning at a line of the user's program; by default the one that is running."""
    name, line = site_location(user_site() if site is None else site)
    registry = _shown.setdefault(name, {})
    warnings.warn_explicit(message, TrainingWarning, name, line or 1, registry=registry)
