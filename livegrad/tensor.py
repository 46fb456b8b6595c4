"""The Tensor: a mutable handle on a node of the live graph; see methods.py for most methods."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Self, overload

import numpy as np

from livegrad import autograd, creation, dtypes
from livegrad.autograd import backward as differentiate
from livegrad.autograd.holding import held_gradient
from livegrad.device import CPU, META, Device, home
from livegrad.dtypes import DType
from livegrad.graph import elsewhere
from livegrad.graph.above import Above
from livegrad.graph.blame import wrong_class
from livegrad.graph.events import READ, tell_read
from livegrad.graph.family import check_not_stale, node_to_read, requires_as_family, stale_or_not
from livegrad.graph.geometry import lies_where, path_geometry, writes_to
from livegrad.graph.handle import (
    Handle,
    may_be_stale,
    node_of,
    path_of,
    set_tensor_class,
    share_of,
    shares_with,
    shows_conjugates,
)
from livegrad.graph.losses import note_update
from livegrad.graph.meta import Size
from livegrad.graph.node import is_in_vain
from livegrad.graph.overlap import check_copied
from livegrad.graph.state import LOCAL, flush
from livegrad.graph.views import (
    claim,
    counts_writes,
    detach_whole,
    is_of_inference,
    require_in_vain,
)
from livegrad.graph.writes import check_expanded, check_writable, lead_views_through, rebind
from livegrad.legacy import dtype_of_type, new, type_name
from livegrad.native.hot import hot_slots
from livegrad.ops.bookkeeping.in_place import in_format, overwriting, suggested_format
from livegrad.ops.elementwise import arithmetic as elementwise, comparison, complex_parts
from livegrad.ops.making import generate
from livegrad.ops.reductions import reduce
from livegrad.ops.shaping import movement, resizing, slicing
from livegrad.ops.shaping.resizing import become
from livegrad.ops.support.numbers import OPERANDS
from livegrad.runtime.reading import read_number
from livegrad.runtime.shared import lend
from livegrad.runtime.values import array_of, to_compute
from livegrad.settings import preserve_format
from livegrad.subclassing import Subclassing, disabled_torch_function as disabled_torch_function

Array = np.ndarray[Any, Any]


class ElementCount(int):
    """`x.size` counts elements, as the array API has it, and `x.size()` is PyTorch's shape."""

    shape: Size

    @overload
    def __call__(self, dim: None = None) -> Size: ...
    @overload
    def __call__(self, dim: int) -> int: ...
    def __call__(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        return self.shape[movement.normal_dim("size", dim, len(self.shape))]


@hot_slots
class Tensor(Subclassing):
    """A multi-dimensional array of numbers that remembers how it was computed.

        Tensor ──► Node ──► inputs …      operations make new nodes; in-place ones move the handle

    Invariants: `_node` is the value the tensor stands for now; for a view, the
    cell of its `_share` holds the value it has in common with its base, and `node_of` brings it up
    to date. `grad` is None or a Tensor.
    """

    __slots__ = ()

    _grad: Any = None
    grad: Tensor | None = held_gradient
    _hooks: Any = None
    _post_hooks: Any = None
    __array_priority__ = 1000  # so that `array + tensor` comes to us

    def __new__(cls, *data: Any, device: Any = None) -> Tensor:
        """`Tensor(2, 3)`: zeros of that shape; `Tensor([1, 2])`: data of the default dtype.

        `Tensor(x)`, with `x` a tensor, is a view of it.
        """
        default = dtypes.get_default_dtype()
        device = CPU if device is None else device  # as PyTorch, whatever the default device is
        if len(data) == 1 and isinstance(data[0], Handle):
            out: Tensor = movement.alias(data[0])
        elif len(data) == 1 and not isinstance(data[0], int | Size):
            out = creation.tensor(data[0], dtype=default, device=device)
        else:
            out = creation.zeros(*data or (0,), dtype=default, device=device)
        return out if cls is Tensor else out._become(cls)

    # ---- what it is ----------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """Sizes of the dims.

        Example:
            >>> lg.zeros(2, 3).shape
            livegrad.Size([2, 3])
        """
        return self._node.meta.size

    @property
    def dtype(self) -> DType:
        """Element type.

        Example:
            >>> lg.tensor([1.5, 2]).dtype
            livegrad.float32
        """
        return self._node.meta.dtype

    @property
    def device(self) -> Device:
        """Where the values live.

        Example:
            >>> lg.zeros(2).device
            device(type='cpu')
        """
        return self._node.meta.device

    @property
    def ndim(self) -> int:
        """Number of dims.

        Example:
            >>> lg.zeros(2, 3).ndim
            2
        """
        return self._node.meta.ndim

    @property
    def is_leaf(self) -> bool:
        """Whether a gradient would be collected here: not the result of a recorded operation."""
        check_not_stale(self)
        grad_to = node_of(self).grad_to
        return grad_to is None or isinstance(grad_to, weakref.ref)

    @property
    def grad_fn(self) -> Any:
        """What made this tensor, if a gradient flows through it; None for a leaf."""
        node = node_of(self)
        if not node.interior:
            return None
        from livegrad.autograd.grad_fn import grad_fn_of  # which few programs ask for

        return grad_fn_of(node)

    @property
    def output_nr(self) -> int:
        """Which output of its `grad_fn` this tensor is."""
        from livegrad.autograd.grad_fn import output_number

        return output_number(node_of(self))

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor.

        Example:
            >>> w = lg.ones(2, requires_grad=True)
            >>> (w * 2).requires_grad, (w.detach() * 2).requires_grad
            (True, False)
        """
        if may_be_stale(self):  # also if its history may not be asked for any more
            return requires_as_family(self)
        own = self._share
        if own is not None and own.cell.memory is not None and own.seen == own.cell.version:
            return self._node.grad_to is not None  # whatever others have written
        return node_of(self).grad_to is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad must be a bool; got {type(value).__name__}")
        if not self.is_leaf:  # the method lets True pass, as in PyTorch
            raise _only_of_leaves()
        self.requires_grad_(value)

    @property
    def data(self) -> Tensor:
        """The values without their history; writing to it writes to this tensor.

        Example:
            >>> w = lg.ones(2, requires_grad=True)
            >>> w.data *= 3
            >>> w
            tensor([3., 3.], requires_grad=True)
        """
        note_update(node_to_read(self))
        out = movement.detach(self)
        if not out.is_inference():
            share_of(out).count_with([0])
        return out

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, Handle):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if _shows_the_same(self, value):
            return
        value = movement.detach(value)
        left = self.is_inference() and not value.is_inference()
        with stale_or_not(self):
            become(self, value, counts=0)
        if left:  # it is none of inference mode any more
            self._node.spent = False

    @property
    def T(self) -> Tensor:
        """All dims in reverse order.

        Example:
            >>> lg.tensor([[1, 2, 3]]).T
            tensor([[1],
                    [2],
                    [3]])
        """
        return movement.in_reverse(self)

    @property
    def mT(self) -> Tensor:
        """The last two dims exchanged."""
        if not self.ndim:
            return self
        if self.ndim < 2:
            raise RuntimeError(
                "tensor.mT is only supported on matrices or batches of matrices. Got "
                f"{self.ndim}-D tensor."
            )
        return movement.transpose(self, -2, -1)

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""
        if self.ndim not in (0, 2):
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor."
            )
        return complex_parts.adjoint(self) if self.ndim else complex_parts.conj(self)

    @property
    def mH(self) -> Tensor:
        """The last two dims exchanged, and the conjugate taken."""
        return complex_parts.adjoint(self)

    @property
    def real(self) -> Tensor:
        """The real part, as a view; a real tensor itself."""
        return complex_parts.real(self)

    @real.setter
    def real(self, value: Any) -> None:
        complex_parts.real(self).copy_(value)

    @property
    def imag(self) -> Tensor:
        """The imaginary part of a complex tensor, as a view."""
        return complex_parts.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        complex_parts.imag(self).copy_(value)

    @property
    def _version(self) -> int:
        """How often the memory that this tensor shows a part of has been written."""
        if self.is_inference() and not counts_writes(self):
            raise RuntimeError("Inference tensors do not track version counter.")
        return writes_to(self)

    def is_inference(self) -> bool:
        """Whether it was made in inference mode."""
        return is_of_inference(self._node)

    @property
    def size(self) -> ElementCount:
        """How many elements there are; called, the shape or the size of one dim.

        Example:
            >>> x = lg.zeros(2, 3)
            >>> x.size(), x.size(-1)
            (livegrad.Size([2, 3]), 3)
        """
        count = ElementCount(self._node.meta.numel)
        count.shape = self._node.meta.size
        return count

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """The array API standard for tensors."""
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"array API version {api_version!r} is not supported")
        return Above.array_api()

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The tensor on `device`."""
        return self.to(device=device)

    # ---- reading values ------------------------------------------------------------------

    def _values(self, reason: str) -> Array:
        """The values as a read-only array of the storage dtype; computes what is pending."""
        node = node_to_read(self)
        if node.buffer is None:
            flush(reason, node)
        if READ:
            tell_read(node, None, reason)
        return array_of(node)

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number.

        Example:
            >>> lg.tensor([3]).item()
            3
        """
        return read_number(self, "item()")

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers (a number for 0-d).

        Example:
            >>> lg.tensor([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """
        values = self._values("tolist()")
        if self.dtype is dtypes.bfloat16:
            values = to_compute(values, self.dtype)
        return values.tolist()

    def numpy(self, *, force: bool = False) -> Array:
        """The values as a NumPy array that shares their memory, in both directions.

        With `force`, of a tensor without its history.

        Args:
            force: also of a tensor that requires a gradient, whose history is left out.

        Example:
            >>> lg.tensor([1.0, 2.0]).numpy()
            array([1., 2.], dtype=float32)
        """
        device = self._node.meta.device
        if device is not CPU:
            raise TypeError(
                f"can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        return self._lent("numpy()", force)

    def _lent(self, reason: str, force: bool = False) -> Array:
        if not force and self.requires_grad and LOCAL.state.grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if self.dtype is dtypes.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16. Convert with .float() first")
        values = lend(self, reason)
        if READ:
            tell_read(self._node, None, reason)
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """`numpy()`; a copy if asked for or if the dtype must change."""
        values = self.numpy()
        if dtype is not None and np.dtype(dtype) != values.dtype:
            if copy is False:
                raise ValueError("__array__: a conversion of dtype needs a copy; got copy=False")
            return values.astype(dtype)
        return np.array(values) if copy else values

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Any:
        """What NumPy's functions make of a tensor is one too; bools are uint8, as PyTorch's."""
        return creation.from_numpy(array.astype(np.uint8) if array.dtype == np.bool_ else array)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule that shares the memory of the values; a copy if asked for."""
        values = self._exported()
        return (np.array(values) if copy else values).__dlpack__(
            max_version=max_version, dl_device=dl_device
        )

    def _exported(self) -> Array:
        """The values, for libraries that know nothing of gradients."""
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self._lent("DLPack")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __bool__(self) -> bool:
        numel = self._node.meta.numel
        if numel != 1:
            what = "no values" if numel == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
        return bool(read_number(self, "bool()"))

    def __int__(self) -> int:
        return int(_real_number(self._one_number("int()")))

    def __float__(self) -> float:
        return float(_real_number(self._one_number("float()")))

    def __complex__(self) -> complex:
        return complex(self._one_number("complex()"))

    def _one_number(self, reason: str) -> Any:
        numel = self._node.meta.numel
        if numel != 1:  # PyTorch's class here, another than that of item()
            raise ValueError(
                f"only one element tensors can be converted to Python scalars; got {numel} elements"
            )
        return read_number(self, reason)

    def __index__(self) -> int:
        meta = self._node.meta
        if meta.numel != 1 or meta.dtype.category >= dtypes.FLOAT:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(read_number(self, "index()"))

    def __len__(self) -> int:
        shape = self._node.meta.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._node.meta.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))  # the method, which subclasses may override

    def __reversed__(self) -> Tensor:
        return slicing.flip(self, 0) if self._node.meta.shape else self

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, OPERANDS):
            raise RuntimeError(
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
                f"{type(element)}."
            )
        return bool(reduce.any(comparison.eq(self, element)))

    # By identity, although `==` compares elements.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        from livegrad.printing import tensor_text  # not before something is printed

        return tensor_text(self)

    def _repr_html_(self) -> str:
        html: str = Above.drawing().html_of_tensor(self)
        return html

    def __format__(self, spec: str) -> str:
        if self._node.meta.ndim == 0 and self._node.meta.device is not META:
            return format(read_number(self, "print"), spec)
        return object.__format__(self, spec)

    # ---- copying and gradients -----------------------------------------------------------

    def detach_(self) -> Tensor:
        """Cuts the tensor from its history, in place.

        Example:
            >>> y = lg.ones(2, requires_grad=True) * 2
            >>> y.detach_()
            tensor([2., 2.])
        """
        if self._is_view() and not LOCAL.state.inference:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
                "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
                "these gradients."
            )
        if self.is_leaf:  # what was computed from it does not reach it any more
            return self.requires_grad_(False)
        self._retains_grad = False
        if detach_whole(self):
            return self
        return become(self, movement.detach(self), stays=False, counts=0)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Says whether gradients are collected for this leaf.

        Example:
            >>> lg.zeros(2).requires_grad_()
            tensor([0., 0.], requires_grad=True)
        """
        to = node_of(self).grad_to
        required = to is not None and not is_in_vain(to)  # by itself, not as what it is a view of
        if not self.is_leaf:
            if not requires_grad:
                raise _only_of_leaves()
        elif requires_grad:
            if self.is_inference() and not LOCAL.state.inference:
                raise RuntimeError(
                    "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                    "allowed."
                )
            if not required:
                creation.as_leaf(self, True)
                self._tell_views()
        elif required:
            creation.own_node(self).grad_to = None
            if self._share is not None and self._is_view():  # it goes on as what it is a view of
                require_in_vain(self._node, self._share)
            self._tell_views()
        return self

    def _tell_views(self) -> None:
        """Lets views know, when next used, that this leaf requires a gradient, or none any more."""
        if self._was_view is False:  # it took another shape in place: what they show leads here
            lead_views_through(self)
        claim(self)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Adds the gradient of this tensor to `grad` of every leaf it was computed from.

        Args:
            gradient: the gradient of this tensor; needed unless it has one element.
            retain_graph: keep the graph, so that it can be walked again.
            create_graph: gradients can be differentiated themselves.
            inputs: collect gradients of these only.

        Example:
            >>> x = lg.tensor([1.0, 2.0], requires_grad=True)
            >>> (x**2).sum().backward()
            >>> x.grad
            tensor([2., 4.])
        """
        differentiate(self, gradient, retain_graph, create_graph, None, inputs)

    def retain_grad(self) -> None:
        """Makes `backward` fill `grad` of this tensor although it is not a leaf.

        Example:
            >>> x = lg.ones(2, requires_grad=True)
            >>> y = x * 3
            >>> y.retain_grad()
            >>> y.sum().backward()
            >>> y.grad
            tensor([1., 1.])
        """
        autograd.retain_grad(self)

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Calls `hook(grad)` whenever the gradient of this tensor is computed.

        Args:
            hook: takes the gradient; what it returns, unless None, takes its place.

        Example:
            >>> x = lg.ones(2, requires_grad=True)
            >>> handle = x.register_hook(lambda g: g * 10)
            >>> x.sum().backward()
            >>> x.grad
            tensor([10., 10.])
        """
        return autograd.register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Any:
        """Calls `hook(tensor)` after `backward` has added to `grad` of this leaf."""
        return autograd.register_post_accumulate_grad_hook(self, hook)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called on this tensor, which is not a leaf."""
        return autograd.retains_grad(self)

    # ---- dtype and device ----------------------------------------------------------------

    def to(self, *target: Any, **options: Any) -> Tensor:
        """The tensor as another dtype, on another device, or as another tensor is in both.

        Itself if nothing changes.

        Args:
            *target: a dtype, a device, or a tensor that has both; then `non_blocking`, `copy`.
            **options: `dtype`, `device`, `copy` (also where nothing changes), `memory_format`;
                `non_blocking` is accepted.

        Example:
            >>> lg.tensor([1, 2]).to(lg.float32)
            tensor([1., 2.])
        """
        if len(target) == 1 and not options and self._is_already(target[0]):
            return self
        dtype = options.get("dtype")
        device = options.get("device")
        for x in target:
            if isinstance(x, DType) or x in (float, int, bool, complex):
                dtype = x
            elif isinstance(x, Handle):
                dtype, device = x.dtype, x.device
            elif isinstance(x, str | Device) or type(x) is int:
                device = x
            elif x is not None and not isinstance(x, bool):  # non_blocking and copy
                raise TypeError(f"to(): expected a dtype, a device or a Tensor; got {x!r}")
        for name in options:
            if name not in ("dtype", "device", "copy", "non_blocking", "memory_format"):
                raise TypeError(f"to() got an unexpected keyword argument '{name}'")
        place = None if device is None else home(device)
        if place is not None and place is not self._node.meta.device:
            wanted = self.dtype if dtype is None else dtypes.as_dtype(dtype)
            return elsewhere.moved(self, place, wanted)
        flags = [x for x in target if isinstance(x, bool)]  # non_blocking, copy
        return self._cast(
            self.dtype if dtype is None else dtypes.as_dtype(dtype),
            options.get("memory_format"),
            options.get("copy", flags[1:] == [True]),
        )

    def _is_already(self, target: Any) -> bool:
        """Whether it has this dtype, or is on this device: most calls of `to` change nothing."""
        kind, meta = type(target), self._node.meta
        if kind is DType:
            return target is meta.dtype
        return (kind is str or kind is Device) and home(target) is meta.device

    def _cast(self, dtype: DType, memory_format: Any = None, copy: bool = False) -> Tensor:
        """As another dtype, or in another format; the tensor itself if nothing changes."""
        if memory_format is not None and memory_format is not preserve_format:
            fits = suggested_format(self._node.meta) is memory_format
            if self.dtype is dtype and fits and not copy:
                return self
            return in_format(elementwise.cast(self, dtype), memory_format)
        if self._node.meta.dtype is dtype:
            return elementwise.clone(self) if copy else self
        return elementwise.cast(self, dtype)

    def type(self, dtype: Any = None, non_blocking: Any = False) -> Any:
        """The name of the tensor's type, or the tensor as another dtype (or type of one).

        Args:
            dtype: a dtype, or the name of a type such as "torch.LongTensor".
            non_blocking: accepted.

        Example:
            >>> lg.tensor([1.7]).type(lg.int64)
            tensor([1])
        """
        if dtype is None:
            return type_name(self._node.meta.dtype)
        return self._cast(dtype_of_type(dtype))

    new = new

    def type_as(self, other: Any) -> Tensor:
        """The tensor as the dtype of `other`.

        Example:
            >>> lg.ones(2).type_as(lg.tensor(1)).dtype
            livegrad.int64
        """
        if not isinstance(other, Handle):
            raise wrong_class(other, "Tensor", "type_as")
        return self._cast(other._node.meta.dtype)

    def cpu(self, memory_format: Any = preserve_format) -> Tensor:
        """The tensor on the CPU, where it is if it has data.

        Example:
            >>> lg.ones(2).cpu()
            tensor([1., 1.])
        """
        if memory_format is preserve_format and self._node.meta.device is CPU:
            return self
        return self.to(device="cpu", memory_format=memory_format)

    def float(self, memory_format: Any = preserve_format) -> Tensor:
        """As float32.

        Example:
            >>> lg.tensor([1, 2]).float()
            tensor([1., 2.])
        """
        return self._cast(dtypes.float32, memory_format)

    def double(self, memory_format: Any = preserve_format) -> Tensor:
        """As float64.

        Example:
            >>> lg.tensor([1.0]).double().dtype
            livegrad.float64
        """
        return self._cast(dtypes.float64, memory_format)

    def half(self, memory_format: Any = preserve_format) -> Tensor:
        """As float16."""
        return self._cast(dtypes.float16, memory_format)

    def bfloat16(self, memory_format: Any = preserve_format) -> Tensor:
        """As bfloat16."""
        return self._cast(dtypes.bfloat16, memory_format)

    def cfloat(self, memory_format: Any = preserve_format) -> Tensor:
        """As complex64."""
        return self._cast(dtypes.complex64, memory_format)

    def cdouble(self, memory_format: Any = preserve_format) -> Tensor:
        """As complex128."""
        return self._cast(dtypes.complex128, memory_format)

    def chalf(self, memory_format: Any = preserve_format) -> Tensor:
        """As complex64: there is no complex type of half precision."""
        return self._cast(dtypes.complex64, memory_format)

    def long(self, memory_format: Any = preserve_format) -> Tensor:
        """As int64.

        Example:
            >>> lg.tensor([1.9, -1.9]).long()
            tensor([ 1, -1])
        """
        return self._cast(dtypes.int64, memory_format)

    def int(self, memory_format: Any = preserve_format) -> Tensor:
        """As int32.

        Example:
            >>> lg.tensor([1.7]).int()
            tensor([1], dtype=livegrad.int32)
        """
        return self._cast(dtypes.int32, memory_format)

    def short(self, memory_format: Any = preserve_format) -> Tensor:
        """As int16."""
        return self._cast(dtypes.int16, memory_format)

    def char(self, memory_format: Any = preserve_format) -> Tensor:
        """As int8."""
        return self._cast(dtypes.int8, memory_format)

    def byte(self, memory_format: Any = preserve_format) -> Tensor:
        """As uint8.

        Example:
            >>> lg.tensor([1, 255]).byte()
            tensor([  1, 255], dtype=livegrad.uint8)
        """
        return self._cast(dtypes.uint8, memory_format)

    def bool(self, memory_format: Any = preserve_format) -> Tensor:
        """As bool: False where the value is 0.

        Example:
            >>> lg.tensor([0, 3]).bool()
            tensor([False,  True])
        """
        return self._cast(dtypes.bool_, memory_format)

    # ---- new tensors like this one -------------------------------------------------------

    def _here(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options of a creating function, with this tensor's device if none is given."""
        here = self._node.meta.device
        return {**options, "device": here if options.get("device") is None else options["device"]}

    def new_tensor(self, data: Any, *, dtype: Any = None, **options: Any) -> Tensor:
        """A tensor from `data` with this tensor's dtype.

        Example:
            >>> lg.zeros(1).new_tensor([1, 2])
            tensor([1., 2.])
        """
        return creation.tensor(data, dtype=dtype or self.dtype, **self._here(options))

    def new_zeros(self, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        """Zeros with this tensor's dtype.

        Example:
            >>> lg.ones(1, dtype=lg.float64).new_zeros(2)
            tensor([0., 0.], dtype=livegrad.float64)
        """
        out = creation.zeros(*size, dtype=dtype or self.dtype, **self._here(options))
        return generate.made_like(out, self)

    def new_ones(self, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        """Ones with this tensor's dtype."""
        out = creation.ones(*size, dtype=dtype or self.dtype, **self._here(options))
        return generate.made_like(out, self)

    def new_empty(self, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        """A tensor of this dtype whose values do not matter."""
        out = creation.empty(*size, dtype=dtype or self.dtype, **self._here(options))
        return generate.made_like(out, self)

    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None, **options: Any) -> Tensor:
        """One number everywhere, with this tensor's dtype."""
        out = creation.full(size, fill_value, dtype=dtype or self.dtype, **self._here(options))
        return generate.made_like(out, self)

    def where(self, condition: Any, other: Any) -> Tensor:
        """This tensor where `condition` holds, else `other`."""
        return elementwise.where(condition, self, other)

    # ---- in place ------------------------------------------------------------------------

    def copy_(self, src: Any, non_blocking: Any = False) -> Tensor:
        """Takes the values of `src`, broadcast and cast.

        Args:
            src: a tensor that broadcasts to this one.
            non_blocking: accepted.

        Example:
            >>> lg.zeros(2, 2).copy_(lg.tensor([1, 2]))
            tensor([[1., 2.],
                    [1., 2.]])
        """
        if not isinstance(src, Handle):
            src = creation.as_tensor(src, device=CPU)
        if self._share is not None and src._share is not None:
            check_copied(self, src)
        # Unlike when they are filled, PyTorch lets no gradient flow to integers.
        return self._take(src, src.requires_grad and self.dtype.category >= dtypes.FLOAT)

    def _take(self, src: Any, flows: Any) -> Tensor:
        same = src is self or lies_where(self, src)
        check_writable(self, flows, expanded=same)
        value = elementwise.cast(src, self.dtype) if src.dtype is not self.dtype else src
        if value.shape != self.shape:
            value = movement.expand(value, self.shape)
        value = overwriting(self, elementwise.clone(value))
        return rebind(self, value, expanded=same)

    def fill_(self, value: Any) -> Tensor:
        """Takes one number everywhere.

        Args:
            value: a number, or a tensor of one.

        Example:
            >>> lg.zeros(2).fill_(7)
            tensor([7., 7.])
        """
        if isinstance(value, Handle):
            if node_of(value).meta.ndim:
                raise RuntimeError(
                    "fill_ only supports 0-dimension value tensor but got tensor with "
                    f"{node_of(value).meta.ndim} dimensions."
                )
            return self._take(value, value.requires_grad)
        check_expanded(self)
        if self.requires_grad and not path_of(self):  # and does so afterwards: a gradient of zero
            return rebind(self, resizing.fill(self, value), expanded=True)
        return rebind(self, generate.filled_as(self._node.meta, value), expanded=True)

    def zero_(self) -> Tensor:
        """Takes 0 everywhere.

        Example:
            >>> lg.ones(2).zero_()
            tensor([0., 0.])
        """
        return self.fill_(0)


def _only_of_leaves() -> RuntimeError:
    return RuntimeError(
        "you can only change requires_grad flags of leaf variables. If you want to use a computed "
        "variable in a subgraph that doesn't require differentiation use var_no_grad = "
        "var.detach()."
    )


def _shows_the_same(x: Tensor, other: Tensor) -> bool:
    """Whether two tensors show the same elements of one storage, whatever their histories."""
    if x is other or not shares_with(x, other):
        return x is other
    return _shown_elements(x) == _shown_elements(other)


def _shown_elements(x: Tensor) -> tuple[Any, ...]:
    """How the elements of a tensor that shares a cell lie in it, and whether as conjugates."""
    share = share_of(x)
    return *path_geometry(share.cell._node.meta, share.path), shows_conjugates(share.path)


def _real_number(value: Any) -> Any:
    """A number that has no imaginary part, without it."""
    if not isinstance(value, complex):
        return value
    if value.imag:
        raise RuntimeError("value cannot be converted to type double without overflow")
    return value.real


set_tensor_class(Tensor)
