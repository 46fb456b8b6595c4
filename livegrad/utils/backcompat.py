"""`torch.utils.backcompat`: warnings about code of before 2017, which old programs switch on."""

from __future__ import annotations


class _Warning:
    """A switch that is kept, and warns of nothing."""

    enabled = False


broadcast_warning = _Warning()
keepdim_warning = _Warning()
