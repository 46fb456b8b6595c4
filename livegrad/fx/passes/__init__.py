"""Passes over graphs."""

from __future__ import annotations

from livegrad.fx.passes import shape_prop as shape_prop, utils as utils
