"""What is observed of activations and of weights, under PyTorch's names."""

from __future__ import annotations

from typing import Any, NamedTuple

from livegrad.compress.fake_quantize import (
    default_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
)
from livegrad.compress.observers import (
    HistogramObserver,
    MinMaxObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
)
from livegrad.compress.schemes import per_channel_symmetric, per_tensor_symmetric, qint8, quint8

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_weight_observer = MinMaxObserver.with_args(dtype=qint8, qscheme=per_tensor_symmetric)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric
)
default_histogram_observer = HistogramObserver.with_args(dtype=quint8)
default_dynamic_quant_observer = PlaceholderObserver.with_args(dtype=quint8, is_dynamic=True)


class QConfig(NamedTuple):
    """How a layer is quantised: what makes the observers of its input and of its weight."""

    activation: Any
    weight: Any


default_qconfig = QConfig(MinMaxObserver.with_args(dtype=quint8), default_weight_observer)
default_per_channel_qconfig = QConfig(
    MinMaxObserver.with_args(dtype=quint8), default_per_channel_weight_observer
)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    default_dynamic_quant_observer, default_per_channel_weight_observer
)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
float_qparams_weight_only_qconfig = QConfig(PlaceholderObserver, PerChannelMinMaxObserver)

_BACKENDS = ("x86", "fbgemm", "qnnpack", "onednn")


def _check_backend(backend: str) -> None:
    if backend not in _BACKENDS:
        raise ValueError(
            f"get_default_qconfig: got backend {backend!r}; expected one of {', '.join(_BACKENDS)}"
        )


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """Histograms of activations, and weights channel by channel; the same for every backend."""
    _check_backend(backend)
    return QConfig(default_histogram_observer, default_per_channel_weight_observer)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """Moving averages of activations, and weights channel by channel."""
    _check_backend(backend)
    return QConfig(default_fake_quant, default_per_channel_weight_fake_quant)
