"""How the weights of networks start."""

from __future__ import annotations

import math

from livegrad import nn
from livegrad.nn import init


def kaiming(net: nn.Module, linear: float | None = None, mode: str = "fan_out") -> None:
    """Convolutions by the spread of ReLU networks, norms at 1 and 0, and no bias.

    Linear layers are normal with spread `linear`; None leaves them as they are.
    """
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            init.kaiming_normal_(layer.weight, mode=mode, nonlinearity="relu")
            if layer.bias is not None:
                init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d | nn.GroupNorm):
            init.ones_(layer.weight)
            init.zeros_(layer.bias)
        elif isinstance(layer, nn.Linear) and linear is not None:
            init.normal_(layer.weight, 0, linear)
            init.zeros_(layer.bias)


def truncated(net: nn.Module, spread: float) -> None:
    """Convolutions and linear layers normal, within ±2, by `spread` or the layer's `stddev`."""
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            std = float(getattr(layer, "stddev", spread))
            init.trunc_normal_(layer.weight, 0.0, std, -2, 2)
        elif isinstance(layer, nn.BatchNorm2d):
            init.ones_(layer.weight)
            init.zeros_(layer.bias)


def even_by_outputs(layer: nn.Linear) -> None:
    """A linear layer even in ±1 / sqrt(outputs), and no bias."""
    bound = 1.0 / math.sqrt(layer.out_features)
    init.uniform_(layer.weight, -bound, bound)
    init.zeros_(layer.bias)
