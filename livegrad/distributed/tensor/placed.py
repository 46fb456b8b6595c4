"""Tensors that say how they lie on a mesh: DTensor, and parameters of sharded modules.

With one process the part that is here is all of the tensor, whatever the placement. So nothing is
moved or summed: a placement is what the program has said, and is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from livegrad.distributed.device_mesh import DeviceMesh, current_mesh
from livegrad.distributed.tensor.placement_types import Placement, Replicate, Shard
from livegrad.graph.above import Above
from livegrad.nn.parameter import Parameter
from livegrad.tensor import Tensor


class Placed(Tensor):
    """What DTensors and parameters of sharded modules have in common."""

    __slots__ = ()

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes it lies on."""
        return self.__dict__["_mesh"]  # type: ignore[no-any-return]

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies on them, for each dim of the mesh."""
        return self.__dict__["_placements"]  # type: ignore[no-any-return]

    def to_local(self, *, grad_placements: Any = None) -> Tensor:
        """The part of this process, which is all of it, as an ordinary tensor."""
        return _plain(self)

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """All of it, as an ordinary tensor."""
        return _plain(self)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """The same values, placed otherwise."""
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        mesh = self.device_mesh if device_mesh is None else device_mesh
        plain = _plain(self)
        return placed(plain if forward_dtype is None else plain.to(forward_dtype), mesh, placements)


class _Kind(type(Tensor)):  # type: ignore[misc]
    """The class of DTensor: parameters of sharded modules are instances of it, too."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Placed) if cls is DTensor else type.__instancecheck__(cls, x)


class DTensor(Placed, metaclass=_Kind):
    """A tensor that lies on the processes of a mesh; what is computed from it does so as well."""

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Results lie on the mesh of the first DTensor: as it does, if they are of its shape."""
        overrides = Above.overrides()
        first = next(x for x in _flat((args, kwargs)) if type(x) is DTensor)
        with overrides.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            if func in overrides.get_default_nowrap_functions():
                return result
            return _spread(result, first)

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Any = None,
    ) -> DTensor:
        """The tensor whose part here is `local_tensor`: with one process, that is all of it."""
        mesh = current_mesh(device_mesh)
        if type(local_tensor) is DTensor:
            raise RuntimeError(
                "the local_tensor argument only accepts torch.Tensor but got DTensor"
            )
        return placed(local_tensor, mesh, placements or [Replicate()] * mesh.ndim)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        where = ", ".join(map(repr, self.placements))
        return (
            f"DTensor(local_tensor={_plain(self)!r}, device_mesh={self.device_mesh}, "
            f"placements=({where}{',' if len(self.placements) == 1 else ''}))"
        )

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuilt, (_plain(self), self.device_mesh, self.placements)


def _rebuilt(plain: Tensor, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> DTensor:
    return placed(plain, mesh, placements)


class ShardedParameter(Placed, Parameter):
    """A parameter of a sharded module: a DTensor to look at, an ordinary one to compute with."""

    __slots__ = ()

    def detach(self) -> Any:
        """Its values, which lie as it does: what a state dict has."""
        return placed(Parameter.detach(self), self.device_mesh, self.placements)


def mark(parameter: Any, mesh: DeviceMesh, placements: Sequence[Placement]) -> None:
    """Makes an ordinary parameter one of a sharded module; it stays the same object."""
    parameter.__class__ = ShardedParameter
    parameter.__dict__.update(_mesh=mesh, _placements=tuple(placements))


def _plain(x: Any) -> Tensor:
    with Above.overrides().DisableTorchFunctionSubclass():
        out: Tensor = Tensor.as_subclass(x, Tensor)
        return out


def placed(x: Any, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    """A view of `x`, with its history, that lies on a mesh."""
    found = tuple(placements)
    if len(found) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements "
            f"length: {len(found)}, and device_mesh.ndim: {mesh.ndim}."
        )
    for p in found:
        if isinstance(p, Shard) and not -max(x.ndim, 1) <= p.dim < max(x.ndim, 1):
            raise ValueError(f"a tensor of {x.ndim} dims cannot be sharded along dim {p.dim}")
    overrides = Above.overrides()
    overrides.install()  # functions ask their arguments from now on
    with overrides.DisableTorchFunctionSubclass():
        out: DTensor = Tensor.as_subclass(x, DTensor)
    out.__dict__.update(_mesh=mesh, _placements=_counted(found, x.ndim))
    return out


def _counted(placements: tuple[Placement, ...], ndim: int) -> tuple[Placement, ...]:
    """Dims counted from the front."""
    return tuple(Shard(p.dim % max(ndim, 1)) if isinstance(p, Shard) else p for p in placements)


def _spread(result: Any, first: DTensor) -> Any:
    """Tensors in a result, as DTensors on the mesh of `first`."""
    if isinstance(result, Tensor):
        if type(result) is DTensor:
            return result
        mesh = first.device_mesh
        same = result.shape == first.shape
        return placed(result, mesh, first.placements if same else [Replicate()] * mesh.ndim)
    if isinstance(result, tuple | list):
        items = [_spread(x, first) for x in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def _flat(x: Any) -> Iterable[Any]:
    if isinstance(x, tuple | list):
        for item in x:
            yield from _flat(item)
    elif isinstance(x, dict):
        yield from _flat(list(x.values()))
    else:
        yield x
