"""A lint for training: it watches the first steps of every optimiser, and warns of likely mistakes.

It is on by default, costs a little during the first steps and nothing worth mentioning afterwards.
A warning comes once, with the line of your program: a `TrainingWarning`.

    livegrad.lint.disable()              or LIVEGRAD_LINT=off in the environment: no warnings
    livegrad.lint.disable("zero-grad")   all but this one
    livegrad.lint.RULES                  what is found, by name
"""

from __future__ import annotations

from livegrad.graph.watch import TrainingWarning
from livegrad.lint.rules import RULES, disable, enable, is_enabled, reset

__all__ = ["RULES", "TrainingWarning", "disable", "enable", "is_enabled", "reset"]
