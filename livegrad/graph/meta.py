"""Shape and dtype of a value, interned so that comparing and hashing them is by identity."""

from __future__ import annotations

from math import prod

from livegrad.dtypes import DType
from livegrad.native.hot import hot_slots

Shape = tuple[int, ...]


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
    """Shape and dtype of a value.

    `cls` numbers the *class* of the meta: dtype, rank, and which sizes are 1. Plans depend on the
    class only, so a new batch size or sequence length finds the plan it had before.
    """

    __slots__ = ("cls", "dtype", "ndim", "numel", "shape", "size")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape: Shape = tuple(shape)
        self.size = Size(shape)
        self.dtype = dtype
        self.ndim = len(shape)
        self.numel = prod(shape)
        self.cls = _class_number(dtype, shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a contiguous buffer holding the value."""
        return self.numel * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


_interned: dict[tuple[Shape, DType], Meta] = {}
_classes: dict[tuple[DType, tuple[bool, ...]], int] = {}
# Past this many, forget: an equal Meta is made anew, which costs cache misses but no correctness.
_MOST = 100_000


def _class_number(dtype: DType, shape: Shape) -> int:
    return _classes.setdefault((dtype, tuple([size == 1 for size in shape])), len(_classes))


def meta_of(shape: Shape, dtype: DType) -> Meta:
    """The interned Meta of `shape` and `dtype`."""
    found = _interned.get((shape, dtype))
    if found is None:
        if len(_interned) > _MOST:
            _interned.clear()
        found = _interned[shape, dtype] = Meta(shape, dtype)
    return found
