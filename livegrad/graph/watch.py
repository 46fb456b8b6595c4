"""The training lint before it is loaded: whether it is on, and how it warns; see `livegrad.lint`.

It is loaded when the first optimiser is made, and then listens to what it needs for a while.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from livegrad.graph.node import Site, site_location
from livegrad.graph.site import user_site


class TrainingWarning(UserWarning):
    """A likely mistake in a training program; `livegrad.lint` says which are found."""


class Watch:
    """Whether the lint is on; and something it wants to look at in the next step."""

    enabled = os.environ.get("LIVEGRAD_LINT", "").lower() not in ("off", "0", "no", "false")
    suspect: Any = None


# As Python keeps them per module: what the default filter has shown already.
_shown: dict[str, dict[Any, Any]] = {}


def warn(message: str, site: Site | None = None) -> None:
    """A TrainingWarning at a line of the user's program; by default the one that is running."""
    name, line = site_location(user_site() if site is None else site)
    registry = _shown.setdefault(name, {})
    warnings.warn_explicit(message, TrainingWarning, name, line or 1, registry=registry)
