"""torch.ao: quantisation is `livegrad.compress`, pruning by masks `livegrad.nn.utils.prune`."""

from __future__ import annotations

from livegrad import compress as quantization

__all__ = ["quantization"]
