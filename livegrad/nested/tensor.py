"""Nested tensors of the layout `jagged`: components that differ in the size of one dim.

    values (2 + 4, 3)     all components, one after the other: the value that the graph knows
    offsets [0, 2, 6]     where each begins
    shape   (2, j1, 3)

A nested tensor *is* the tensor of its values, as far as recording and gradients are concerned; this
class says its shape, and what functions of several dims mean. Which functions: `answers.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from livegrad import overrides
from livegrad.creation import tensor
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Size
from livegrad.nested.ragged import NestedInt, Ragged
from livegrad.ops.shaping import movement
from livegrad.settings import jagged, strided
from livegrad.tensor import Tensor

# name of a function -> what it does with nested tensors: (function, args, kwargs) -> result
ANSWERS: dict[str, Any] = {}
STRIDED_ANSWERS: dict[str, Any] = {}
# Functions that concern the tensor of the values itself.
DIRECT = frozenset(
    """
    backward retain_grad register_hook register_post_accumulate_grad_hook requires_grad_
    requires_grad is_leaf grad_fn dtype device retains_grad output_nr element_size itemsize
    is_floating_point is_complex is_cuda is_cpu is_meta is_sparse is_quantized _version
    is_inference is_same_size share_memory_ is_shared data_ptr get_device type is_signed names
    untyped_storage storage_offset is_pinned real imag volatile is_conj is_neg
    __deepcopy__ __reduce_ex__ __setstate__
    """.split()
)


_GRAD: Any = Tensor.grad


def short_name(func: Any) -> str:
    """The name of a public function without its module, or of a property."""
    parts = str(overrides.resolve_name(func) or getattr(func, "__name__", "")).split(".")
    return parts[-2] if parts[-1] in ("__get__", "__set__") else parts[-1]


class Nested(Tensor):
    """What both layouts of nested tensors have in common."""

    is_nested = True
    _saved_tag = "$nested"
    _answers: ClassVar[dict[str, Any]] = {}

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The result of `func` for nested tensors."""
        name = short_name(func)
        with overrides.DisableTorchFunctionSubclass():
            found = cls._answers.get(name)
            if found is not None:
                return found(func, args, kwargs or {})
            if name in DIRECT:
                return func(*args, **(kwargs or {}))
        full = overrides.resolve_name(func) or name
        raise NotImplementedError(
            f"{full}: not supported for nested tensors; take components with unbind(), or "
            "to_padded_tensor() first"
        )

    @property
    def grad(self) -> Any:
        """The gradient, nested as the tensor is."""
        with overrides.DisableTorchFunctionSubclass():
            found = _GRAD.__get__(self)
            return None if found is None else self._like(found)

    @grad.setter
    def grad(self, value: Any) -> None:
        with overrides.DisableTorchFunctionSubclass():
            given = plain(value) if isinstance(value, Nested) else value
            _GRAD.__set__(self, given)

    def _like(self, values: Any) -> Any:
        """A nested tensor of the same sizes with other values."""
        raise NotImplementedError

    def _saved(self) -> dict[str, Any]:
        """Plain values that say all of it, for `livegrad.nested.from_saved`."""
        raise NotImplementedError

    def _shape(self) -> tuple[Any, ...]:
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Number of dims, that of the components included."""
        return len(self._shape())

    def dim(self) -> int:
        """Number of dims, that of the components included."""
        return self.ndim

    ndimension = dim

    def __len__(self) -> int:
        return int(self._shape()[0])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind())

    def __hash__(self) -> int:
        return id(self)

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The components."""
        return self._answers["unbind"](None, (self, dim), {})  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """RuntimeError: components have the numbers."""
        raise RuntimeError(".tolist() is not supported for nested tensors; use unbind() first")

    def numpy(self, **options: Any) -> Any:
        """RuntimeError: components have the numbers."""
        raise RuntimeError(".numpy() is not supported for nested tensors; use unbind() first")

    def __bool__(self) -> bool:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")


