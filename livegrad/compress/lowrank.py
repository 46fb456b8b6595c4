"""Low-rank factorisation: a large matrix becomes the product of two thin ones.

    Linear(in, out)          ─► Linear(in, r), Linear(r, out)
    Conv2d(in, out, kernel)  ─► Conv2d(in, r, kernel), Conv2d(r, out, 1)

The two are the best of rank r, by the singular values of the weight.
"""

from __future__ import annotations

import copy
from typing import Any

from livegrad import linalg, nn
from livegrad.autograd import no_grad
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.tensor import Tensor


def factorize(
    model: Module,
    rank: float | None = None,
    energy: float | None = None,
    names: Any = None,
    inplace: bool = False,
) -> Any:
    """`model` with its Linear and Conv2d layers in two factors, where these are smaller.

    Args:
        rank: a number, or a share of the full rank if it is below 1.
        energy: instead: the share of the squares of singular values that is kept.
        names: the layers; by default all that become smaller.
        inplace: whether `model` itself is changed.
    """
    if (rank is None) == (energy is None):
        raise ValueError("factorize: give either rank= or energy=")
    if energy is not None and not 0 < energy <= 1:
        raise ValueError(f"factorize: got energy={energy}; expected 0 < energy <= 1")
    if rank is not None and rank <= 0:
        raise ValueError(f"factorize: got rank={rank}; expected more than 0")
    model = model if inplace else copy.deepcopy(model)
    wanted = None if names is None else set(names)
    modules = dict(model.named_modules())
    unknown = sorted((wanted or set()) - set(modules))
    if unknown:
        raise ValueError(f"factorize: no module is named {', '.join(unknown)}")
    if type(model) in (nn.Linear, nn.Conv2d):
        return _factors(model, rank, energy) or model
    for name, layer in modules.items():
        if type(layer) in (nn.Linear, nn.Conv2d) and (wanted is None or name in wanted):
            made = _factors(layer, rank, energy)
            if made is not None:
                above, _, last = name.rpartition(".")
                setattr(model.get_submodule(above), last, made.train(layer.training))
    return model


def _factors(layer: Any, rank: float | None, energy: float | None) -> Module | None:
    """Both layers; None if they would not be smaller."""
    if isinstance(layer, nn.Conv2d) and (layer.groups != 1 or layer.padding_mode != "zeros"):
        return None
    with no_grad():
        matrix = layer.weight.detach().flatten(1).float()
        left, values, right = linalg.svd(matrix, full_matrices=False)
        r = _rank(values, rank, energy)
        rows, columns = matrix.shape
        if r * (rows + columns) >= rows * columns:
            return None
        root = values[:r].sqrt()
        first, second = root.unsqueeze(1) * right[:r], left[:, :r] * root
    return (
        _linear(layer, first, second)
        if isinstance(layer, nn.Linear)
        else _conv(layer, first, second)
    )


def _rank(values: Tensor, rank: float | None, energy: float | None) -> int:
    if energy is not None:
        share = values.square().cumsum(0) / values.square().sum().clamp(min=1e-30)
        return int((share < energy - 1e-7).sum().item()) + 1
    assert rank is not None
    wanted = rank if rank >= 1 else rank * len(values)
    return max(1, min(int(wanted), len(values)))


def _linear(layer: Any, first: Tensor, second: Tensor) -> Module:
    down = nn.Linear(layer.in_features, len(first), False, dtype=layer.weight.dtype)
    up = nn.Linear(len(first), layer.out_features, layer.bias is not None, dtype=down.weight.dtype)
    return _filled(layer, down, up, first, second)


def _conv(layer: Any, first: Tensor, second: Tensor) -> Module:
    down = nn.Conv2d(
        layer.in_channels, len(first), layer.kernel_size, layer.stride, layer.padding,
        layer.dilation, bias=False, dtype=layer.weight.dtype,
    )  # fmt: skip
    up = nn.Conv2d(len(first), layer.out_channels, 1, bias=layer.bias is not None)
    return _filled(layer, down, up, first, second)


def _filled(layer: Any, down: Any, up: Any, first: Tensor, second: Tensor) -> Module:
    learns = layer.weight.requires_grad
    down.weight = Parameter(first.reshape(down.weight.shape).to(layer.weight.dtype), learns)
    up.weight = Parameter(second.reshape(up.weight.shape).to(layer.weight.dtype), learns)
    if layer.bias is not None:
        up.bias = layer.bias
    return nn.Sequential(down, up)
