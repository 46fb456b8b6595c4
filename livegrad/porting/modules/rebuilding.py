"""`torch._utils`: the functions that pickles of tensors call to make them again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from livegrad import cat
from livegrad.dtypes import DType
from livegrad.nn.parameter import Parameter
from livegrad.porting import names
from livegrad.porting.modules.types import Tensor


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    return Parameter(data, requires_grad)


def _rebuild_tensor_v2(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool,
    backward_hooks: OrderedDict[Any, Any], metadata: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor on a storage that is loaded: a flat tensor, here."""
    out: Tensor = storage.as_strided(size, stride, offset).clone()
    return out.requires_grad_(requires_grad)


def _flatten_dense_tensors(tensors: Any) -> Tensor:
    """All elements, one tensor after the other."""
    return cat([x.contiguous().view(-1) for x in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Any) -> tuple[Tensor, ...]:
    """Parts of a flat tensor, shaped like others."""
    parts = flat.split([x.numel() for x in tensors])
    return tuple(part.view_as(x) for part, x in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one dtype, of no more bytes together than the limit if they are several.

    Among those of one dtype the order stays.
    """
    waiting: dict[DType, list[Tensor]] = {}
    for x in tensors:
        group = waiting.setdefault(x.dtype, [])
        if group and sum(map(_bytes, [*group, x])) > size_limit:
            yield group
            group = waiting[x.dtype] = []
        group.append(x)
    yield from waiting.values()


def _bytes(x: Any) -> int:
    if x.is_sparse:
        x = x.coalesce()
        return _bytes(x.indices()) + _bytes(x.values())
    return int(x.numel() * x.element_size())


def _element_size(dtype: DType) -> int:
    """The bytes of one element."""
    return dtype.itemsize


def _get_available_device_type() -> None:
    """None: there is no accelerator."""


def _get_device_module(device_type: str) -> Any:
    """The module that is called like a device: `torch.cpu`."""
    found = names.find(f"torch.{device_type}")
    if found is None:
        raise RuntimeError(f"Device '{device_type}' does not have a corresponding module")
    return found
