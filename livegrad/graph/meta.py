"""Shape, dtype and strides of a value, interned so that comparing and hashing is by identity."""

from __future__ import annotations

import os
from math import prod
from operator import index as as_index
from typing import Any

from livegrad.dtypes import DType
from livegrad.graph.layout import Strides, contiguous_strides, is_contiguous
from livegrad.graph.symbol import Session, Symbol
from livegrad.native.hot import hot_slots

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
    """The shape of a tensor as users see it: a tuple that prints and counts like `torch.Size`."""

    __slots__ = ()

    def numel(self) -> int:
        """Number of elements of a tensor of this shape."""
        return prod(self)

    def __repr__(self) -> str:
        return f"livegrad.Size({list(self)})"


@hot_slots
class Meta:
    """Shape and dtype of a value, and the strides it would have in PyTorch.

    `strides` is None for those of row-major order. `plain` is the Meta with those, which is all
    that the compiler knows: in our memory every value is contiguous.
    """

    __slots__ = (
        "_strided",
        "contiguous",
        "dtype",
        "ndim",
        "numel",
        "plain",
        "shape",
        "size",
        "strides",
    )

    def __init__(
        self, shape: Shape, dtype: DType, strides: Strides | None = None, plain: Meta | None = None
    ) -> None:
        shape = tuple([as_size(size) for size in shape])
        self.shape: Shape = shape
        self.size = Size(shape)
        self.dtype = dtype
        self.ndim = len(shape)
        self.numel = prod(shape)
        self.strides = strides
        self.contiguous = strides is None or is_contiguous(shape, strides)
        self.plain = self if plain is None else plain
        self._strided: dict[Strides, Meta] = {}
        _check_sizes(shape, dtype.itemsize)

    def stride(self) -> Strides:
        """The strides, those of row-major order too."""
        return contiguous_strides(self.shape) if self.strides is None else self.strides

    def with_strides(self, strides: Strides | None) -> Meta:
        """The interned Meta of the same shape and dtype with other strides."""
        plain = self.plain
        if strides is None or strides == contiguous_strides(self.shape):
            return plain
        known = plain._strided
        found = known.get(strides)
        if found is None:
            if len(known) > _MOST_STRIDED:
                known.clear()
            found = known[strides] = Meta(plain.shape, plain.dtype, strides, plain)
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
    if nbytes > _MOST_BYTES:
        raise RuntimeError(
            f"can't allocate memory: you tried to allocate {nbytes} bytes for {list(shape)}"
        )


def is_symbolic(meta: Meta) -> bool:
    """Whether a size is a symbol."""
    return any([type(size) is Symbol for size in meta.shape])


def meta_of(shape: Shape, dtype: DType) -> Meta:
    """The interned Meta of `shape` and `dtype`."""
    found = _interned.get((shape, dtype))
    if found is None and Session.current is not None:
        shape = Session.current.shape(shape)
        found = _interned.get((shape, dtype))
    if found is None:
        if len(_interned) > _MOST:
            _interned.clear()
        found = _interned[shape, dtype] = Meta(shape, dtype)
        if Session.current is not None and is_symbolic(found):
            Session.current.interned.append((_interned, (shape, dtype)))
    return found
