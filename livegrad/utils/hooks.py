"""`torch.utils.hooks`."""

from __future__ import annotations

from livegrad.autograd.hooks import RemovableHandle as RemovableHandle
