"""`torch._inductor`: settings of a compiler that is not here. They are kept, without effect."""

from __future__ import annotations

from livegrad.porting.modules.switches import switches

__path__: list[str] = []
config = switches(f"{__name__}.config")
