"""What sparse tensors answer: their methods, and the public functions that may be given one.

The methods of a sparse tensor are those below; whatever else a Tensor has is refused. Functions and
methods of dense tensors that may meet a sparse one look at their arguments from the moment when the
first sparse tensor can be made (`ops/support/public.py`), and only those: all others refuse it when
they record.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, NoReturn

from livegrad import creation
from livegrad.graph.elsewhere import not_for_sparse
from livegrad.graph.handle import Handle
from livegrad.methods import inplace
from livegrad.ops.shaping.movement import sizes_of
from livegrad.ops.support.public import answered, exchange
from livegrad.ops.support.strangers import Asking
from livegrad.settings import strided
from livegrad.sparse import converting, ends, folding, making, moving, pointwise, products
from livegrad.sparse.core import KINDS, SparseTensor, layout_name, like
from livegrad.sparse.pattern import Compressed
from livegrad.tensor import Tensor

# --------------------------------------------------------------------------------- small methods


def _part(name: str, place: int, by_columns: int) -> Any:
    kind = "column" if by_columns else "row"

    def method(self: SparseTensor) -> Tensor:
        pattern = self._pattern
        if not isinstance(pattern, Compressed) or pattern.by_columns != by_columns:
            raise RuntimeError(
                f"{name} expected sparse {kind} compressed tensor layout but got "
                f"{layout_name(pattern.layout)}"
            )
        return pattern.parts[place].detach()

    return _named(method, name, "Indices of a compressed tensor.")


def _named(method: Any, name: str, text: str) -> Any:
    method.__name__ = method.__qualname__ = name
    method.__doc__ = text
    return method


def _to(self: SparseTensor, *target: Any, **options: Any) -> Any:
    """The tensor as another dtype or on another device; itself if nothing changes."""
    given = [x._elements if isinstance(x, SparseTensor) else x for x in target]
    for x in given:
        if isinstance(x, Handle) and not any(x is y._elements for y in target if type(y) in KINDS):
            raise RuntimeError(
                "to(options) doesn't support converting to a different layout, but got "
                f"self.layout being {layout_name(self.layout)} and options.layout set as Strided"
            )
    options.pop("memory_format", None)
    elements = self._elements.to(*given, **options)
    return self if elements is self._elements else like(self, elements)


def _cast(name: str) -> Any:
    def method(self: SparseTensor, memory_format: Any = None) -> Any:
        elements = getattr(self._elements, name)()
        return self if elements is self._elements else like(self, elements)

    return _named(method, name, f"The tensor as `{name}`.")


def _new(name: str) -> Any:
    def method(self: SparseTensor, *size: Any, **options: Any) -> Any:
        shape = sizes_of(name, size, options.get("size"))
        layout = options.get("layout") or self.layout
        dtype = options.get("dtype") or self.dtype
        if layout is strided:
            return getattr(self._elements, name)(shape, dtype=dtype)
        needs = bool(options.get("requires_grad"))
        return making.made_with(name.replace("new_", "") + "_like", shape, layout, dtype, needs)

    return _named(method, name, "A sparse tensor without elements.")


def _like(name: str) -> Any:
    def function(input: SparseTensor, *value: Any, **options: Any) -> Any:
        layout = options.get("layout") or input.layout
        dtype = options.get("dtype") or input.dtype
        needs = bool(options.get("requires_grad"))
        if name == "empty_like" and layout is input.layout and not input.is_sparse:
            return like(input, creation.zeros_like(input._elements, dtype=dtype)).requires_grad_(
                needs
            )
        if layout is strided:
            made = getattr(creation, name)
            return made(creation.empty(input.shape), *value, dtype=dtype, requires_grad=needs)
        return making.made_with(name, tuple(input.shape), layout, dtype, needs)

    return function


def _item(self: SparseTensor) -> Any:
    """The value of a one-element tensor as a Python number."""
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    return converting.dense(self).item()


def _truth(self: SparseTensor) -> bool:
    if self.numel() != 1:
        what = "no values" if not self.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(_item(self))


def _no_numpy(self: SparseTensor, *args: Any, **options: Any) -> NoReturn:
    raise TypeError(
        f"can't convert {layout_name(self.layout)} layout tensor to numpy. Use Tensor.to_dense() "
        "first."
    )


def _raising(error: Callable[[SparseTensor], Exception]) -> Any:
    def method(self: SparseTensor, *args: Any, **options: Any) -> NoReturn:
        raise error(self)

    return method


def _no_pointer(self: SparseTensor) -> Exception:
    return RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


def _no_storage(self: SparseTensor) -> Exception:
    kind = "SparseTensorImpl" if self.is_sparse else "SparseCsrTensorImpl"
    return NotImplementedError(f"Cannot access storage of {kind}")


def _no_reshape(self: SparseTensor) -> Exception:
    if self.is_sparse:
        return RuntimeError("reshape is not implemented for sparse tensors")
    return RuntimeError("Sparse CSR tensors do not have is_contiguous")


def _no_expand(self: SparseTensor) -> Exception:
    return RuntimeError(f"expand is unsupported for {layout_name(self.layout)} tensors")


def _strides(self: SparseTensor, dim: int | None = None) -> Any:
    """Zeros, as in PyTorch; compressed tensors have none."""
    if not self.is_sparse:
        raise RuntimeError("Sparse CSR tensors do not have strides")
    return (0,) * self.ndim if dim is None else 0


def _is_contiguous(self: SparseTensor, memory_format: Any = None) -> bool:
    """False."""
    if not self.is_sparse:
        raise RuntimeError("Sparse CSR tensors do not have is_contiguous")
    return False


def _no_format(self: SparseTensor) -> Exception:
    if not self.is_sparse:
        return RuntimeError("Sparse CSR tensors do not have is_contiguous")
    return RuntimeError("unsupported memory format option Contiguous")


def _no_assignment(self: SparseTensor) -> Exception:
    return TypeError("Cannot assign to a sparse tensor")


def _reflected(function: Any) -> Any:
    return lambda self, other: function(other, self)


def _no_nbytes(self: SparseTensor) -> int:
    raise RuntimeError(
        "nbytes is not defined for sparse tensors.  If you want the size of the constituent "
        "tensors, add the nbytes of the indices and values.  If you want the size of the  "
        "equivalent dense tensor, multiply numel() by element_size()"
    )


# ------------------------------------------------------------------------------- table of methods

_UNARY = {name: pointwise.of_one(name) for name in (*pointwise.LINEAR, *pointwise.CURVED)}
_BINARY = {
    "add": pointwise.add, "sub": pointwise.sub, "subtract": pointwise.sub, "mul": pointwise.mul,
    "multiply": pointwise.mul, "div": pointwise.div, "divide": pointwise.div,
    "true_divide": pointwise.div, "floor_divide": pointwise.floor_divide, "pow": pointwise.pow,
}  # fmt: skip
_WITHOUT_IN_PLACE = {"isinf", "isnan", "isneginf", "isposinf", "signbit", "angle", "positive"}
_WITHOUT_IN_PLACE |= {"resolve_conj", "resolve_neg"}
_IN_PLACE = {
    f"{name}_": pointwise.in_place(f"{name}_", function)
    for name, function in {**_UNARY, **_BINARY}.items()
    if name not in _WITHOUT_IN_PLACE
}
_MOVING = {
    "transpose": moving.transpose, "swapaxes": moving.transpose, "swapdims": moving.transpose,
    "permute": moving.permute, "t": moving.t, "movedim": moving.movedim,
    "moveaxis": moving.movedim, "unsqueeze": moving.unsqueeze, "select": moving.select,
    "index_select": moving.index_select, "narrow": moving.narrow, "narrow_copy": moving.narrow,
    "unbind": moving.unbind,
}  # fmt: skip
_PRODUCTS = {
    "mm": products.mm, "matmul": products.matmul, "mv": products.mv, "bmm": products.bmm,
    "addmm": products.addmm, "addmv": products.addmv, "smm": products.smm,
    "sspaddmm": products.sspaddmm, "hspmm": products.hspmm,
}  # fmt: skip
_FOLDING = {"sum": folding.sum_of, "norm": folding.norm, "any": pointwise.any_of}
_CONVERTING = {
    name: getattr(converting, name)
    for name in "to_dense coalesce sparse_mask to_sparse to_sparse_coo to_sparse_csr to_sparse_csc "
    "to_sparse_bsr to_sparse_bsc".split()
}
_CASTS = {
    name: _cast(name)
    for name in "float double half bfloat16 cfloat cdouble chalf long int short char byte "
    "bool".split()
}
_WRITING = {
    name: getattr(moving, name)
    for name in "sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_ zero_ copy_".split()
}
_OTHERS: dict[str, Any] = {
    "conj": _UNARY["conj_physical"],
    "adjoint": lambda self: _UNARY["conj_physical"](moving.transpose(self, -2, -1)),
    "t_": pointwise.in_place("t_", moving.t),
    "transpose_": pointwise.in_place("transpose_", moving.transpose),
    "crow_indices": _part("crow_indices", 0, 0),
    "col_indices": _part("col_indices", 1, 0),
    "ccol_indices": _part("ccol_indices", 0, 1),
    "row_indices": _part("row_indices", 1, 1),
    "to": _to,
    "cpu": lambda self, memory_format=None: _to(self, "cpu"),
    "type_as": lambda self, other: _to(self, other),
    "new_zeros": _new("new_zeros"),
    "new_empty": _new("new_empty"),
    "new_ones": _new("new_ones"),
    "new_full": lambda self, size, value, **options: _new("new_full")(self, size, **options),
    "new_tensor": lambda self, data, **options: creation.tensor(
        data, **{"dtype": self.dtype, **options}
    ),
    "item": _item,
    "is_nonzero": _truth,
    "numpy": _no_numpy,
    "stride": _strides,
    "is_contiguous": _is_contiguous,
    "contiguous": _raising(_no_format),
    "storage_offset": lambda self: 0,
    "data_ptr": _raising(_no_pointer),
    "const_data_ptr": _raising(_no_pointer),
    "tolist": _raising(_no_pointer),
    "storage": _raising(_no_storage),
    "untyped_storage": _raising(_no_storage),
    "reshape": _raising(_no_reshape),
    "flatten": _raising(_no_reshape),
    "expand": _raising(_no_expand),
    "expand_as": _raising(_no_expand),
    "repeat": _raising(_no_expand),
    "is_conj": lambda self: False,
    "share_memory_": lambda self: self,
}
_OPERATORS: dict[str, Any] = {
    "__add__": pointwise.add,
    "__radd__": _reflected(pointwise.add),
    "__sub__": pointwise.sub,
    "__rsub__": _reflected(pointwise.sub),
    "__mul__": pointwise.mul,
    "__rmul__": pointwise.mul,
    "__truediv__": pointwise.div,
    "__rtruediv__": _reflected(pointwise.div),
    "__floordiv__": pointwise.floor_divide,
    "__pow__": pointwise.pow,
    "__matmul__": products.matmul,
    "__rmatmul__": _reflected(products.matmul),
    "__neg__": _UNARY["neg"],
    "__pos__": lambda self: self,
    "__abs__": _UNARY["abs"],
    "__iadd__": _IN_PLACE["add_"],
    "__isub__": _IN_PLACE["sub_"],
    "__imul__": _IN_PLACE["mul_"],
    "__itruediv__": _IN_PLACE["div_"],
    "__getitem__": moving.getitem,
    "__setitem__": _raising(_no_assignment),
    "__bool__": _truth,
    "__int__": lambda self: int(_item(self)),
    "__float__": lambda self: float(_item(self)),
    "__array__": _no_numpy,
}
METHODS: dict[str, Any] = {
    **_UNARY, **_BINARY, **_IN_PLACE, **_MOVING, **_PRODUCTS, **_FOLDING, **_CONVERTING, **_CASTS,
    **_WRITING, **_OTHERS, **_OPERATORS,
}  # fmt: skip
# What sparse tensors have in common with dense ones, because shape and dtype are enough.
SHARED = frozenset(
    """
    size dim ndimension numel nelement element_size is_floating_point is_complex is_signed is_neg
    is_same_size get_device is_distributed cuda xpu is_shared is_pinned pin_memory as_subclass
    __new__ __init__ __len__ __hash__ __init_subclass__ __torch_function__ __setstate__
    """.split()
)
_PROPERTIES = {
    "T": property(lambda self: moving.permute(self, *range(self.ndim - 1, -1, -1))),
    "mT": property(lambda self: moving.transpose(self, -2, -1)),
    "H": property(_OTHERS["adjoint"]),
    "mH": property(_OTHERS["adjoint"]),
    "nbytes": property(_no_nbytes),
}


def _refusing(name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> NoReturn:
        raise not_for_sparse(name.strip("_"), self._node.buffer.backend)

    return _named(method, name, "Not for sparse tensors.")


def give_methods() -> None:
    """Gives sparse tensors their methods, and has them refuse the others of Tensor."""
    own = vars(SparseTensor)
    for cls in Tensor.__mro__[:-1]:
        for name, member in list(vars(cls).items()):
            private = name.startswith("_") and not name.startswith("__")
            known = name in own or name in SHARED or name in METHODS
            if isinstance(member, FunctionType) and not private and not known:
                setattr(SparseTensor, name, _refusing(name))
    for name, method in {**METHODS, **_PROPERTIES}.items():
        setattr(SparseTensor, name, method)


# ------------------------------------------------------------------------------ public functions


class _Ask:
    """A call of a public function that may have been given a sparse tensor."""

    __slots__ = ("answer", "plain")

    def __init__(self, answer: Any, plain: FunctionType) -> None:
        self.answer = answer
        self.plain = plain

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for x in args:
            if type(x) in KINDS:
                return _answer(self.answer, args, kwargs)
        if kwargs:
            for x in kwargs.values():
                if type(x) in KINDS:
                    return _answer(self.answer, args, kwargs)
        return self.plain(*args, **kwargs)


class _AskSeveral(_Ask):
    """Of one that is given sequences of tensors."""

    __slots__ = ()

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for x in (*args, *kwargs.values()):
            if type(x) in KINDS or (
                isinstance(x, list | tuple) and any(type(y) in KINDS for y in x)
            ):
                return _answer(self.answer, args, kwargs)
        return self.plain(*args, **kwargs)


def _answer(answer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if "out" not in kwargs:
        return answer(*args, **kwargs)
    out = kwargs.pop("out")
    result = answer(*args, **kwargs)
    if isinstance(out, SparseTensor):
        return out._set(result._pattern, result._elements, result._node.meta.shape)
    if out is None:
        return result
    if out.shape != result.shape:
        out.resize_(*result.shape)
    return out.copy_(result)


_JOINING = {
    "cat": moving.cat, "concat": moving.cat, "concatenate": moving.cat, "stack": moving.stack,
    "vstack": moving.vstack, "row_stack": moving.vstack, "hstack": moving.hstack,
}  # fmt: skip
_LIKE = {
    f"{kind}_like": _like(f"{kind}_like") for kind in "zeros ones empty full rand randn".split()
}


def _mul_dense(self: Any, other: Any) -> Any:
    return converting.dense(pointwise.mul(self, other))


def _copy_from_sparse(self: Any, src: Any, non_blocking: bool = False) -> NoReturn:
    raise RuntimeError(
        "copy_() between dense and sparse Tensors is not implemented! Found self type = "
        f"{self.type()} and src type = {src.type()}"
    )


_DENSE_NAMES = "add sub subtract mul multiply mm matmul mv bmm addmm addmv div".split()
# Methods of dense tensors that may be given a sparse one.
_DENSE: dict[str, Any] = {
    **{name: METHODS[name] for name in _DENSE_NAMES},
    "add_": inplace(pointwise.add),
    "__iadd__": inplace(pointwise.add),
    "sub_": inplace(pointwise.sub),
    "__isub__": inplace(pointwise.sub),
    "addmm_": inplace(products.addmm),
    "mul_": inplace(_mul_dense),
    "__imul__": inplace(_mul_dense),
    "copy_": _copy_from_sparse,
}


def install() -> None:
    """Has the public functions that may be given a sparse tensor look at their arguments."""
    functions = {**_UNARY, **_BINARY, **_MOVING, **_PRODUCTS, **_FOLDING, **_LIKE}
    functions |= {name: METHODS[name] for name in ("conj", "adjoint", "reshape", "flatten")}
    functions["broadcast_to"] = METHODS["expand"]
    functions |= {
        "clone": SparseTensor.clone,
        "detach": SparseTensor.detach,
        "rsub": pointwise.rsub,
    }
    livegrad = sys.modules["livegrad"]
    for name, answer in functions.items():
        _change(livegrad, name, answer)
    for name, answer in _JOINING.items():
        _change(livegrad, name, answer, _AskSeveral)
    for cls in Tensor.__mro__[:-1]:
        for name, answer in _DENSE.items():
            _change(cls, name, answer)
    for function, answer in ends.ANSWERS.items():
        answered(function, partial(_of_autograd, answer))
    Asking.add(_install_in)


def _of_autograd(answer: Any, plain: FunctionType) -> _Ask:
    return _AskSeveral(partial(answer, plain), plain)


_changed: set[FunctionType] = set()


def _change(place: Any, name: str, answer: Any, kind: type[_Ask] = _Ask) -> None:
    function = vars(place).get(name)
    if isinstance(function, FunctionType) and function not in _changed:
        _changed.add(function)
        answered(function, partial(kind, answer))


def _install_in(package: str) -> None:
    """The same for what modules of a package call."""
    if package == "livegrad.nn":
        functional = sys.modules["livegrad.nn.functional"]
        _change(functional, "linear", products.linear)
        for name in ("relu", "tanh"):
            _change(functional, name, METHODS[name])
    exchange(package, _changed)
