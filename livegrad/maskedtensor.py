"""MaskedTensor: a tensor some of whose elements are not there, as `torch.masked` has it.

A masked tensor *is* the tensor of its data, as far as recording is concerned, and has a mask of the
same shape. Elements for themselves: the data, the mask stays. Reductions: those of
`livegrad.masked`. Other shapes: of both. What is not listed here is refused, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from livegrad import dtypes, masked
from livegrad.ops.picking.masking import where
from livegrad.ops.shaping import movement
from livegrad.overrides import DisableTorchFunctionSubclass, resolve_name
from livegrad.overrides.pointwise import BINARY, UNARY
from livegrad.tensor import Tensor

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_GRAD: Any = Tensor.grad
_ANSWERS: dict[str, Any] = {}
_DIRECT = frozenset(
    """
    backward retain_grad register_hook register_post_accumulate_grad_hook requires_grad_
    requires_grad is_leaf grad_fn dtype device retains_grad element_size itemsize is_floating_point
    is_complex is_cuda is_cpu is_meta is_sparse is_quantized _version is_inference get_device type
    is_signed shape size dim ndim ndimension numel nelement stride is_contiguous __len__ output_nr
    __deepcopy__ __reduce_ex__ __setstate__ layout
    """.split()
)
_SHAPING = """
    reshape view flatten unflatten transpose t permute unsqueeze squeeze expand select narrow split
    chunk unbind T mT movedim moveaxis swapaxes swapdims ravel view_as tile repeat flip roll
    __getitem__ tensor_split diagonal index_select broadcast_to expand_as
