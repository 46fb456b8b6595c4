"""Tensors that lie on the processes of a mesh: `torch.distributed.tensor`, for one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad import creation
from livegrad.distributed.device_mesh import (
    DeviceMesh as DeviceMesh,
    current_mesh,
    init_device_mesh as init_device_mesh,
)
from livegrad.distributed.tensor.placed import DTensor as DTensor, ShardedParameter, mark, placed
from livegrad.distributed.tensor.placement_types import (
    Partial as Partial,
    Placement as Placement,
    Replicate as Replicate,
    Shard as Shard,
)
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.ops.making import random
from livegrad.tensor import Tensor


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A leaf of the values of `tensor`, which lies on a mesh: by default, whole on each process."""
    mesh = current_mesh(device_mesh)
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf "
            "tensor!"
        )
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(f"Cannot distribute a DTensor with device mesh {tensor.device_mesh}")
        return tensor
    out = placed(tensor.detach(), mesh, placements or [Replicate()] * mesh.ndim)
    return out.requires_grad_(tensor.requires_grad)


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """A module whose parameters lie on a mesh, as `partition_fn(name, module, mesh)` has set them.

    Those that it leaves are whole on each process. `input_fn(module, inputs, mesh)` and
    `output_fn(module, outputs, mesh)` change what goes in and comes out.
    """
    mesh = current_mesh(device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, value in list(part._parameters.items()):
            if value is not None and not isinstance(value, DTensor):
                mark(value, mesh, [Replicate()] * mesh.ndim)
            elif type(value) is DTensor:
                part._parameters[key] = _as_parameter(value)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    return module


def _as_parameter(value: DTensor) -> Any:
    """A DTensor that was put in a module, as a parameter that lies as it does."""
    out = Parameter(value.to_local(), value.requires_grad)
    mark(out, value.device_mesh, value.placements)
    return out


def _making(make: Callable[..., Any]) -> Callable[..., DTensor]:
    """A function that makes tensors, on a mesh."""

    def made(
        *size: Any,
        requires_grad: bool = False,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        **options: Any,
    ) -> DTensor:
        mesh = current_mesh(device_mesh)
        out = placed(make(*size, **options), mesh, placements or [Replicate()] * mesh.ndim)
        return out.requires_grad_(requires_grad)

    made.__doc__ = f"`{make.__name__}`, on a mesh."
    made.__name__ = make.__name__
    return made


empty, full, ones, zeros = (
    _making(make) for make in (creation.empty, creation.full, creation.ones, creation.zeros)
)
rand, randn = _making(random.rand), _making(random.randn)


__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "ShardedParameter",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]
