"""torch.ao.nn.quantized: layers of int8 weights."""

from __future__ import annotations

from livegrad.compress.layers import Conv1d, Conv2d, Conv3d, Embedding, Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "Linear"]