""".split()


class MaskedTensor(Tensor):
    """A tensor with a mask: where that is False, there is no element."""

    _mask: Any
    _saved_tag = "$masked"

    def _saved(self) -> dict[str, Any]:
        data = movement.alias(self).detach()
        return {"data": data, "mask": self._mask, "requires_grad": self.requires_grad}

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
        return masked_tensor(data, mask, requires_grad)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: Args = (), kwargs: Any = None
    ) -> Any:
        """The result of `func` for masked tensors; NotImplemented for functions not listed."""
        full = str(resolve_name(func) or getattr(func, "__name__", "")).split(".")
        name = full[-2] if full[-1] in ("__get__", "__set__") else full[-1]
        with DisableTorchFunctionSubclass():
            found = _ANSWERS.get(name)
            if found is not None:
                return found(func, args, kwargs or {})
            if name in _DIRECT:
                return func(*args, **(kwargs or {}))
        return NotImplemented

    def get_data(self) -> Any:
        """The data, masked elements included."""
        return movement.alias(self)

    def get_mask(self) -> Any:
        """Which elements are there."""
        return self._mask

    def to_tensor(self, value: Any) -> Any:
        """A dense tensor with `value` where there is no element."""
        with DisableTorchFunctionSubclass():
            data = movement.alias(self)
            return where(self._mask, data, value).to(data.dtype)

    @property
    def grad(self) -> Any:
        """The gradient, masked as the tensor is."""
        with DisableTorchFunctionSubclass():
            found = _GRAD.__get__(self)
            return None if found is None else with_mask(movement.alias(found), self._mask)

    @grad.setter
    def grad(self, value: Any) -> None:
        with DisableTorchFunctionSubclass():
            given = movement.alias(value) if isinstance(value, MaskedTensor) else value
            _GRAD.__set__(self, given)

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    def __bool__(self) -> bool:
        raise RuntimeError("Boolean value of a masked tensor is ambiguous; use to_tensor() first")

    def tolist(self) -> Any:
        """RuntimeError: there may be elements that are not there."""
        raise RuntimeError(".tolist() is not supported for masked tensors; use to_tensor() first")

    def numpy(self, **options: Any) -> Any:
        """RuntimeError: there may be elements that are not there."""
        raise RuntimeError(".numpy() is not supported for masked tensors; use to_tensor() first")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        with DisableTorchFunctionSubclass():
            data, mask = movement.alias(self).detach().tolist(), self._mask.tolist()
        if not isinstance(data, list):
            return f"MaskedTensor({_element(data) if mask else '--'}, {mask})"
        text = _written(data, mask).replace("\n", "\n  ")
        return f"MaskedTensor(\n  {text}\n)"


def _element(x: Any) -> str:
    return f"{x:8.4f}" if isinstance(x, float) else str(x)


def _written(data: Any, mask: Any) -> str:
    if data and isinstance(data[0], list):
        rows = [_written(*row).replace("\n", "\n  ") for row in zip(data, mask, strict=True)]
        return "[\n  " + ",\n  ".join(rows) + "\n]"
    texts = [_element(x) for x in data]
    width = max([len(t) if m else 8 for t, m in zip(texts, mask, strict=True)], default=0)
    shown = [t if m else "--".rjust(width) for t, m in zip(texts, mask, strict=True)]
    return "[" + ", ".join(shown) + "]"


def with_mask(data: Any, mask: Any) -> Any:
    """A masked tensor of data that nobody else holds."""
    out: MaskedTensor = data._become(MaskedTensor)
    out._mask = mask
    return out


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor of a copy of data and mask, without history."""
    _check(data, mask)
    with DisableTorchFunctionSubclass():
        out: MaskedTensor = with_mask(data.detach().clone(), mask.detach().clone())
    return out.requires_grad_(requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """A masked tensor of the data itself, whose gradient goes where there are elements."""
    _check(data, mask)
    with DisableTorchFunctionSubclass():
        # Of elements that are not there no gradient comes, not even one that is NaN.
        kept = where(mask, data, data.detach()) if data.requires_grad else movement.alias(data)
        return with_mask(kept, mask)  # type: ignore[no-any-return]


def from_saved(saved: dict[str, Any]) -> MaskedTensor:
    """A masked tensor from what its `_saved` gave."""
    return masked_tensor(saved["data"], saved["mask"], saved["requires_grad"])


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether an object is a masked tensor."""
    return isinstance(obj, MaskedTensor)


def _check(data: Any, mask: Any) -> None:
    for x, name in ((data, "data"), (mask, "mask")):
        if not isinstance(x, Tensor) or isinstance(x, MaskedTensor):
            raise TypeError(f"{name} must be a Tensor")
    if mask.dtype is not dtypes.bool_:
        raise TypeError("mask must have dtype bool.")
    if data.ndim != mask.ndim:
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")


# ------------------------------------------------------------------------- each element for itself


def _data(x: Any) -> Any:
    return movement.alias(x) if isinstance(x, MaskedTensor) else x


def _masks(args: Args, kwargs: Kwargs) -> list[Any]:
    return [x._mask for x in (*args, *kwargs.values()) if isinstance(x, MaskedTensor)]


def _pointwise(func: Any, args: Args, kwargs: Kwargs) -> Any:
    masks = _masks(args, kwargs)
    mask = masks[0]
    for other in masks[1:]:
        if other is not mask and (other.shape != mask.shape or not other.equal(mask)):
            raise ValueError(
                "Input masks must match. If you need support for this, use to_tensor() of one."
            )
    plain = [
        _guarded(_data(x), mask) if not isinstance(x, MaskedTensor) else _data(x) for x in args
    ]
    result = func(*plain, **{k: _data(v) for k, v in kwargs.items()})
    if tuple(result.shape) != tuple(mask.shape):
        mask = mask.expand(result.shape)
    return with_mask(result, mask)


def _guarded(x: Any, mask: Any) -> Any:
    """An ordinary tensor as it meets a masked one: its gradient comes from what is there alone.

    Where nothing is, the gradient is 0 times the data, which may be NaN.
    """
    if not isinstance(x, Tensor) or not x.requires_grad:
        return x
    return where(mask, x, x.detach())


def _in_place(func: Any, args: Args, kwargs: Kwargs) -> Any:
    _pointwise(func, args, kwargs)
    return args[0]


def _gradients(func: Any, args: Args, kwargs: Any) -> Any:
    """Of `autograd.grad`: gradients of masked tensors are masked as these are."""
    given = args[1] if len(args) > 1 else kwargs["inputs"]
    inputs = [given] if isinstance(given, Tensor) else given
    return tuple(
        with_mask(movement.alias(g), x._mask)
        if isinstance(x, MaskedTensor) and g is not None
        else g
        for x, g in zip(inputs, func(*args, **kwargs), strict=True)
    )


def _where(func: Any, args: Args, kwargs: Kwargs) -> Any:
    condition, one, other = args
    masks = [x._mask if isinstance(x, MaskedTensor) else True for x in (one, other)]
    mask = where(_data(condition), *masks)
    return with_mask(func(_data(condition), _data(one), _data(other)), mask)


# ---------------------------------------------------------------------------------- other shapes


def _shaping(func: Any, args: Args, kwargs: Kwargs) -> Any:
    x, rest = args[0], args[1:]
    if any([isinstance(r, MaskedTensor) for r in rest]):
        rest = tuple([_data(r) for r in rest])
    data, mask = func(_data(x), *rest, **kwargs), func(x._mask, *rest, **kwargs)
    if isinstance(data, tuple | list):
        return type(data)([with_mask(d, m) for d, m in zip(data, mask, strict=True)])
    return with_mask(data, mask)


def _joining(func: Any, args: Args, kwargs: Kwargs) -> Any:
    tensors, rest = args[0], args[1:]
    masks = [
        x._mask if isinstance(x, MaskedTensor) else x.new_ones(x.shape, dtype=dtypes.bool_)
        for x in tensors
    ]
    data = func([_data(x) for x in tensors], *rest, **kwargs)
    return with_mask(data, func(masks, *rest, **kwargs))


# ------------------------------------------------------------------------------------ reductions


def _reduction(name: str) -> Any:
    reduce = getattr(masked, name)

    def run(func: Any, args: Args, kwargs: Kwargs) -> Any:
        x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
        mask = x._mask
        dim = rest.pop(0) if rest else kwargs.pop("dim", None)
        keepdim = rest.pop(0) if rest else kwargs.pop("keepdim", False)
        if name in ("std", "var"):
            kwargs["unbiased"] = bool(kwargs.pop("unbiased", kwargs.pop("correction", 1)))
        if name == "norm":
            kwargs = {"ord": kwargs.pop("p", 2), **kwargs}
        data = reduce(_data(x), dim=dim, keepdim=keepdim, mask=mask, **kwargs)
        there = mask.any() if dim is None else _any(mask, dim, keepdim)
        return with_mask(data, there)

    return run


def _any(mask: Any, dim: Any, keepdim: bool) -> Any:
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    for d in sorted([d % max(mask.ndim, 1) for d in dims], reverse=True):
        mask = mask.any(d, keepdim)
    return mask


def _all(func: Any, args: Args, kwargs: Kwargs) -> Any:
    x, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
    dim = rest.pop(0) if rest else kwargs.pop("dim", None)
    keepdim = rest.pop(0) if rest else kwargs.pop("keepdim", False)
    data = _data(x).to(dtypes.bool_) | ~x._mask
    if dim is None:
        return with_mask(data.all(), x._mask.any())
    return with_mask(data.all(dim, keepdim), _any(x._mask, dim, keepdim))


def _along(name: str) -> Any:
    normalise = getattr(masked, name)

    def run(func: Any, args: Args, kwargs: Kwargs) -> Any:
        x, rest = args[0], list(args[1:])
        dim = rest[0] if rest else kwargs["dim"]
        options = {"dtype": kwargs["dtype"]} if kwargs.get("dtype") is not None else {}
        return with_mask(normalise(_data(x), dim, mask=x._mask, **options), x._mask)

    return run


for _name in (*UNARY, *BINARY):
    _changes = (_name.endswith("_") and not _name.startswith("__")) or _name.startswith("__i")
    _ANSWERS[_name] = _in_place if _changes and _name != "__invert__" else _pointwise
    if not _name.startswith("__"):
        _ANSWERS.setdefault(f"{_name}_", _in_place)
for _name in ("requires_grad_", "type", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
    _ANSWERS.pop(_name, None)
for _name in ("masked_fill", "masked_fill_", "equal", "copy_"):
    _ANSWERS.pop(_name, None)
for _name in _SHAPING:
    _ANSWERS[_name] = _shaping
for _name in ("cat", "stack", "concat", "concatenate", "hstack", "vstack"):
    _ANSWERS[_name] = _joining
for _name in ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "var", "std", "norm"):
    _ANSWERS[_name] = _reduction(_name)
for _name in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod"):
    _ANSWERS[_name] = _along(_name)
_ANSWERS["all"] = _all
_ANSWERS["grad"] = _gradients
_ANSWERS["where"] = _where
