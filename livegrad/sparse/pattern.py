"""Where the elements of a sparse tensor are. Patterns are not changed: tensors computed from one
another share them, and what was worked out about one of them.

    Coo          indices (sparse dims, elements), in any order, perhaps some of them twice
    Compressed   CSR and its kind: (batch, rows + 1) offsets and (batch, elements) columns

What depends on the values of indices (which are equal, in what order they are) is worked out with
NumPy, once per pattern; it has no gradient, and how many elements a result has depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import leaf, node_of
from livegrad.graph.meta import meta_of
from livegrad.ops.elementwise.arithmetic import add, mul
from livegrad.ops.making.generate import filled
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.shaping.slicing import select
from livegrad.runtime.memory import copied
from livegrad.settings import (
    Layout,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
)

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
T = TypeVar("T")


def tensor_of(array: Array) -> Tensor:
    """An array of indices that nobody else holds as a tensor."""
    return leaf(meta_of(array.shape, dtypes.int64), copied(np.ascontiguousarray(array, np.int64)))


def sorting_order(keys: Array, bound: int) -> Array | None:
    """The places of `keys`, all below `bound`, in ascending order, equal ones as they come.

    None if they ascend already. NumPy sorts 16 bits in linear time: a few of these at a time.
    """
    if len(keys) < 2 or bool((keys[1:] >= keys[:-1]).all()):
        return None
    order: Array = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    for shift in range(16, int(bound).bit_length(), 16):
        digits = ((keys[order] >> shift) & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digits, kind="stable")]
    return order


def offsets_of(sorted_keys: Array, bound: int) -> Array:
    """Where each of 0, 1, … `bound` begins among ascending keys."""
    counts = np.bincount(sorted_keys, minlength=bound)
    return np.concatenate([[0], np.cumsum(counts)])


class Rows:
    """The elements of a matrix by rows, as products need them; `order` is None if they are so."""

    def __init__(self, rows: Array, columns: Array, height: int, width: int) -> None:
        self.order = sorting_order(rows, height)
        if self.order is not None:
            rows, columns = rows[self.order], columns[self.order]
        self.arrays = rows, columns
        self.width = width
        self.offsets = tensor_of(offsets_of(rows, height))
        self.rows, self.columns = tensor_of(rows), tensor_of(columns)
        self.places = None if self.order is None else tensor_of(self.order)
        self._down: tuple[Tensor, ...] | None = None

    def down(self) -> tuple[Tensor, ...]:
        """The same by columns: offsets, places in that order, and the places of these by rows."""
        if self._down is None:
            columns = self.arrays[1]
            order = sorting_order(columns, self.width)
            order = np.arange(len(columns)) if order is None else order
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            offsets = offsets_of(columns[order], self.width)
            self._down = tensor_of(offsets), tensor_of(order), tensor_of(back)
        return self._down


class Pattern:
    """What both kinds have in common: what was worked out, for the indices as they are now."""

    layout: Layout
    parts: tuple[Tensor, ...]
    sizes: Shape

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._nodes: tuple[Any, ...] = ()

    @property
    def count(self) -> int:
        """How many elements, or blocks, there are; in each matrix, if there are several."""
        return node_of(self.parts[-1]).meta.shape[-1]

    def known(self, what: Any, make: Callable[[], T]) -> T:
        """What `make()` gives, made once as long as the indices are not written to."""
        nodes = tuple([node_of(x) for x in self.parts])
        if any([a is not b for a, b in zip(nodes, self._nodes, strict=False)]) or not self._nodes:
            self._known, self._nodes = {}, nodes
        if what not in self._known:
            self._known[what] = make()
        found: T = self._known[what]
        return found

    def arrays(self) -> list[Array]:
        """The indices as arrays; they are computed for it."""
        return [x._values("sparse indices") for x in self.parts]


class Coo(Pattern):
    """Elements at `indices` of sparse dims of the sizes `sizes`."""

    layout = sparse_coo

    def __init__(self, indices: Tensor, sizes: Shape, coalesced: bool = False) -> None:
        super().__init__()
        self.indices = indices
        self.parts = (indices,)
        self.sizes = sizes
        count = node_of(indices).meta.shape[1]
        self.coalesced = coalesced or count < 2

    def array(self) -> Array:
        """The indices as an array (sparse dims, elements)."""
        return self.arrays()[0]

    def keys(self) -> Array:
        """The places of the elements, if the sparse dims were one."""
        return self.known("keys", self._keys)

    def _keys(self) -> Array:
        keys = np.zeros(self.count, np.int64)
        for row, size in zip(self.array(), self.sizes, strict=True):
            keys = keys * size + row
        return keys

    def flat(self) -> Tensor:
        """`keys` as a tensor; nothing is computed for it."""
        return self.known("flat", self._flat)

    def _flat(self) -> Tensor:
        if not self.sizes:
            return filled((self.count,), 0, dtypes.int64)
        keys = select(self.indices, 0, 0)
        for d, size in enumerate(self.sizes[1:], 1):
            keys = add(mul(keys, size), select(self.indices, 0, d))
        return reshape_to(keys, (self.count,))

    def distinct(self) -> tuple[Coo, Tensor | None, Tensor | None]:
        """The pattern without repetitions, in order; the place there of each element, and the first
        place here of each of those. None: they are at the same places."""
        return self.known("distinct", self._distinct)

    def _distinct(self) -> tuple[Coo, Tensor | None, Tensor | None]:
        if self.coalesced:
            return self, None, None
        keys = self.keys()
        order = sorting_order(keys, prod(self.sizes))
        ascending = keys if order is None else keys[order]
        new = np.ones(len(keys), bool)
        new[1:] = ascending[1:] != ascending[:-1]
        if order is None and new.all():
            return Coo(self.indices, self.sizes, True), None, None
        order = np.arange(len(keys)) if order is None else order
        place = np.empty_like(order)
        place[order] = np.cumsum(new) - 1
        first = order[new]
        kept = Coo(tensor_of(self.array()[:, first]), self.sizes, True)
        return kept, tensor_of(place), tensor_of(first)

    def rows(self) -> Rows:
        """The elements by rows: of a matrix, or of matrices one below the other."""
        return self.known("rows", self._rows)

    def _rows(self) -> Rows:
        *batch, rows, columns = self.array()
        *sizes, height, width = self.sizes
        which = np.zeros(self.count, np.int64)
        for row, size in zip(batch, sizes, strict=True):
            which = which * size + row
        if batch:
            rows, columns = which * height + rows, which * width + columns
        several = prod(sizes)
        return Rows(rows, columns, height * several, width * several)


# What each compressed layout compresses: rows (0) or columns (1), and whether elements are blocks.
COMPRESSED = {
    sparse_csr: (0, False),
    sparse_csc: (1, False),
    sparse_bsr: (0, True),
    sparse_bsc: (1, True),
}


class Compressed(Pattern):
    """CSR, CSC, BSR and BSC: `sizes` are those of batch dims and of the two sparse dims.

    `block` is the size of a block; (1, 1) where elements are none.
    """

    def __init__(
        self, layout: Layout, offsets: Tensor, others: Tensor, sizes: Shape, block: tuple[int, int]
    ) -> None:
        super().__init__()
        self.layout = layout
        self.parts = (offsets, others)
        self.sizes = sizes
        self.block = block
        self.by_columns, self.blocked = COMPRESSED[layout]

    @property
    def batch(self) -> Shape:
        """Sizes of the batch dims."""
        return self.sizes[:-2]

    def coordinates(self) -> Coo:
        """The pattern of the same elements, one after the other as they lie, with batch dims as
        sparse dims. Those of blocks are of blocks."""
        return self.known("coordinates", self._coordinates)

    def _coordinates(self) -> Coo:
        offsets, others = self.arrays()
        count = self.count
        steps = np.diff(offsets, axis=-1).reshape(-1)
        lines = offsets.shape[-1] - 1
        compressed = np.repeat(np.tile(np.arange(lines), prod(self.batch)), steps)
        plain = others.reshape(-1)
        pair = (plain, compressed) if self.by_columns else (compressed, plain)
        which = np.indices((*self.batch, count)).reshape(len(self.batch) + 1, -1)[:-1]
        sizes = (*self.batch, self.sizes[-2] // self.block[0], self.sizes[-1] // self.block[1])
        found = np.concatenate([which, np.stack(pair)]) if pair else which
        ascends = not self.by_columns and _ascends(compressed, plain, which)
        return Coo(tensor_of(found), sizes, ascends)


def _ascends(compressed: Array, plain: Array, batch: Array) -> bool:
    """Whether no two neighbours in a line are out of order or equal."""
    if len(plain) < 2:
        return True
    same = compressed[1:] == compressed[:-1]
    for row in batch:
        same &= row[1:] == row[:-1]
    return bool((~same | (plain[1:] > plain[:-1])).all())
