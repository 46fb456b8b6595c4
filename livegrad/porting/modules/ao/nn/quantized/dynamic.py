"""torch.ao.nn.quantized.dynamic: layers whose inputs are quantised as they come."""

from __future__ import annotations

from livegrad.compress.layers import Linear
from livegrad.compress.recurrent import GRU, LSTM

__all__ = ["GRU", "LSTM", "Linear"]
