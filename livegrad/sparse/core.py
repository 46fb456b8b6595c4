"""`SparseTensor`: a Tensor that holds a pattern and a dense tensor of elements.

    SparseTensor ──► Pattern    where: indices, ordinary tensors of integers
                 ├─► elements   what: an ordinary tensor, (elements, *dense dims)
                 └─► _node      shape and dtype, and nothing to be computed: recording refuses it

Everything is computed by recorded operations on the elements, so gradients of any order flow
through these: a sparse tensor requires a gradient if its elements do, and its `grad` is theirs, at
the same places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad import autograd
from livegrad.device import SPARSE, Device
from livegrad.graph.elsewhere import not_for_sparse
from livegrad.graph.handle import Handle, leaf_node, node_of
from livegrad.graph.infer import TYPE_NAMES
from livegrad.graph.meta import Sizes, meta_elsewhere
from livegrad.graph.state import LOCAL
from livegrad.ops.elementwise.arithmetic import clone
from livegrad.ops.picking.gathering import embedding_lookup
from livegrad.ops.shaping.movement import alias, detach
from livegrad.settings import Layout
from livegrad.sparse.pattern import Compressed, Coo, Pattern
from livegrad.sparse.printing import sparse_text
from livegrad.tensor import Tensor, disabled_torch_function

if TYPE_CHECKING:
    from livegrad.dtypes import DType

Shape = tuple[int, ...]

# What PyTorch calls layouts in its errors.
LAYOUT_NAMES = {
    "strided": "Strided", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr",
    "sparse_csc": "SparseCsc", "sparse_bsr": "SparseBsr", "sparse_bsc": "SparseBsc",
}  # fmt: skip


def layout_name(layout: Layout) -> str:
    """PyTorch's name of a layout in errors."""
    return LAYOUT_NAMES[layout.name]


class _Refused:
    """The buffer of a node that stands for a sparse tensor: it says who refuses operations."""

    __slots__ = ("backend",)

    def __init__(self, backend: str) -> None:
        self.backend = backend


_OF_COO, _OF_COMPRESSED = _Refused("SparseCPU"), _Refused("SparseCsrCPU")


