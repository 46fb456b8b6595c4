"""Widths that machines like, and layers read inside a network."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from livegrad import Tensor, nn


def make_divisible(value: float, divisor: int = 8, least: int | None = None) -> int:
    """The multiple of `divisor` nearest to a width, and no more than a tenth below it."""
    found = max(least or divisor, int(value + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * value else found


class IntermediateLayerGetter(nn.ModuleDict):
    """A network up to the last layer asked for; gives what the layers of `return_layers` make.

    `return_layers` maps names of its direct children to names of results.
    """

    def __init__(self, model: nn.Module, return_layers: Mapping[str, str]) -> None:
        wanted = {str(name): str(result) for name, result in return_layers.items()}
        children = OrderedDict(model.named_children())
        if not set(wanted) <= set(children):
            raise ValueError("return_layers are not present in model")
        last = max(list(children).index(name) for name in wanted)
        super().__init__(OrderedDict(list(children.items())[: last + 1]))
        self.return_layers = wanted

    def forward(self, x: Tensor) -> Any:
        """Results by their names."""
        found: OrderedDict[str, Tensor] = OrderedDict()
        for name, layer in self.items():
            x = layer(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found


_make_divisible = make_divisible  # torchvision's name
