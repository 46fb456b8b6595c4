"""`torch.cpu`: the device that is always there."""

from __future__ import annotations

from livegrad.absent import NoContext, constants
from livegrad.porting.modules import cpu_amp as amp

__path__: list[str] = []


class Stream(NoContext):
    """Work runs in the order it was asked for."""


class Event(NoContext):
    """A mark in it: passed, as soon as it is made."""

    def query(self) -> bool:
        """True."""
        return True


class StreamContext(NoContext):
    """`with stream(s)`: nothing changes."""


stream = StreamContext
globals().update(
    constants(
        is_available=True, is_initialized=True, device_count=1, current_device="cpu",
        synchronize=None, set_device=None,
    )
)  # fmt: skip
__all__ = ["Event", "Stream", "StreamContext", "amp", "stream"]


def current_stream(device: object = None) -> Stream:
    """The only one."""
    return Stream()
