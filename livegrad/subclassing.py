"""Tensors of other classes: how one is made from another, copied, and propagated by functions."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from livegrad import creation
from livegrad.device import CPU, META
from livegrad.dtypes import DType
from livegrad.graph.above import Above
from livegrad.graph.geometry import offset_of, root_of
from livegrad.graph.handle import leaf, node_of, path_of, shows_conjugates
from livegrad.graph.layout import is_dense
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.state import LOCAL
from livegrad.ops.bookkeeping.in_place import laid_out_as
from livegrad.ops.elementwise import arithmetic as elementwise
from livegrad.ops.shaping import movement, reshaping, strided
from livegrad.ops.support.public import publish_methods
from livegrad.runtime.memory import copied
from livegrad.sparsity import Sparsity

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

C = TypeVar("C")


def disabled_torch_function(
    func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """`__torch_function__` of a class that leaves functions as they are: results are Tensors."""
    with Above.overrides().DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


class Subclassing(Sparsity):
    """The part of Tensor that concerns its class, and copies, which keep class and attributes."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Our own classes leave functions as they are; for others, functions have to look.
        if not cls.__module__.startswith("livegrad."):
            Above.overrides().install()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The result of `func`, with new tensors as this class; see `livegrad.overrides`."""
        return Above.overrides().default(cls, func, types, args, kwargs or {})

    def as_subclass(self: Any, cls: type[C]) -> C:
        """The tensor as one of another class: a view of all of it, with its history."""
        return movement.alias(self)._become(cls)

    @staticmethod
    def _make_subclass(cls: type[C], data: Tensor, require_grad: bool = False) -> C:
        """A leaf of class `cls` that shares its values with `data`."""
        return movement.detach(data).requires_grad_(require_grad)._become(cls)

    def _become(self: Any, cls: type[C]) -> C:
        """This tensor, which nobody else holds, as one of class `cls`."""
        try:
            self.__class__ = cls
        except TypeError:  # a class with slots of its own
            self = _moved(self, cls)
        out: C = self
        return out

    # ---- copies ----------------------------------------------------------------------------

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment. Use detach() or clone() first"
            )
        out = self._copied_data(memo)
        out = out.requires_grad_(self.requires_grad)._become(type(self))
        memo[id(self)] = out
        if self.grad is not None:
            out.grad = self.grad.__deepcopy__(memo)
        _set_attributes(out, copy.deepcopy(attributes_of(self), memo))
        return out

    def _copied_data(self: Any, memo: dict[int, Any]) -> Tensor:
        """A copy without history, which shares memory with copies of what `self` shares it with."""
        if self._share is None or shows_conjugates(path_of(self)):
            return elementwise.clone(movement.detach(self))
        cell, _ = root_of(self)
        first = id(cell) not in memo
        if first:
            memo[id(cell)] = elementwise.clone(movement.detach(strided.whole_of(self)))
        whole, meta = memo[id(cell)], node_of(self).meta
        if meta is node_of(whole).meta:
            return whole if first else movement.detach(whole)
        if meta.dtype is not whole.dtype:  # another view of the bits
            whole = reshaping.view(strided.in_memory(whole), meta.dtype)
        place = (meta.shape, meta.stride(), offset_of(self))
        return movement.detach(strided.as_strided(movement.detach(whole), *place))

    def __copy__(self: Any) -> Any:
        out = movement.detach(self).requires_grad_(self.requires_grad)
        out = out._become(type(self))
        out._take_attributes(self)
        return out

    def __reduce_ex__(self: Any, protocol: Any) -> tuple[Any, ...]:
        meta, needs = node_of(self).meta, self.requires_grad
        if meta.device is META:
            made: Any = (rebuild_empty, (type(self), meta.shape, meta.dtype, needs))
        else:
            values = np.array(self._values("pickle"))
            made = (rebuild, (type(self), values, meta.dtype, needs, *_place(meta)))
            if meta.strides is not None and is_dense(meta.shape, meta.strides):
                made = (rebuild_laid_out, (meta.strides, *made[1]))
        attributes = attributes_of(self)
        return (*made, attributes) if attributes else made

    def __setstate__(self, state: dict[str, Any]) -> None:
        _set_attributes(self, state)

    def _take_attributes(self, other: Any) -> None:
        """Takes what a program has set on another tensor."""
        _set_attributes(self, attributes_of(other))


publish_methods(Subclassing, "Tensor", "livegrad.tensor")


def _place(meta: Meta) -> tuple[str, ...]:
    return () if meta.device is CPU else (str(meta.device),)


def rebuild(cls: type[C], values: Any, dtype: DType, requires_grad: bool, device: str = "cpu") -> C:
    """A tensor from its pickled parts; `values` are in the storage dtype."""
    out = leaf(meta_of(values.shape, dtype), copied(values)).to(device)
    return out.requires_grad_(requires_grad)._become(cls)


def rebuild_laid_out(strides: tuple[int, ...], cls: type[C], *parts: Any) -> C:
    """A tensor from its pickled parts whose dims lie in memory in another order than they stand."""
    values, dtype, requires_grad, *device = parts
    out: Any = rebuild(cls, values, dtype, False, *device)
    return laid_out_as(out, strides).requires_grad_(requires_grad)._become(cls)


def rebuild_empty(cls: type[C], shape: Any, dtype: DType, requires_grad: bool) -> C:
    """A tensor without data from its pickled parts."""
    out = creation.empty(shape, dtype=dtype, device=META)
    return out.requires_grad_(requires_grad)._become(cls)


def _moved(x: Any, cls: type[C]) -> C:
    """A tensor of a class with slots of its own in the place of `x`."""
    out: Any = object.__new__(cls)
    out._node, out._share = x._node, x._share
    out.__dict__.update(x.__dict__)
    handles = LOCAL.state.handles
    for place in range(len(handles) - 1, -1, -1):  # recorded just now
        if handles[place] is x:
            handles[place] = out
            break
    moved: C = out
    return moved


def attributes_of(x: Any) -> dict[str, Any]:
    """What a program has set on a tensor, in its dict or in slots of its class."""
    ours: list[type] = []
    theirs: list[type] = []
    for cls in type(x).__mro__:
        (ours if cls.__module__.startswith("livegrad.") else theirs).append(cls)
    slots = [name for cls in theirs for name in _slots(cls)]
    found = {name: getattr(x, name) for name in slots if hasattr(x, name)}
    # Our own attributes have a default in one of our classes.
    own = {k: v for k, v in x.__dict__.items() if not any(k in vars(cls) for cls in ours)}
    return found | own


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _set_attributes(x: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(x, name, value)
