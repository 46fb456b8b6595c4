"""Signal processing: the windows of `torch.signal`."""

from __future__ import annotations

from livegrad.signal import windows as windows
