"""What passes have in common."""

from __future__ import annotations

from livegrad.fx.passes.utils import matcher_utils as matcher_utils
