"""`fully_shard`: a module whose parameters are DTensors; with one process, each is whole here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from livegrad.distributed.device_mesh import DeviceMesh, init_device_mesh
from livegrad.distributed.fsdp.precision import (
    cast_floats,
    cast_parameters,
    cast_within,
    put_back,
)
from livegrad.distributed.tensor.placed import ShardedParameter, mark
from livegrad.distributed.tensor.placement_types import Shard
from livegrad.dtypes import DType
from livegrad.nn.container import ModuleDict, ModuleList
from livegrad.nn.module import Module


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Types of parameters while a module is called, of what is summed, and of what comes out."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None  # with one process, nothing is summed
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parameters stay where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters are kept on the CPU: there is nothing else."""

    pin_memory: bool = True


class UnshardHandle:
    """What `unshard(async_op=True)` gives: it is done already."""

    def wait(self) -> None:
        """Waits until parameters are whole."""


class FSDPModule:
    """What a module is besides its own class, after `fully_shard`."""

    _fsdp_policy: MixedPrecisionPolicy
    _fsdp_modules: list[Module]
    _fsdp_before: list[tuple[Module, str, Any]] | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module, with parameters and inputs of the types that the policy says."""
        policy = self._fsdp_policy
        if policy.cast_forward_inputs:
            args = cast_floats(args, policy.param_dtype)
            kwargs = cast_floats(kwargs, policy.param_dtype)
        with cast_within(self._fsdp_modules, policy.param_dtype):
            out = super().__call__(*args, **kwargs)  # type: ignore[misc]
        return cast_floats(out, policy.output_dtype)

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Parameters become whole, of the type that the policy says, until `reshard`."""
        dtype = self._fsdp_policy.param_dtype
        if dtype is not None and self._fsdp_before is None:
            self._fsdp_before = cast_parameters(self._fsdp_modules, dtype)
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Undoes `unshard`."""
        put_back(self._fsdp_before or [])
        self._fsdp_before = None

    # What follows says when and how processes exchange parts: one process exchanges none.

    def set_requires_gradient_sync(self, requires: bool, *, recurse: bool = True) -> None:
        """Whether backward passes sum gradients over all processes."""

    def set_requires_all_reduce(self, requires: bool, *, recurse: bool = True) -> None:
        """Whether backward passes sum gradients over copies of the mesh."""

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether the next backward pass is the last of a step."""

    def set_reshard_after_forward(self, reshard: bool, recurse: bool = True) -> None:
        """Whether calls end with parts."""

    def set_reshard_after_backward(self, reshard: bool, *, recurse: bool = True) -> None:
        """Whether backward passes end with parts."""

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Modules whose parameters are collected early, in calls."""
        _check_sharded(modules)

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Modules whose parameters are collected early, in backward passes."""
        _check_sharded(modules)

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether backward passes collect parameters."""

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What sums of gradients are divided by, of more than one process."""

    def set_post_optim_event(self, event: Any) -> None:
        """What the next call waits for."""

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Loads; parameters that were exchanged (`assign=True`) are sharded again."""
        found = super().load_state_dict(*args, **kwargs)  # type: ignore[misc]
        for module in self.modules():  # type: ignore[attr-defined]
            if isinstance(module, FSDPModule):
                module._fsdp_shard()
        return found

    def _fsdp_shard(self) -> None:
        """Marks the parameters that are not marked yet."""


def _check_sharded(modules: Any) -> None:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"expects FSDPModules, on which fully_shard was called; got {module}")


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # it is frozen
    offload_policy: OffloadPolicy = OffloadPolicy(),  # noqa: B008  # it has no state
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Spreads the parameters of a module, or of a list of modules, over the processes of a mesh.

    Those of modules in it that are spread already stay with them. The module stays the same
    object; its class becomes one that is an FSDPModule, too.
    """
    if isinstance(module, ModuleList | ModuleDict):
        raise ValueError(
            f"fully_shard does not support containers that do not implement forward: {module}"
        )
    grid = init_device_mesh("cpu", (1,)) if mesh is None else mesh
    parts = [module] if isinstance(module, Module) else list(module)
    ignored = {id(p) for p in ignored_params or ()}

    for part in parts:
        if isinstance(part, FSDPModule):
            raise AssertionError(f"fully_shard was called on {type(part).__name__} already")
        owned = _owned(part)

        def shard(owned: list[Module] = owned) -> None:
            for p in {id(p): p for m in owned for p in m._parameters.values()}.values():
                if p is None or id(p) in ignored or isinstance(p, ShardedParameter):
                    continue
                where = shard_placement_fn(p) if shard_placement_fn is not None else None
                mark(p, grid, [where or Shard(0)] * grid.ndim)

        shard()
        cls = type(part)
        part.__class__ = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": __name__})
        own = part.__dict__
        own.update(_fsdp_policy=mp_policy, _fsdp_modules=owned, _fsdp_before=None)
        own["_fsdp_shard"] = shard
    return module


def _owned(module: Module) -> list[Module]:
    """The module and those in it, without what is sharded already."""
    found = [module]
    for child in module.children():
        if not isinstance(child, FSDPModule):
            found += _owned(child)
    return found


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Has another method do what a call does: parameters are of the policy's types in it."""
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name)

    def called(*args: Any, **kwargs: Any) -> Any:
        with cast_within(module._fsdp_modules, module._fsdp_policy.param_dtype):
            return method(*args, **kwargs)

    module.__dict__[method_name] = called
