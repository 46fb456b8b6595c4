"""Collectives that gradients go through: `torch.distributed.nn`."""

from __future__ import annotations

from livegrad.distributed.nn import functional as functional
from livegrad.distributed.nn.functional import *  # noqa: F403
