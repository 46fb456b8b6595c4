"""Feature pyramids: maps of several sizes, each told what the coarser ones have seen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import livegrad.nn.functional as F
from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.vision.ops.misc import Conv2dNormActivation


class ExtraFPNBlock(nn.Module):
    """Adds maps to a pyramid."""

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        """The pyramid's maps and names, with more at the end."""
        raise NotImplementedError


class LastLevelMaxPool(ExtraFPNBlock):
    """Every second pixel of the coarsest map."""

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        """One more map, "pool"."""
        return [*results, F.max_pool2d(results[-1], 1, 2, 0)], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Two more maps, by convolutions."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        for layer in (self.p6, self.p7):
            init.kaiming_uniform_(layer.weight, a=1)
            init.zeros_(layer.bias)
        self.use_P5 = in_channels == out_channels

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        """Two more maps, "p6" and "p7"."""
        p6 = self.p6(results[-1] if self.use_P5 else x[-1])
        return [*results, p6, self.p7(F.relu(p6))], [*names, "p6", "p7"]


class FeaturePyramidNetwork(nn.Module):
    """Maps of a dict, finest first, as maps of `out_channels`."""

    _version = 2

    def __init__(
        self,
        in_channels_list: Sequence[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if 0 in in_channels_list:
            raise ValueError("in_channels=0 is currently not supported")
        options: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": None}
        self.inner_blocks = nn.ModuleList(
            Conv2dNormActivation(width, out_channels, 1, padding=0, **options)
            for width in in_channels_list
        )
        self.layer_blocks = nn.ModuleList(
            Conv2dNormActivation(out_channels, out_channels, 3, **options) for _ in in_channels_list
        )
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                init.kaiming_uniform_(layer.weight, a=1)
                if layer.bias is not None:
                    init.zeros_(layer.bias)
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError(
                f"extra_blocks should be of type ExtraFPNBlock not {type(extra_blocks)}"
            )
        self.extra_blocks = extra_blocks

    def _load_from_state_dict(
        self, state: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if (local_metadata.get("version") or 1) < 2:  # convolutions had no block around them
            for name in ("inner_blocks", "layer_blocks"):
                for i in range(len(self.inner_blocks)):
                    for kind in ("weight", "bias"):
                        old = f"{prefix}{name}.{i}.{kind}"
                        if old in state:
                            state[f"{prefix}{name}.{i}.0.{kind}"] = state.pop(old)
        super()._load_from_state_dict(state, prefix, local_metadata, *rest)

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        """The pyramid, under the same names."""
        names, maps = list(x), list(x.values())
        last: Tensor | None = None
        results: list[Tensor] = []
        for value, inner, layer in reversed(
            list(zip(maps, self.inner_blocks, self.layer_blocks, strict=True))
        ):
            side = inner(value)
            if last is not None:
                side = side + F.interpolate(last, size=side.shape[-2:], mode="nearest")
            last = side
            results.insert(0, layer(side))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results, strict=True))
