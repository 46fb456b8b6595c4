"""torch.ao.nn: layers of int8 weights, and those that learn to be so."""

from __future__ import annotations

from livegrad.compress import qat

__all__ = ["qat"]
