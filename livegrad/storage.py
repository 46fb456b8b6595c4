"""Storages: the memory that a tensor and its views share, seen as bytes.

They are asked for by programs that want to know what shares memory with what, or how much of it
there is: `x.untyped_storage().data_ptr()`, `.nbytes()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.creation import from_numpy
from livegrad.device import Device
from livegrad.graph.geometry import root_of, storage_nbytes
from livegrad.graph.handle import node_of
from livegrad.ops.shaping.strided import in_memory, whole_of

Array = np.ndarray[Any, Any]


class UntypedStorage:
    """The bytes behind a tensor, as they are now."""

    is_cuda = False
    is_sparse = False

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor.detach()

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a file, read when they are used; written to the file only if `shared`."""
        mode: Any = "r+" if shared else "c"
        return UntypedStorage(from_numpy(np.memmap(filename, np.uint8, mode, shape=(nbytes,))))

    def untyped(self) -> UntypedStorage:
        """The storage itself."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        values = whole_of(self._tensor).view(dtypes.uint8).numpy()
        return values if dtype is None and not copy else np.array(values, dtype)

    @property
    def device(self) -> Device:
        """Where the bytes are."""
        device: Device = self._tensor.device
        return device

    def nbytes(self) -> int:
        """How many bytes there are."""
        return storage_nbytes(self._tensor)

    size = nbytes

    def __len__(self) -> int:
        return self.nbytes()

    def element_size(self) -> int:
        """1: a storage without type is made of bytes."""
        return 1

    def data_ptr(self) -> int:
        """The address of the first byte; the same for all tensors that share the storage."""
        return int(whole_of(self._tensor).data_ptr())

    def is_shared(self) -> bool:
        """Whether other processes can see the bytes."""
        return bool(self._tensor.is_shared())

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        return [int(x) for x in self._bytes()]

    def _bytes(self) -> Array:
        values: Array = in_memory(whole_of(self._tensor))._values("storage")
        return values.view(np.uint8)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):  # which shares the memory
            return UntypedStorage(from_numpy(self.__array__()[key]))
        return int(self._bytes()[key])

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def _owner(self) -> Any:
        node_of(self._tensor)
        return root_of(self._tensor)[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._owner() is other._owner()

    def __hash__(self) -> int:
        return hash(self._owner())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.nbytes()} bytes>"


class TypedStorage(UntypedStorage):
    """The elements behind a tensor, in the order they have in memory."""

    @property
    def dtype(self) -> dtypes.DType:
        """Type of the elements."""
        found: dtypes.DType = self._tensor.dtype
        return found

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._tensor)

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """How many elements there are."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def tolist(self) -> list[Any]:
        """The elements as numbers."""
        return list(in_memory(whole_of(self._tensor)).tolist())

    def __getitem__(self, key: Any) -> Any:
        return self.tolist()[key]


def _load_from_bytes(b: bytes) -> Any:
    """RuntimeError: what Python's own pickle makes of PyTorch's tensors is not read."""
    raise RuntimeError(
        "this pickle holds tensors of PyTorch's own, written without torch.save. Write them with "
        "torch.save there: load reads that, and runs no code"
    )
