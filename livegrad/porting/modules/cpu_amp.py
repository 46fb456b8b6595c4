"""`torch.cpu.amp`: the old names, without an argument for the device."""

from __future__ import annotations

from livegrad import amp, dtypes
from livegrad.amp import GradScaler as GradScaler
from livegrad.dtypes import DType


class autocast(amp.autocast):
    """`amp.autocast("cpu", …)`."""

    def __init__(
        self, enabled: bool = True, dtype: DType = dtypes.bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)
