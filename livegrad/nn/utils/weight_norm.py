"""weight_norm by a hook, as PyTorch had it before parametrizations."""

from __future__ import annotations

from typing import Any

from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.ops.reductions.statistics import norm
from livegrad.tensor import Tensor


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dims but `dim`, which is kept; over all for -1."""
    if dim == -1:
        return norm(v, pow)
    rest = tuple([d for d in range(v.ndim) if d != dim % v.ndim])
    return norm(v, pow, rest, True) if rest else v.abs()


class WeightNorm:
    """A forward hook that computes a weight from its length `_g` and its direction `_v`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        """The weight."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, 2, self.dim))

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        """Adds the hook to a module, whose weight becomes two parameters."""
        for other in module._forward_pre_hooks.values():
            if isinstance(other, WeightNorm) and other.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        del module._parameters[name]
        module.register_parameter(
            name + "_g", Parameter(norm_except_dim(weight, 2, hook.dim).detach())
        )
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Any) -> None:
        """Makes the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Module:
    """Learns length and direction of a weight apart, as parameters `weight_g` and `weight_v`.

    `livegrad.nn.utils.parametrizations.weight_norm` is the newer form.
    """
    WeightNorm.apply(module, name, dim)
    return module  # type: ignore[no-any-return]


def remove_weight_norm(module: Any, name: str = "weight") -> Module:
    """Undoes `weight_norm`."""
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module  # type: ignore[no-any-return]
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
