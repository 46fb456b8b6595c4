"""Shape, dtype, strides and device of a value, interned: comparing and hashing is by identity."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from operator import index as as_index
from typing import Any, SupportsIndex, overload

from livegrad.device import CPU, SPARSE, Device
from livegrad.dtypes import DType, Namespace
from livegrad.graph.layout import Strides, contiguous_strides, is_contiguous
from livegrad.graph.symbol import Session, Symbol
from livegrad.native.calls import track, untrack
from livegrad.native.hot import hot, hot_slots

Shape = tuple[int, ...]
_MOST_COUNTED = (1 << 63) - 1


def _most_bytes() -> int:
    """Larger values are refused although, if they are not stored, there may be a way.

    PyTorch has to store them; here, what needs them would compute for hours.
    """
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        memory = 0
    return max(1 << 40, 4 * memory)


_MOST_BYTES = _most_bytes()


class Size(tuple[int, ...]):
    """The shape of a tensor as users see it: a tuple that prints and counts like `torch.Size`.

    Args:
        iterable: the sizes.

    Example:
        >>> size = lg.zeros(2, 3).shape
        >>> size[-1], size.numel(), size == (2, 3)
        (3, 6, True)
    """

    __slots__ = ()

    def numel(self) -> int:
        """Number of elements of a tensor of this shape."""
        return prod(self)

    # Parts and sums of sizes are sizes.

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, key: slice) -> Size: ...

    def __getitem__(self, key: Any) -> Any:
        found = _item(self, key)
        return Size(found) if type(found) is tuple else found

    def __add__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            raise TypeError(
                f"can only concatenate tuple (not {type(other).__name__}) to {Namespace.name}.Size"
            )
        return Size((*self, *other))

    def __radd__(self, other: Any) -> Size:
        return Size((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: Any) -> Size:
        return Size(tuple(self) * count)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{Namespace.name}.Size({list(self)})"


_item = tuple.__getitem__


@hot_slots
class Meta:
    """Shape, dtype and device of a value, and the strides it would have in PyTorch.

    `strides` is None for those of row-major order. `plain` is the Meta with those, which is all
    that the compiler knows: in our memory every value is contiguous.
    """

    __slots__ = (
        "_strided",
        "contiguous",
        "device",
        "dtype",
        "ndim",
        "numel",
        "plain",
        "shape",
        "size",
        "strides",
    )

    @hot
    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        strides: Strides | None = None,
        plain: Meta | None = None,
        device: Device = CPU,
    ) -> None:
        usual = type(shape) is tuple
        numel = 1
        for size in shape:
            if type(size) is not int or size < 1:
                usual = False
            elif usual:
                numel = numel * size
        if not usual:
            shape = tuple([as_size(size) for size in shape])
            numel = prod(shape)
        self.shape: Shape = shape
        self.size = Size(shape)
        self.dtype = dtype
        self.device = device
        self.ndim = len(shape)
        self.numel = numel
        self.strides = strides
        self.contiguous = strides is None or is_contiguous(shape, strides)
        self.plain = self if plain is None else plain
        self._strided: dict[Strides, Meta] | None = None
        if not usual or numel * dtype.itemsize > _MOST_BYTES:
            _check_sizes(shape, 1 if device is SPARSE else dtype.itemsize)

    @hot
    def stride(self) -> Strides:
        """The strides, those of row-major order too."""
        return contiguous_strides(self.shape) if self.strides is None else self.strides

    @hot
    def with_strides(self, strides: Strides | None) -> Meta:
        """The interned Meta of the same shape and dtype with other strides."""
        plain = self.plain
        if strides is None or strides == contiguous_strides(self.shape):
            return plain
        known = plain._strided
        found = None if known is None else known.get(strides)
        return plain._remember_strided(strides) if found is None else found

    def _remember_strided(self, strides: Strides) -> Meta:
        known = self._strided
        if known is None or len(known) > _MOST_STRIDED:
            known = self._strided = {}
        found = known[strides] = Meta(self.shape, self.dtype, strides, self, self.device)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of a contiguous buffer holding the value."""
        return self.numel * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


