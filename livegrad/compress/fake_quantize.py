"""Modules that round values as quantised layers will, while a model learns."""

from __future__ import annotations

from typing import Any

from livegrad.compress.observers import (
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    With,
)
from livegrad.compress.schemes import per_channel_symmetric, per_tensor_symmetric, qint8, quint8
from livegrad.creation import tensor
from livegrad.nn.module import Module
from livegrad.ops.layers.fake_quantize import (
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
)
from livegrad.tensor import Tensor


class FakeQuantizeBase(With, Module):
    """Can be told to look at values, and to round them, or not."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", tensor([1]))
        self.register_buffer("observer_enabled", tensor([1]))
        self._looks = self._rounds = True

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Rounds from now on."""
        self._rounds = enabled
        self.fake_quant_enabled = tensor([int(enabled)])

    def disable_fake_quant(self) -> None:
        """Gives values back as they are."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Looks at values from now on."""
        self._looks = enabled
        self.observer_enabled = tensor([int(enabled)])

    def disable_observer(self) -> None:
        """The steps stay what they are."""
        self.enable_observer(False)

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._rounds = bool(self.fake_quant_enabled.item())
        self._looks = bool(self.observer_enabled.item())


class FakeQuantize(FakeQuantizeBase):
    """An observer, and values rounded to the steps that it finds; gradients go straight through."""

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        more = {} if quant_min is None else {"quant_min": quant_min, "quant_max": quant_max}
        self.activation_post_process = observer(**observer_kwargs, **more)
        found = self.activation_post_process
        self.quant_min, self.quant_max = found.quant_min, found.quant_max
        self.dtype, self.qscheme, self.ch_axis = found.dtype, found.qscheme, found.ch_axis

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point."""
        found: tuple[Tensor, Tensor] = self.activation_post_process.calculate_qparams()
        return found

    def forward(self, X: Tensor) -> Tensor:
        """Values rounded, as far as that is wanted."""
        if self._looks:
            self.activation_post_process(X.detach())
        if not self._rounds:
            return X
        scale, zero = self.calculate_qparams()
        bounds = self.quant_min, self.quant_max
        if self.qscheme.per_channel:
            return fake_quantize_per_channel_affine(X, scale, zero, self.ch_axis, *bounds)
        return fake_quantize_per_tensor_affine(X, scale, zero, *bounds)


default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8
)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, averaging_constant=1.0, quant_min=-128, quant_max=127,
    dtype=qint8, qscheme=per_tensor_symmetric,
)  # fmt: skip
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, averaging_constant=1.0, quant_min=-128,
    quant_max=127, dtype=qint8, qscheme=per_channel_symmetric, ch_axis=0,
)  # fmt: skip


def _each(method: str) -> Any:
    def change(module: Any) -> None:
        if isinstance(module, FakeQuantizeBase):
            getattr(module, method)()

    change.__doc__ = f"For `model.apply`: `{method}()` of what rounds or looks at values."
    return change


enable_fake_quant, disable_fake_quant = _each("enable_fake_quant"), _each("disable_fake_quant")
enable_observer, disable_observer = _each("enable_observer"), _each("disable_observer")
