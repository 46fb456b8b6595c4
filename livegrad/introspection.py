"""What tensors say about themselves: sizes, layout, device, address."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from livegrad import creation
from livegrad.device import CPU, META, has_data
from livegrad.graph.above import Above
from livegrad.graph.geometry import is_its_storage, lies_where, offset_of, root_of
from livegrad.graph.handle import node_of
from livegrad.graph.layout import is_channels_last, memory_order
from livegrad.graph.views import is_of_inference
from livegrad.methods import Methods
from livegrad.ops.bookkeeping.in_place import in_format
from livegrad.ops.shaping import movement
from livegrad.ops.shaping.strided import whole_of
from livegrad.ops.support.public import publish_methods
from livegrad.runtime.shared import address_of, is_spread, own_address, spread
from livegrad.settings import channels_last, channels_last_3d, contiguous_format, strided

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


class Introspection(Methods):
    """The part of Tensor that describes it, and PyTorch's questions that have one answer here."""

    __slots__ = ()

    is_cuda = is_mps = is_xpu = is_ipu = is_xla = is_mtia = is_maia = is_vulkan = False
    # The tag under which files have tensors that are more than their values.
    _saved_tag: str | None = None
    is_mkldnn = is_nested = is_quantized = is_sparse = is_sparse_csr = False
    layout = strided
    name = None

    @property
    def is_cpu(self) -> bool:
        """Whether the values lie in the memory of the CPU."""
        return self._node.meta.device is CPU

    @property
    def is_meta(self) -> bool:
        """Whether there is a shape and a dtype, but no data."""
        return self._node.meta.device is META

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._node.meta.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._node.meta.nbytes

    def dim(self) -> int:
        """Number of dims.

        Example:
            >>> lg.zeros(2, 3).dim()
            2
        """
        return self._node.meta.ndim

    ndimension = dim

    def numel(self) -> int:
        """Number of elements.

        Example:
            >>> lg.zeros(2, 3).numel()
            6
        """
        return self._node.meta.numel

    nelement = numel

    def element_size(self) -> int:
        """Bytes per element."""
        return self._node.meta.dtype.itemsize

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> Any:
        """How far apart in the storage neighbours along each dim (or along one) are.

        Args:
            dim: of which dim; without it, of all.

        Example:
            >>> lg.zeros(2, 3).stride()
            (3, 1)
        """
        meta = self._node.meta
        if dim is None:
            return meta.stride()
        if not meta.ndim:
            raise IndexError(f"stride: Dimension specified as {dim} but tensor has no dimensions")
        return meta.stride()[movement.normal_dim("stride", dim, meta.ndim)]

    def storage_offset(self) -> int:
        """The place of the first element in the storage, counted in elements."""
        return offset_of(self)

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Whether the elements lie in the storage in order and without gaps."""
        meta = self._node.meta
        if memory_format in (channels_last, channels_last_3d):
            rank = 4 if memory_format is channels_last else 5
            return meta.ndim == rank and is_channels_last(meta.shape, meta.stride())
        return meta.contiguous

    def contiguous(self: Any, memory_format: Any = contiguous_format) -> Tensor:
        """The tensor itself if its elements lie in order, else a copy in which they do.

        Example:
            >>> lg.zeros(2, 3).t().contiguous().stride()
            (2, 1)
        """
        return self if self.is_contiguous(memory_format) else in_format(self, memory_format)

    def untyped_storage(self) -> Any:
        """The memory that this tensor and its views share, as bytes."""
        from livegrad.storage import UntypedStorage

        return UntypedStorage(self)

    def storage(self) -> Any:
        """The memory that this tensor and its views share, as elements."""
        from livegrad.storage import TypedStorage

        return TypedStorage(self)

    @property
    def _base(self: Any) -> Tensor | None:
        """The tensor that this is a view of; None if it is none."""
        if not self._is_view():
            return None
        root: Tensor | None = None if self._share is None else self._share.root
        if root is not None:
            return root
        cell, _ = root_of(self)
        base = cell.base()
        is_base = base is not None and base._share is not None and base._share.cell is cell
        return base if is_base else whole_of(self)

    def _is_view(self) -> bool:
        """Whether this shows a part of another tensor, history included.

        What is of inference mode has no history, and is none.
        """
        if self._was_view is not None:
            return self._was_view
        if is_its_storage(self) or self._share is None:
            return False
        return self._share.has_family() and not is_of_inference(self._node)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating type."""
        return self._node.meta.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is a complex type."""
        return self._node.meta.dtype.is_complex

    def is_neg(self) -> bool:
        """Always False: a negative is a value like any other."""
        return False

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self._node.meta.dtype.signed

    def get_device(self) -> int:
        """-1: the CPU."""
        return -1

    def dim_order(self, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """The dims from the outermost in memory to the innermost."""
        meta = self._node.meta
        return memory_order(meta.shape, meta.stride())

    def data_ptr(self: Any) -> int:
        """The address of the values, which are computed for it; 0 if there are none.

        It is the same for tensors that share memory and begin at the same place, and good until
        the memory is written or given up.
        """
        node = node_of(self)
        if not node.meta.numel or node.meta.device is META:
            return 0
        return own_address(node) if is_its_storage(self) else address_of(self)

    const_data_ptr = data_ptr

    def is_set_to(self: Any, tensor: Any) -> bool:
        """Whether both show the same elements of one storage."""
        return self is tensor or lies_where(self, tensor)

    def is_nonzero(self) -> bool:
        """Whether the only element is not zero; RuntimeError unless there is exactly one."""
        return bool(self)

    def is_same_size(self, other: Any) -> bool:
        """Whether both have the same shape."""
        return self._node.meta.shape == node_of(other).meta.shape

    def is_distributed(self) -> bool:
        """False."""
        return False

    def share_memory_(self) -> Self:
        """Moves the values to memory that other processes see, in both directions."""
        Above.multiprocessing()  # so that it stays shared when it is sent
        tensor: Any = self
        spread(tensor)
        return self

    def is_shared(self: Any) -> bool:
        """Whether other processes can see the values; see `share_memory_`."""
        return is_spread(self)

    # ---- other memories, of which there are none -------------------------------------------

    def cuda(self, device: Any = None, non_blocking: bool = False, **options: Any) -> Tensor:
        """AssertionError: there is no GPU."""
        has_data("cuda" if device is None else device)
        raise RuntimeError(f"Invalid device, must be cuda device; got {device}")

    def xpu(self, device: Any = None, non_blocking: bool = False, **options: Any) -> Tensor:
        """AssertionError: there is no such device."""
        has_data("xpu" if device is None else device)
        raise RuntimeError(f"Invalid device, must be xpu device; got {device}")

    def is_pinned(self, device: Any = None) -> bool:
        """False: memory is pinned for GPUs."""
        return False

    def pin_memory(self, device: Any = None) -> Self:
        """The tensor itself: there is no GPU to pin its memory for."""
        return self

    def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
        """The tensor itself, or as another dtype: every tensor is dense."""
        found: Tensor = self if dtype is None else self.to(dtype)
        return found

    # ---- Python functions on elements ------------------------------------------------------

    def apply_(self, callable: Callable[[Any], Any]) -> Self:
        """Replaces each element by what a Python function makes of it. Slow, and no gradient."""
        self._replace("apply_", callable)
        return self

    def map_(self, tensor: Any, callable: Callable[[Any, Any], Any]) -> Self:
        """Replaces each element by what a function makes of it and of that of `tensor`. Slow."""
        self._replace("map_", callable, tensor)
        return self

    def map2_(self, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Self:
        """Replaces each element by a function of it and of those of `x` and `y`. Slow."""
        self._replace("map2_", callable, x, y)
        return self

    def _replace(self: Any, name: str, function: Callable[..., Any], *others: Any) -> None:
        if node_of(self).requires_grad:
            raise RuntimeError(f"Can't call {name}() on Variable that requires grad.")
        tensors: list[Any] = [self, *[movement.expand_as(x, self) for x in others]]
        flat = [np.asarray(x.tolist(), object).reshape(-1) for x in tensors]
        values = [function(*row) for row in zip(*flat, strict=True)]
        shape = self._node.meta.shape
        made = creation.tensor(values, dtype=self._node.meta.dtype)
        self.copy_(made.reshape(shape))


publish_methods(Introspection, "Tensor", "livegrad.tensor")
