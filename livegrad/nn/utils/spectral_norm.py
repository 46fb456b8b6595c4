"""spectral_norm by a hook, as PyTorch had it before parametrizations."""

from __future__ import annotations

from typing import Any

from livegrad.autograd import no_grad
from livegrad.linalg import multi_dot, pinv
from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.nn.utils.parametrizations import is_transposed
from livegrad.ops.making.random import randn
from livegrad.ops.products.matmul import dot, mv


class SpectralNorm:
    """A forward hook that divides `weight_orig` by its largest singular value.

    `weight_u` and `weight_v` are the singular vectors that power iteration has found so far.
    """

    _version = 1

    def __init__(
        self,
        name: str = "weight",
        n_power_iterations: int = 1,
        dim: int = 0,
        eps: float = 1e-12,
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """The weight as a matrix whose rows are along `dim`."""
        if self.dim:
            weight = weight.movedim(self.dim, 0)
        return weight.reshape(weight.shape[0], -1)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """The weight with the largest singular value 1."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                plain = matrix.detach()
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(mv(plain.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(mv(plain, v), dim=0, eps=self.eps))
        return weight / dot(u.clone(), mv(matrix, v.clone()))

    def remove(self, module: Any) -> None:
        """Makes the weight, divided once more, a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, False)
        delattr(module, self.name)
        for end in ("_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(
        module: Any, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Adds the hook to a module."""
        for other in module._forward_pre_hooks.values():
            if isinstance(other, SpectralNorm) and other.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters.get(name)
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        rows, columns = hook.reshape_weight_to_matrix(weight).shape
        u, v = [F.normalize(randn(n, dtype=weight.dtype), dim=0, eps=eps) for n in (rows, columns)]
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # An attribute, so that it can be read; every call of the module computes it anew.
        setattr(module, name, weight.detach().clone())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        module.register_load_state_dict_pre_hook(hook._load_old)
        module.register_state_dict_post_hook(hook._note_version)
        return hook

    def _note_version(
        self, module: Any, state: Any, prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        versions[self.name + ".version"] = self._version

    def _load_old(
        self,
        module: Any,
        state: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        *rest: Any,
    ) -> None:
        """Before version 1, `weight` was saved and `weight_v` was not."""
        version = local_metadata.get("spectral_norm", {}).get(self.name + ".version")
        key = prefix + self.name
        wanted = (key + "_orig", key, key + "_u")
        if version is not None or key + "_v" in state or not all(k in state for k in wanted):
            return
        with no_grad():
            original, weight = state[key + "_orig"], state.pop(key)
            sigma = (original / weight).mean()
            matrix = self.reshape_weight_to_matrix(original)
            u = state[key + "_u"]
            found = multi_dot([pinv(matrix.t() @ matrix), matrix.t(), u.unsqueeze(1)]).squeeze(1)
            state[key + "_v"] = found * (sigma / dot(u, mv(matrix, found)))


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Keeps the largest singular value of a weight at 1.

    `livegrad.nn.utils.parametrizations.spectral_norm` is the newer form.
    """
    if dim is None:
        dim = 1 if is_transposed(module) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module  # type: ignore[no-any-return]


def remove_spectral_norm(module: Any, name: str = "weight") -> Module:
    """Undoes `spectral_norm`."""
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            for hooks in (module._load_state_dict_pre_hooks, module._state_dict_hooks):
                for key, other in list(hooks.items()):
                    if getattr(other, "__self__", None) is hook:
                        del hooks[key]
            return module  # type: ignore[no-any-return]
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
