"""`torch.utils._foreach_utils`: lists of tensors, sorted for operations on whole lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Group = tuple[list[list[Any]], list[int]]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], Group]:
    """Lists of the same length, cut alike into those where the first has one device and dtype.

    With each come, if asked for, the places where its tensors were.
    """
    groups: dict[tuple[Any, Any], Group] = {}
    for place, x in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault((x.device, x.dtype), ([[] for _ in tensorlistlist], []))
        for part, whole in zip(lists, tensorlistlist, strict=True):
            if whole:  # a list that is empty stays so
                part.append(whole[place])
        if with_indices:
            places.append(place)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """[]: one tensor after the other is fused anyway."""
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    """Where steps of optimisers may be asked for as one kernel."""
    return ["cpu"]


def _device_has_foreach_support(device: Any) -> bool:
    """Whether operations on lists pay there: everywhere, but they are no faster."""
    return True


def _has_foreach_support(tensors: Sequence[Any], device: Any) -> bool:
    """Whether all are tensors, or nothing."""
    return all(x is None or hasattr(x, "device") for x in tensors)