def as_size(x: Any) -> int:
    """`operator.index`, which keeps symbols."""
    return x if type(x) is int or type(x) is Symbol else as_index(x)


_interned: dict[tuple[Shape, DType], Meta] = {}
# Past this many, forget: an equal Meta is made anew, which costs cache misses but no correctness.
_MOST = 100_000
_MOST_STRIDED = 1000


# Those on other devices.
_elsewhere: dict[tuple[Shape, DType, Device], Meta] = {}


class Sizes:
    """Whether values must fit into memory: not where there is no data."""

    limited = True

    @classmethod
    @contextmanager
    def unlimited(cls) -> Iterator[None]:
        """Within it they need not."""
        before, Sizes.limited = Sizes.limited, False
        try:
            yield
        finally:
            Sizes.limited = before


def _check_sizes(shape: Shape, itemsize: int) -> None:
    """RuntimeError if there cannot be a tensor of these sizes."""
    for size in shape:
        if size < 0:
            raise RuntimeError(
                f"trying to create tensor with negative dimension {size}: {list(shape)}"
            )
    # Strides are counted as if no size were 0.
    if prod([size or 1 for size in shape]) * itemsize > _MOST_COUNTED:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    nbytes = prod(shape) * itemsize
    if nbytes > _MOST_BYTES and Sizes.limited:
        raise RuntimeError(
            f"can't allocate memory: you tried to allocate {nbytes} bytes for {list(shape)}"
        )


def is_symbolic(meta: Meta) -> bool:
    """Whether a size is a symbol."""
    return any([type(size) is Symbol for size in meta.shape])


@hot
def meta_of(shape: Shape, dtype: DType) -> Meta:
    """The interned Meta of `shape` and `dtype`."""
    key = (shape, dtype)
    found = _interned.get(key)
    if found is not None:
        return found
    if Session.current is not None:
        return _meta_with_symbols(shape, dtype)
    if len(_interned) > _MOST:
        _forget()
    found = Meta(shape, dtype)
    if found.nbytes > _MOST_BYTES:
        return found  # of a tensor without data: not for others to find
    _interned[key] = found
    untrack(key)
    untrack(found.size)
    untrack(found)
    return found


def _meta_with_symbols(shape: Shape, dtype: DType) -> Meta:
    """`meta_of` while something is planned for all sizes."""
    assert Session.current is not None
    shape = Session.current.shape(shape)
    found = _interned.get((shape, dtype))
    if found is None:
        found = Meta(shape, dtype)
        if found.nbytes > _MOST_BYTES:
            return found
        _interned[shape, dtype] = found
        if is_symbolic(found):
            Session.current.interned.append((_interned, (shape, dtype)))
    return found


def _forget() -> None:
    """Forgets all: from now on, those that nobody has any more are garbage.

    Each refers to itself, so the collector has to look at them again.
    """
    for meta in _interned.values():
        track(meta)
    _interned.clear()


def on_device(meta: Meta, device: Device) -> Meta:
    """The interned Meta that differs from `meta` by its device."""
    if meta.device is device:
        return meta
    with Sizes.unlimited():
        if device is CPU:
            plain = meta_of(meta.shape, meta.dtype)
        else:
            plain = meta_elsewhere(meta.shape, meta.dtype, device)
        return plain.with_strides(meta.strides)


def meta_elsewhere(shape: Shape, dtype: DType, device: Device) -> Meta:
    """The interned Meta of a row-major value on another device."""
    key = (shape, dtype, device)
    found = _elsewhere.get(key)
    if found is None:
        if len(_elsewhere) > _MOST:
            _elsewhere.clear()
        found = _elsewhere[key] = Meta(shape, dtype, device=device)
    return found
