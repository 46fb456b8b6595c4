"""Passes of which PyTorch says that they may change."""

from __future__ import annotations

from livegrad.fx.experimental import optimization as optimization