class SparseTensor(Tensor):
    """A tensor of which only some elements are there; the others are zero."""

    __slots__ = ()
    __torch_function__ = staticmethod(disabled_torch_function)
    # Kept by `_attributes` as our own: copies and pickles have their own way.
    _pattern: Pattern = None  # type: ignore[assignment]
    _elements: Tensor = None  # type: ignore[assignment]
    # What PyTorch calls the function that made it, if that is not what made its elements.
    _made: str | None = None
    # A gradient that was assigned, and what `grad` showed last.
    _assigned: Any = None
    _shown: Any = None
    # Filled in by the modules that have them: what a tensor has at the places of the elements of
    # another, and a sparse tensor from its pickled parts.
    _found_in: Callable[[Any, SparseTensor], Tensor]
    _rebuild: Callable[..., Any]

    # ---- what it is --------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        """Which kind of sparse tensor this is."""
        return self._pattern.layout

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether elements are given by their coordinates."""
        return isinstance(self._pattern, Coo)

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether this is a CSR tensor."""
        return self._pattern.layout.name == "sparse_csr"

    @property
    def device(self) -> Device:
        """Where the elements live."""
        return node_of(self._elements).meta.device

    @property
    def is_cpu(self) -> bool:
        """Whether the elements lie in the memory of the CPU."""
        return self._elements.is_cpu

    @property
    def is_meta(self) -> bool:
        """False: there are elements."""
        return self._elements.is_meta

    @property
    def nbytes(self) -> int:
        """Not known of sparse tensors, as in PyTorch."""
        return int(self._node.meta.numel) * self.dtype.itemsize

    def _coo(self, name: str) -> Coo:
        pattern = self._pattern
        if isinstance(pattern, Coo):
            return pattern
        raise RuntimeError(
            f"{name} expected sparse coordinate tensor layout but got {layout_name(pattern.layout)}"
        )

    def _set(self, pattern: Pattern, elements: Tensor, shape: Shape) -> SparseTensor:
        """Makes this the tensor of other elements."""
        self._pattern, self._elements = pattern, elements
        self._shown = None
        kind = _OF_COO if isinstance(pattern, Coo) else _OF_COMPRESSED
        with Sizes.unlimited():
            meta = meta_elsewhere(tuple(shape), node_of(elements).meta.dtype, SPARSE)
        self._node, self._share = leaf_node(meta, kind), None
        return self

    def is_coalesced(self) -> bool:
        """Whether no two elements are at one place, and they are in order."""
        return self._coo("is_coalesced").coalesced

    def sparse_dim(self) -> int:
        """How many dims are given by indices."""
        pattern = self._pattern
        return len(pattern.sizes) if isinstance(pattern, Coo) else 2

    def dense_dim(self) -> int:
        """How many dims each element has."""
        pattern, ndim = self._pattern, node_of(self._elements).meta.ndim
        if isinstance(pattern, Coo):
            return ndim - 1
        assert isinstance(pattern, Compressed)
        return ndim - 1 - len(pattern.batch) - 2 * pattern.blocked

    def _nnz(self) -> int:
        return self._pattern.count

    def indices(self) -> Tensor:
        """The indices of the elements, (sparse dims, elements); of a coalesced tensor only."""
        if not self._coo("indices").coalesced:
            raise RuntimeError(
                "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
            )
        return self._indices()

    def values(self) -> Tensor:
        """The elements; of a coalesced tensor only."""
        pattern = self._pattern
        if isinstance(pattern, Coo) and not pattern.coalesced:
            raise RuntimeError(
                "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
            )
        return alias(self._elements)

    def _indices(self) -> Tensor:
        return detach(self._coo("_indices").indices)

    def _values(self, reason: str | None = None) -> Any:
        """The elements without history; whoever gives a reason wants to read all of a dense one."""
        if reason is not None:
            raise not_for_sparse("to_dense", self._node.buffer.backend)
        return detach(self._elements)

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        pattern = self._coo("_coalesced_")
        self._pattern = Coo(pattern.indices, pattern.sizes, coalesced)
        return self

    # ---- gradients ---------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for the elements."""
        return self._elements.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._elements.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Says whether gradients are collected for this leaf."""
        self._elements.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether a gradient would be collected here."""
        return self._elements.is_leaf

    @property
    def grad_fn(self) -> Any:
        """What made this tensor, if a gradient flows through it."""
        found = self._elements.grad_fn
        if found is None or self._made is None:
            return found
        made = self._made
        own = type(made, (), {"name": lambda self: made, "next_functions": found.next_functions})
        return own()

    @property
    def output_nr(self) -> int:
        """0: functions that give sparse tensors give one."""
        return 0

    @property
    def _grad(self) -> Any:
        g = self._elements._grad
        if g is None:
            return self._assigned
        if self._shown is None or self._shown[0] is not g:
            self._shown = (g, self._with_gradient(g))
        return self._shown[1]

    @_grad.setter
    def _grad(self, value: Any) -> None:
        self._assigned, self._elements._grad = None, None
        if isinstance(value, SparseTensor) and value._pattern is self._pattern:
            self._elements._grad = value._elements
        else:
            self._assigned = value

    def _with_gradient(self, g: Tensor) -> SparseTensor:
        """The gradient of this tensor, of which `g` is that of its elements.

        An element that is there twice has one gradient.
        """
        pattern = self._pattern
        if isinstance(pattern, Coo):
            pattern, _, first = pattern.distinct()
            g = g if first is None else embedding_lookup(g, first)
        return make(pattern, g, self._node.meta.shape)

    def _gradient_of_elements(self, gradient: Any) -> Tensor:
        """The gradient of the elements, from one of this tensor: what it has at their places."""
        if not isinstance(gradient, Handle):
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if gradient.shape != self.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[0] has a shape of {gradient.shape} and output[0] "
                f"has a shape of {self.shape}."
            )
        if isinstance(gradient, SparseTensor) and gradient._pattern is self._pattern:
            return gradient._elements
        return self._found_in(gradient, self)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Adds the gradient of this tensor to `grad` of every leaf it was computed from."""
        if inputs is not None:
            given = inputs if isinstance(inputs, list | tuple) else [inputs]
            inputs = [x._elements if isinstance(x, SparseTensor) else x for x in given]
        g = self._gradient_of_elements(gradient)
        self._elements.backward(g, retain_graph, create_graph, inputs)

    def retain_grad(self) -> None:
        """Makes `backward` fill `grad` of this tensor although it is not a leaf."""
        self._elements.retain_grad()

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called on this tensor, which is not a leaf."""
        return self._elements.retains_grad

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Calls `hook(grad)` whenever the gradient of this tensor is computed."""
        shape = self._node.meta.shape

        def of_elements(g: Tensor) -> Any:
            result = hook(make(self._pattern, g, shape))
            return None if result is None else self._gradient_of_elements(result)

        return autograd.register_hook(self._elements, of_elements)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Any:
        """Calls `hook(tensor)` after `backward` has added to `grad` of this leaf."""
        return autograd.register_post_accumulate_grad_hook(self._elements, lambda _: hook(self))

    def detach(self) -> SparseTensor:
        """The same elements, without history."""
        return make(self._pattern, detach(self._elements), self._node.meta.shape, type(self))

    def detach_(self) -> SparseTensor:
        """Cuts the tensor from its history, in place."""
        self._elements.detach_()
        self._made = None
        return self

    @property
    def data(self) -> Tensor:
        """The elements without their history; writing to it writes to this tensor."""
        return make(self._pattern, self._elements.data, self._node.meta.shape)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, SparseTensor):
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
                "incompatible tensor type."
            )
        needs, g = self.requires_grad, self._grad
        self._set(value._pattern, detach(value._elements), value._node.meta.shape)
        self.requires_grad_(needs)
        self._grad = g

    @property
    def _version(self) -> int:
        return self._elements._version

    def is_inference(self) -> bool:
        """Whether the elements were made in inference mode."""
        return self._elements.is_inference()

    def _is_view(self) -> bool:
        return False

    @property
    def _base(self) -> None:
        return None

    # ---- copies ------------------------------------------------------------------------------

    def clone(self, *, memory_format: Any = None) -> SparseTensor:
        """A copy, through which gradients flow."""
        return like(self, clone(self._elements))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment. Use detach() or clone() first"
            )
        with _NoGrad():
            out = self.clone().detach()._become(type(self))
        out.requires_grad_(self.requires_grad)
        memo[id(self)] = out
        return out

    def __copy__(self) -> Any:
        return self.detach().requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        pattern = self._pattern
        parts = tuple([detach(x) for x in pattern.parts])
        layout = pattern.layout.name
        more = pattern.coalesced if isinstance(pattern, Coo) else None
        made = (type(self), layout, parts, detach(self._elements), tuple(self.shape), more)
        return self._rebuild, (*made, self.requires_grad)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return sparse_text(self)

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self))])

    def type(self, dtype: Any = None, non_blocking: Any = False) -> Any:
        """The name of the tensor's type, or the tensor as another dtype."""
        if dtype is not None:
            return like(self, self._elements.type(dtype))
        kind = "sparse" if isinstance(self._pattern, Coo) else "sparse_csr"
        return f"torch.{kind}.{TYPE_NAMES[self.dtype.name]}Tensor"


# Its subclasses of ours.
KINDS: set[type] = {SparseTensor}


class _NoGrad:
    """No gradients are recorded within it."""

    def __enter__(self) -> None:
        self.before, LOCAL.state.grad = LOCAL.state.grad, False

    def __exit__(self, *exception: object) -> None:
        LOCAL.state.grad = self.before


def make(
    pattern: Pattern, elements: Tensor, shape: Shape, kind: type[SparseTensor] = SparseTensor
) -> SparseTensor:
    """The sparse tensor of these elements."""
    out: SparseTensor = object.__new__(kind)
    return out._set(pattern, elements, shape)


def like(x: SparseTensor, elements: Tensor) -> SparseTensor:
    """The sparse tensor of other elements at the places of those of `x`."""
    return make(x._pattern, elements, x._node.meta.shape)


def dtype_of(x: Any) -> DType:
    """The dtype of a tensor, sparse or not."""
    return node_of(x).meta.dtype
