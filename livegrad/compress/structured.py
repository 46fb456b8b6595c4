"""Structured pruning: neurons and channels are taken out, with what they are read by.

    conv1 (6 channels) ─► bn ─► relu ─► pool ─► conv2      the weakest two channels of conv1 go:
    conv1 (4 channels) ─► bn of 4 ──────────► conv2 of 4 inputs

Which layers read a layer's outputs is found by `livegrad.fx`. Outputs that meet others on their way
(a residual sum, a concatenation), or that something unknown reads, stay all.
"""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Iterable
from typing import Any

from livegrad import fx, nn
from livegrad.autograd import no_grad
from livegrad.creation import tensor
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.tensor import Tensor

CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
# What leaves channels apart.
_THROUGH = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Sigmoid, nn.Tanh, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Softplus, nn.Identity,
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d,
    nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d,
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d,
)  # fmt: skip
_FUNCTIONS = frozenset(
    "relu relu_ relu6 leaky_relu elu selu celu gelu silu mish sigmoid tanh hardtanh hardswish "
    "hardsigmoid softplus dropout dropout1d dropout2d dropout3d max_pool1d max_pool2d max_pool3d "
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d".split()
)


def prune_structured(
    model: Module,
    amount: float,
    n: float = 2,
    names: Iterable[str] | None = None,
    inplace: bool = False,
) -> Any:
    """`model` without the weakest outputs of its layers: a smaller model of ordinary layers.

    Args:
        amount: the share of each layer's outputs that goes, from 0 up to, not including, 1.
        n: weakness is the norm of this order of an output's weights.
        names: the layers; by default all whose outputs can be taken out.
        inplace: whether `model` itself is changed.
    """
    if not 0 <= amount < 1:
        raise ValueError(f"prune_structured: got amount={amount}; expected 0 <= amount < 1")
    model = model if inplace else copy.deepcopy(model)
    found = readers(model)
    chosen = list(found) if names is None else list(names)
    for name in chosen:
        if name not in found:
            raise ValueError(
                f"prune_structured: the outputs of {name!r} cannot be taken out; there are: "
                f"{', '.join(found) or 'none'}"
            )
    for name in chosen:
        layer = model.get_submodule(name)
        keep, before = strongest(layer, amount, n), layer.weight.shape[0]
        remove_outputs(layer, keep)
        for reader in found[name]:
            remove_inputs(model.get_submodule(reader), keep, before)
    return model


def strongest(layer: Any, amount: float, n: float = 2) -> Tensor:
    """The numbers, in order, of the outputs that stay: at least one."""
    with no_grad():
        strength = layer.weight.detach().flatten(1).norm(n, 1)
        gone = min(round(amount * len(strength)), len(strength) - 1)
        kept: Tensor = strength.argsort(stable=True)[gone:].sort()[0]
        return kept


# ---------------------------------------------------------------------------- who reads what


def readers(model: Module) -> dict[str, list[str]]:
    """By the name of each layer whose outputs can be taken out: the modules that read them."""
    try:
        graph = fx.symbolic_trace(model).graph
    except Exception as error:
        raise ValueError(
            f"prune_structured: {type(model).__name__} cannot be traced ({error}). Take outputs "
            "out of its layers by remove_outputs() and remove_inputs()"
        ) from None
    modules = dict(model.named_modules())
    layers = [(str(node.target), node) for node in graph.nodes if node.op == "call_module"]
    calls = Counter([name for name, _ in layers])
    found = {}
    for name, node in layers:
        if calls[name] == 1 and _has_outputs(modules[name]):
            names = _read_by(node, modules, calls)
            if names is not None:
                found[name] = names
    return found


def _has_outputs(layer: Any) -> bool:
    if type(layer) is nn.Linear:
        return True
    return type(layer) in CONVS and layer.groups == 1


def _read_by(node: Any, modules: dict[str, Module], calls: Counter[str]) -> list[str] | None:
    """The norms and layers that a layer's outputs reach; None if others see them."""
    names: list[str] = []
    waiting = list(node.users)
    while waiting:
        user = waiting.pop()
        if user.op == "call_module":
            module: Any = modules[user.target]
            if _has_outputs(module) or type(module) in NORMS:
                if calls[user.target] > 1:  # it reads others, too
                    return None
                names.append(user.target)
                if _has_outputs(module):
                    continue
            elif not isinstance(module, _THROUGH) and not _flattens(module):
                return None
        elif not _keeps_apart(user):
            return None
        if not user.users:
            return None
        waiting += list(user.users)
    layers = [name for name in names if _has_outputs(modules[name])]
    return names if layers else None


def _flattens(module: Any) -> bool:
    return isinstance(module, nn.Flatten) and module.start_dim == 1


def _keeps_apart(user: Any) -> bool:
    if user.op not in ("call_function", "call_method"):
        return False
    name = user.target if user.op == "call_method" else getattr(user.target, "__name__", "")
    if name == "flatten":
        start = user.args[1] if len(user.args) > 1 else user.kwargs.get("start_dim", 0)
        return bool(start == 1)
    if user.target in (operator.mul, operator.truediv):
        return all([isinstance(x, int | float) for x in user.args[1:]])
    return name in _FUNCTIONS


# ------------------------------------------------------------------------------- taking out


def remove_outputs(layer: Any, keep: Tensor) -> None:
    """Leaves a Linear or a convolution only the outputs with the numbers `keep`."""
    _take(layer, "weight", keep, 0)
    if layer.bias is not None:
        _take(layer, "bias", keep, 0)
    setattr(layer, "out_features" if isinstance(layer, nn.Linear) else "out_channels", len(keep))


def remove_inputs(layer: Any, keep: Tensor, channels: int | None = None) -> None:
    """Leaves a layer, or a batch norm, only what comes from the channels with the numbers `keep`.

    A Linear that reads flattened images has several inputs for each of so many `channels`.
    """
    if isinstance(layer, NORMS):
        for name in ("weight", "bias", "running_mean", "running_var"):
            if getattr(layer, name) is not None:
                _take(layer, name, keep, 0)
        layer.num_features = len(keep)
        return
    if isinstance(layer, nn.Linear):
        each = layer.in_features // (channels or layer.in_features)
        keep = (keep.unsqueeze(1) * each + tensor(list(range(each)))).flatten()
        layer.in_features = len(keep)
    else:
        layer.in_channels = len(keep)
    _take(layer, "weight", keep, 1)


def _take(layer: Any, name: str, keep: Tensor, dim: int) -> None:
    """Replaces a parameter or a buffer by some of its rows."""
    before = getattr(layer, name)
    with no_grad():
        after = before.detach().index_select(dim, keep)
    if isinstance(before, Parameter):
        setattr(layer, name, Parameter(after, before.requires_grad))
    else:
        setattr(layer, name, after)
