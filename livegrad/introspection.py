"""What tensors say about themselves: sizes, layout, device, address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from livegrad import creation
from livegrad.device import as_device
from livegrad.graph.record import node_of
from livegrad.graph.state import flush
from livegrad.methods import Methods
from livegrad.ops import movement
from livegrad.settings import strided


class Introspection(Methods):
    """The part of Tensor that describes it, and PyTorch's questions that have one answer here."""

    __slots__ = ()

    is_cpu = True
    is_cuda = is_mps = is_xpu = is_ipu = is_xla = is_mtia = is_maia = is_vulkan = False
    is_meta = is_mkldnn = is_nested = is_quantized = is_sparse = is_sparse_csr = False
    layout = strided
    name = None
    output_nr = 0

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._node.meta.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._node.meta.nbytes

    def dim(self) -> int:
        """Number of dims."""
        return self._node.meta.ndim

    ndimension = dim

    def numel(self) -> int:
        """Number of elements."""
        return self._node.meta.numel

    nelement = numel

    def element_size(self) -> int:
        """Bytes per element."""
        return self._node.meta.dtype.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Strides of a contiguous tensor of this shape: values have no layout until computed."""
        shape = self._node.meta.shape
        strides = [1] * len(shape)
        for d in range(len(shape) - 1, 0, -1):
            strides[d - 1] = strides[d] * max(shape[d], 1)
        if dim is None:
            return tuple(strides)
        if not shape:
            raise IndexError(f"stride: Dimension specified as {dim} but tensor has no dimensions")
        return strides[movement.normal_dim("stride", dim, len(shape))]

    def storage_offset(self) -> int:
        """Always 0: every value is contiguous and its own."""
        return 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Always True."""
        return True

    def contiguous(self, memory_format: Any = None) -> Any:
        """The tensor itself: every value is contiguous."""
        return self

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating type."""
        return self._node.meta.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is a complex type."""
        return self._node.meta.dtype.is_complex

    def is_conj(self) -> bool:
        """Always False: a conjugate is a value like any other."""
        return False

    def is_neg(self) -> bool:
        """Always False: a negative is a value like any other."""
        return False

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self._node.meta.dtype.signed

    def get_device(self) -> int:
        """-1: the CPU."""
        return -1

    def dim_order(self) -> tuple[int, ...]:
        """The dims from the outermost in memory to the innermost: in order."""
        return tuple(range(self._node.meta.ndim))

    def data_ptr(self) -> int:
        """The address of the values, which are computed for it; 0 if there are none.

        It is good until the tensor is written or given up. A view has memory of its own.
        """
        node = node_of(self)
        flush("data_ptr", node)
        return int(node.buffer.ptr) if node.meta.numel else 0

    const_data_ptr = data_ptr

    def is_nonzero(self) -> bool:
        """Whether the only element is not zero; RuntimeError unless there is exactly one."""
        return bool(self)

    def is_same_size(self, other: Any) -> bool:
        """Whether both have the same shape."""
        return self._node.meta.shape == node_of(other).meta.shape

    def is_distributed(self) -> bool:
        """False."""
        return False

    # ---- other memories, of which there are none -------------------------------------------

    def cuda(self, device: Any = None, non_blocking: bool = False, **options: Any) -> Any:
        """RuntimeError: there is no GPU."""
        return as_device("cuda" if device is None else device)

    def xpu(self, device: Any = None, non_blocking: bool = False, **options: Any) -> Any:
        """RuntimeError: there is no such device."""
        return as_device("xpu" if device is None else device)

    def is_pinned(self, device: Any = None) -> bool:
        """False: memory is pinned for GPUs."""
        return False

    def pin_memory(self, device: Any = None) -> Any:
        """The tensor itself: there is no GPU to pin its memory for."""
        return self

    def to_dense(self, dtype: Any = None, *, masked_grad: bool = True) -> Any:
        """The tensor itself, or as another dtype: every tensor is dense."""
        return self if dtype is None else self.to(dtype)  # type: ignore[attr-defined]

    # ---- Python functions on elements ------------------------------------------------------

    def apply_(self, callable: Callable[[Any], Any]) -> Any:
        """Replaces each element by what a Python function makes of it. Slow, and no gradient."""
        return self._replace("apply_", callable)

    def map_(self, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
        """Replaces each element by what a function makes of it and of that of `tensor`. Slow."""
        return self._replace("map_", callable, tensor)

    def map2_(self, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
        """Replaces each element by a function of it and of those of `x` and `y`. Slow."""
        return self._replace("map2_", callable, x, y)

    def _replace(self, name: str, function: Callable[..., Any], *others: Any) -> Any:
        if node_of(self).requires_grad:
            raise RuntimeError(f"Can't call {name}() on Variable that requires grad.")
        tensors: list[Any] = [self, *[movement.expand_as(x, self) for x in others]]
        flat = [np.asarray(x.tolist(), object).reshape(-1) for x in tensors]
        values = [function(*row) for row in zip(*flat, strict=True)]
        shape = self._node.meta.shape
        made = creation.tensor(values, dtype=self._node.meta.dtype)
        return self.copy_(made.reshape(shape))  # type: ignore[attr-defined]
