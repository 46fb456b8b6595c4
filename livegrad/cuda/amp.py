"""`torch.cuda.amp`: the old names, without an argument for the device. There is no GPU: off."""

from __future__ import annotations

import warnings

from livegrad import amp, dtypes
from livegrad.amp.custom import custom_bwd as custom_bwd, custom_fwd as custom_fwd
from livegrad.dtypes import DType

__path__: list[str] = []  # so that `torch.cuda.amp.grad_scaler` is found


class autocast(amp.autocast):
    """`amp.autocast("cuda", …)`: off, because no tensor is on a GPU; on the CPU say "cpu"."""

    def __init__(
        self, enabled: bool = True, dtype: DType = dtypes.float16, cache_enabled: bool = True
    ) -> None:
        if enabled:
            warnings.warn("there is no GPU; autocast for it is off", stacklevel=2)
        super().__init__("cuda", dtype, False, cache_enabled)


class GradScaler(amp.GradScaler):
    """`amp.GradScaler("cuda", …)`: off, because no tensor is on a GPU."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled:
            warnings.warn("there is no GPU; GradScaler for it is off", stacklevel=2)
        numbers = (init_scale, growth_factor, backoff_factor, growth_interval)
        super().__init__("cuda", *numbers, enabled=False)


def amp_definitely_not_available() -> bool:
    """True: there is no GPU."""
    return True
