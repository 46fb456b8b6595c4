"""Collectives of any Python objects; each member gets objects of its own."""

from __future__ import annotations

import pickle
from typing import Any

from livegrad.distributed.collectives import Group
from livegrad.distributed.groups import group_of


def _sent(obj: Any) -> Any:
    """An object as another process would get it."""
    return pickle.loads(pickle.dumps(obj))


def _check_here(what: str, rank: int | None, group_rank: int | None) -> None:
    if (rank or 0) != 0 or (group_rank or 0) != 0:
        root = rank or group_rank
        raise RuntimeError(f"{what}: invalid root rank: {root}; the group has one process")


def _check_length(what: str, values: list[Any]) -> None:
    if len(values) != 1:
        raise ValueError(f"{what}: expected a list of 1 object, one per process; got {len(values)}")


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Gives the objects of all members to all."""
    group_of(group)
    _check_length("all_gather_object", object_list)
    object_list[0] = _sent(obj)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Gives the objects of all members to one of them."""
    group_of(group)
    _check_here("gather_object", dst, group_dst)
    if object_gather_list is None:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _check_length("gather_object", object_gather_list)
    object_gather_list[0] = _sent(obj)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Gives the objects of one member to all."""
    group_of(group)
    _check_here("broadcast_object_list", src, group_src)
    object_list[:] = [_sent(obj) for obj in object_list]


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Gives each member one of the objects that one of them has."""
    group_of(group)
    _check_here("scatter_object_list", src, group_src)
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    if not scatter_object_input_list:
        raise ValueError(
            "source rank must provide non-empty scatter_object_input_list; got "
            f"{scatter_object_input_list}"
        )
    _check_length("scatter_object_list", scatter_object_input_list)
    scatter_object_output_list[0] = _sent(scatter_object_input_list[0])


__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]
