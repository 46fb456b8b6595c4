"""What is learnt beside a frozen model: low-rank changes of weights (LoRA), and adapters.

    LoRA      x ─► W x + B A x · alpha / r       A (r, in), B (out, r), which starts at 0
    adapter   y ─► y + up(gelu(down(y)))         of what a module gives; up starts at 0

Only what was added is trained, and saved: `added_state_dict`. Names of the model's own weights
stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from livegrad import nn
from livegrad.autograd import no_grad
from livegrad.creation import empty, zeros
from livegrad.nn import functional as F, init
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.tensor import Tensor

_ADDED = ("lora_A", "lora_B")


class LoRALinear(nn.Linear):
    """A Linear whose weight is frozen, and gets a change of rank `r`."""

    lora_A: Any  # noqa: N815  # the name of others, in files
    lora_B: Any  # noqa: N815

    @classmethod
    def from_linear(cls, layer: Any, r: int, alpha: float, dropout: float) -> LoRALinear:
        """Of a layer, whose weight and bias it shares."""
        made: Any = cls.__new__(cls)
        made.__setstate__(layer.__getstate__())
        made.r, made.alpha, made.lora_dropout = r, alpha, dropout
        dtype = layer.weight.dtype
        made.lora_A = Parameter(empty(r, layer.in_features, dtype=dtype))
        made.lora_B = Parameter(zeros(layer.out_features, r, dtype=dtype))
        init.kaiming_uniform_(made.lora_A, a=math.sqrt(5))
        return made  # type: ignore[no-any-return]

    def forward(self, input: Tensor) -> Tensor:
        """The layer's result, and that of the change."""
        x = F.dropout(input, self.lora_dropout, self.training) if self.lora_dropout else input
        change = F.linear(F.linear(x, self.lora_A), self.lora_B)
        out: Tensor = F.linear(input, self.weight, self.bias) + change * (self.alpha / self.r)
        return out

    def merged(self) -> nn.Linear:
        """An ordinary Linear with the change added to its weight."""
        biased = self.bias is not None
        layer = nn.Linear(self.in_features, self.out_features, biased, dtype=self.weight.dtype)
        with no_grad():
            change = (self.lora_B @ self.lora_A) * (self.alpha / self.r)
            layer.weight = Parameter((self.weight + change).detach(), self.weight.requires_grad)
        if biased:
            layer.bias = self.bias
        return layer.train(self.training)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{super().extra_repr()}, r={self.r}, alpha={self.alpha}"


def _chosen(name: str, targets: Iterable[str] | None) -> bool:
    """Whether a module is among the targets: its whole name, or the end of it."""
    if targets is None:
        return True
    return any([name == target or name.endswith(f".{target}") for target in targets])


def _targets(model: Module, targets: Iterable[str] | None, what: str) -> list[str]:
    wanted = None if targets is None else list(targets)
    found = [
        name
        for name, module in model.named_modules()
        if name and _chosen(name, wanted) and (wanted is not None or type(module) is nn.Linear)
    ]
    if not found:
        raise ValueError(f"{what}: no module of {type(model).__name__} is named by {wanted}")
    return found


def _put(model: Module, name: str, module: Module) -> None:
    above, _, last = name.rpartition(".")
    setattr(model.get_submodule(above), last, module)


def inject_lora(
    model: Module,
    targets: Iterable[str] | None = None,
    r: int = 8,
    alpha: float = 16,
    dropout: float = 0.0,
) -> Any:
    """Freezes `model`, and gives its Linear layers changes of rank `r`, in place.

    `targets` are names of layers, or how these end (`["query", "value"]`); by default all.
    """
    if r < 1:
        raise ValueError(f"inject_lora: got r={r}; expected 1 or more")
    names = _targets(model, targets, "inject_lora")
    for name in names:
        if not isinstance(model.get_submodule(name), nn.Linear):
            kind = type(model.get_submodule(name)).__name__
            raise TypeError(f"inject_lora: {name} is a {kind}; expected a Linear")
    model.requires_grad_(False)
    for name in names:
        layer = model.get_submodule(name)
        _put(model, name, LoRALinear.from_linear(layer, r, alpha, dropout))
    return model


def merge_lora(model: Module) -> Any:
    """Adds all changes to the weights, in place: ordinary layers again, as quick as before."""
    found = [name for name, m in model.named_modules() if isinstance(m, LoRALinear)]
    if isinstance(model, LoRALinear):
        return model.merged()
    for name in found:
        layer: Any = model.get_submodule(name)
        _put(model, name, layer.merged())
    return model


# ------------------------------------------------------------------------------------ adapters


class Adapter(Module):
    """A bottleneck beside the identity, which is what it starts as."""

    def __init__(self, width: int, bottleneck: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, bottleneck), nn.Linear(bottleneck, width)
        init.zeros_(self.up.weight)
        init.zeros_(self.up.bias)

    def forward(self, input: Tensor) -> Tensor:
        """`input` and what was learnt about it."""
        return input + self.up(F.gelu(self.down(input)))


class _Adapts:
    """A hook that gives what a module gave to its adapter."""

    def __call__(self, module: Any, inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (module.adapter(output[0]), *output[1:])
        return module.adapter(output)


def inject_adapters(
    model: Module, targets: Iterable[str], bottleneck: int = 16, width: int | None = None
) -> Any:
    """Freezes `model`, and lets what the modules `targets` give go through adapters, in place.

    `width` is the last dim of what they give; by default that of a Linear or a norm.
    """
    names = _targets(model, targets, "inject_adapters")
    widths = [width or _width(name, model.get_submodule(name)) for name in names]
    model.requires_grad_(False)
    for name, size in zip(names, widths, strict=True):
        module = model.get_submodule(name)
        module.add_module("adapter", Adapter(size, bottleneck))
        module.register_forward_hook(_Adapts())
    return model


def _width(name: str, module: Any) -> int:
    shape = getattr(module, "normalized_shape", None)
    found = getattr(module, "out_features", shape[-1] if shape else None)
    if found is None:
        raise ValueError(
            f"inject_adapters: how wide is what {name} ({type(module).__name__}) gives? Give width="
        )
    return int(found)


# ------------------------------------------------------------------------------ what was added


def is_added(name: str) -> bool:
    """Whether a name in a state dict is of what was added."""
    parts = name.split(".")
    return parts[-1] in _ADDED or "adapter" in parts


def added_state_dict(model: Module) -> dict[str, Any]:
    """The part of `model.state_dict()` that was added, to be saved by itself."""
    return {name: value for name, value in model.state_dict().items() if is_added(name)}


def load_added(model: Module, state: dict[str, Any]) -> Any:
    """Loads what was added into a model with the same additions."""
    wanted = set(added_state_dict(model))
    if wanted != set(state):
        missing, unknown = sorted(wanted - set(state)), sorted(set(state) - wanted)
        raise ValueError(
            f"load_added: missing {', '.join(missing) or 'nothing'}; unknown "
            f"{', '.join(unknown) or 'nothing'}. Inject the same additions first"
        )
    model.load_state_dict(state, strict=False)
    return model
