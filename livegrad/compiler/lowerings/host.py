"""Ops that run their NumPy reference inside the plan."""

from __future__ import annotations

from livegrad.compiler.lowerings.base import Kernel


class Host(Kernel):
    """A kernel without a template."""
