"""Where the part of a tensor that a process has lies in the whole."""

from __future__ import annotations

from collections.abc import Sequence

from livegrad.distributed.device_mesh import DeviceMesh
from livegrad.distributed.tensor.placement_types import Placement


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of the part of this process, and where it begins: with one process, the whole."""
    return tuple(global_shape), (0,) * len(global_shape)


def compute_local_shape(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[int, ...]:
    """The shape of the part of this process."""
    return tuple(global_shape)
