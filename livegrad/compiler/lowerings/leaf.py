"""Leaves: values that a plan reads, and does not compute."""

from __future__ import annotations

from livegrad.compiler.lowerings.base import Lowering


class Leaf(Lowering):
    """Nothing is done with them."""
