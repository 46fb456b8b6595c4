"""Processes laid out in rows, columns and so on: with one process, all sizes are 1."""

from __future__ import annotations

import math
from typing import Any

from livegrad.creation import tensor, zeros
from livegrad.device import as_device
from livegrad.distributed import groups
from livegrad.distributed.groups import ProcessGroup
from livegrad.dtypes import int32
from livegrad.tensor import Tensor


class DeviceMesh:
    """The processes of a group by their places in a grid, whose dims may have names."""

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _rank: int | None = None,
    ) -> None:
        as_device(device_type)
        ranks = tensor(0 if mesh is None else mesh, dtype=int32)
        _check_ranks(ranks)
        _check_names(mesh_dim_names, ranks.ndim)
        if _init_backend and not groups.is_initialized():
            groups.init_process_group()
        self.device_type = device_type
        self.mesh: Tensor = ranks
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)

    @property
    def ndim(self) -> int:
        """How many dims the grid has."""
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the grid."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes there are, along one dim or in all."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim)

    def get_rank(self) -> int:
        """The rank of this process."""
        return groups.get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The place of this process along a dim, which has to be named if there are several."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
            )
        self._dim(0 if mesh_dim is None else mesh_dim)
        return 0

    def get_coordinate(self) -> list[int]:
        """The place of this process along all dims."""
        return [0] * self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The processes along a dim through this one."""
        self.get_local_rank(mesh_dim)
        return groups.default_group()

    def get_all_groups(self) -> list[ProcessGroup]:
        """One group for each dim."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        for name in names:
            self._dim(name)
        return self._of(names)

    def _of(self, names: tuple[str, ...]) -> DeviceMesh:
        return DeviceMesh(
            self.device_type, zeros([1] * len(names), dtype=int32), mesh_dim_names=names
        )

    def _dim(self, dim: int | str) -> int:
        names = self.mesh_dim_names
        if isinstance(dim, str):
            if names is None or dim not in names:
                raise KeyError(f"Invalid mesh_dim_names {dim!r} specified; there are {names}")
            return names.index(dim)
        if not -self.ndim <= dim < max(self.ndim, 1):
            raise IndexError(f"a mesh of {self.ndim} dims has no dim {dim}")
        return dim % max(self.ndim, 1)

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The same processes in one dim."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ("mesh",))
        return self._of((name,))

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Any = None
    ) -> DeviceMesh:
        """The grid of the processes of a group, or of one group for each dim."""
        ranks = zeros([1] * len(group) if isinstance(group, list) else [1], dtype=int32)
        return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self.shape, self.mesh_dim_names

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        sizes = (
            str(self.shape)
            if names is None
            else "(" + ", ".join(f"{n}={s}" for n, s in zip(names, self.shape, strict=True)) + ")"
        )
        return f"DeviceMesh({sizes}, {self.device_type!r}, stride={(1,) * self.ndim})"

    def __enter__(self) -> DeviceMesh:
        CURRENT.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        CURRENT.pop()


CURRENT: list[DeviceMesh] = []  # those of `with mesh:`, the innermost last


def current_mesh(given: DeviceMesh | None) -> DeviceMesh:
    """The mesh that a function is called with, or that of the `with` around it."""
    if given is None and not CURRENT:
        raise RuntimeError("No device mesh is currently active!")
    return CURRENT[-1] if given is None else given


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A grid of all processes; a group is begun if there is none."""
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length!",
            f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):"
            f"{len(mesh_shape)}.",
        )
    if not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    if math.prod(mesh_shape) != 1:
        raise RuntimeError(
            f"init_device_mesh: got mesh_shape={tuple(mesh_shape)}; livegrad runs programs of one "
            "process for now, so all sizes are 1"
        )
    return DeviceMesh(device_type, zeros(mesh_shape, dtype=int32), mesh_dim_names=mesh_dim_names)


def _check_ranks(ranks: Tensor) -> None:
    if ranks.numel() != 1 or int(ranks.reshape(())) != 0:
        raise RuntimeError(
            f"DeviceMesh: got ranks {ranks.tolist()}; livegrad runs programs of one process for "
            "now, of rank 0"
        )


def _check_names(names: Any, ndim: int) -> None:
    if names is None:
        return
    if len(set(names)) != len(names):
        raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated name in {names}")
    if len(names) != ndim:
        raise RuntimeError(f"DeviceMesh: got names {tuple(names)} for {ndim} dims")


__all__ = ["DeviceMesh", "init_device_mesh"]