class NestedTensor(Nested):
    """A nested tensor of the layout `jagged`."""

    layout = jagged
    _answers = ANSWERS
    _ragged: Ragged
    _ragged_idx: int  # which dim is ragged, that of the components counted

    def _like(self, values: Any) -> Any:
        return nested(values, self._ragged, self._ragged_idx)

    def _saved(self) -> dict[str, Any]:
        ragged = self._ragged
        places = {"offsets": ragged.offsets, "lengths": ragged.lengths, "dim": self._ragged_idx}
        return {"values": plain(self).detach(), "requires_grad": self.requires_grad, **places}

    def _shape(self) -> tuple[Any, ...]:
        sizes: list[Any] = list(node_of(self).meta.shape)
        sizes[self._ragged_idx - 1] = self._ragged.size
        return (self._ragged.batch, *sizes)

    @property
    def shape(self) -> Any:
        """Sizes of the dims; that of the ragged one equals only itself."""
        return Size(self._shape())

    def size(self, dim: int | None = None) -> Any:  # type: ignore[override]
        """Sizes of the dims, or of one."""
        return self.shape if dim is None else self._shape()[dim]

    def numel(self) -> int:
        """Number of elements of all components."""
        values = node_of(self).meta
        if self._ragged.lengths is None:
            return values.numel
        row = values.numel // max(values.shape[self._ragged_idx - 1], 1)
        return sum(self._ragged.counts) * row

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """Strides as if each component had the ragged size."""
        along = list(node_of(self).meta.stride())
        total: Any = 1
        for size in self._shape()[1:]:
            total = size * total if isinstance(size, NestedInt) else total * size
        strides = (total, *along)
        return strides if dim is None else strides[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether components lie one after the other, each row by row."""
        whole = self._ragged.lengths is None and self._ragged_idx == 1
        return whole and node_of(self).meta.contiguous

    def values(self) -> Any:
        """All components, one after the other along the ragged dim."""
        return plain(self)

    def offsets(self) -> Any:
        """Where each component begins, and where the last ends."""
        return self._ragged.offsets

    def lengths(self) -> Any:
        """How long components are, if there are gaps between them; else None."""
        return self._ragged.lengths

    @property
    def _max_seqlen(self) -> int:
        return self._ragged.longest

    @property
    def _min_seqlen(self) -> int:
        return self._ragged.shortest

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        sizes = ", ".join([str(size) for size in self._shape()])
        more = ""
        if node_of(self).interior:
            more = f", grad_fn={self.grad_fn!r}"
        elif self.requires_grad:
            more = ", requires_grad=True"
        return (
            f"NestedTensor(size=({sizes}), offsets={self._ragged.offsets}{more}, "
            f"contiguous={self.is_contiguous()})"
        )


class StridedNestedTensor(Nested):
    """A nested tensor of the layout `strided`: any of its dims may be ragged.

    Its values are those of all components in one row; `_sizes` has the shape of each.
    """

    layout = strided
    _answers = STRIDED_ANSWERS
    _sizes: list[tuple[int, ...]]

    def _like(self, values: Any) -> Any:
        return strided_nested(values, self._sizes)

    def _saved(self) -> dict[str, Any]:
        values, sizes = plain(self).detach(), [list(size) for size in self._sizes]
        return {"values": values, "requires_grad": self.requires_grad, "sizes": sizes}

    def _shape(self) -> tuple[Any, ...]:
        sizes = self._sizes
        if not sizes:
            return (0,)
        # None where components differ
        along = [x[0] if len(set(x)) == 1 else None for x in zip(*sizes, strict=True)]
        return (len(sizes), *along)

    @property
    def shape(self) -> Any:
        """RuntimeError: some dims have no size."""
        raise RuntimeError(
            "a nested tensor of the layout strided has no shape; use size(dim), or the layout "
            "jagged"
        )

    def size(self, dim: int | None = None) -> Any:  # type: ignore[override]
        """Size of a dim, if components agree in it."""
        if dim is None:
            return self.shape
        sizes = self._shape()
        if sizes[dim] is None:
            raise RuntimeError(
                f"Given dimension {dim % len(sizes)} is irregular and does not have a size."
            )
        return sizes[dim]

    def numel(self) -> int:
        """Number of elements of all components."""
        return node_of(self).meta.numel

    nelement = numel

    def values(self) -> Any:
        """All elements in one row."""
        return plain(self)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True: components lie one after the other."""
        return True

    def _nested_tensor_size(self) -> Any:
        return tensor([list(size) for size in self._sizes])

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        parts = [f"  {part!r}".replace("\n", "\n  ") for part in self.unbind()]
        return "nested_tensor([\n" + ",\n".join(parts) + "\n])"


def plain(x: Any) -> Any:
    """The values of a nested tensor as a tensor that shares them, history included."""
    return movement.alias(x)


def nested(values: Any, ragged: Ragged, ragged_idx: int = 1) -> NestedTensor:
    """A nested tensor of these values, a tensor that nobody else holds."""
    out: NestedTensor = values._become(NestedTensor)
    out._ragged, out._ragged_idx = ragged, ragged_idx
    return out


def strided_nested(values: Any, sizes: list[tuple[int, ...]]) -> StridedNestedTensor:
    """A nested tensor of the layout strided, of values in one row that nobody else holds."""
    out: StridedNestedTensor = values._become(StridedNestedTensor)
    out._sizes = sizes
    return out
