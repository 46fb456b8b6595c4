"""Parameter and Buffer: tensors that a Module knows as its own, also before they have a shape."""

from __future__ import annotations

from typing import Any, NoReturn

from livegrad.creation import empty
from livegrad.dtypes import DType, as_dtype, get_default_dtype
from livegrad.graph.above import Above
from livegrad.graph.handle import wrap
from livegrad.native.hot import hot_slots
from livegrad.settings import strided
from livegrad.tensor import Tensor, disabled_torch_function


def _alias(data: Any) -> Any:
    """A tensor that shares the values of `data`, without their history."""
    return empty(0) if data is None else data.detach()


class _ParameterKind(type):
    """The class of `Parameter`, which learns to look closer with the first one of a subclass."""


def _is_parameter(cls: type, x: Any) -> bool:
    if type.__instancecheck__(cls, x):
        return True
    return cls is Parameter and isinstance(x, Tensor) and getattr(x, "_is_param", False)


def _of_its_own_class(data: Any, requires_grad: bool) -> Any:
    """A parameter that stays of the subclass that `data` has; `isinstance` knows it by a mark."""
    out = data.detach().requires_grad_(requires_grad)
    if type(out) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(data).__name__} requires that "
            f"detach() returns an instance of the same type, but return type {type(out).__name__} "
            "was found instead. To use the type as a Parameter, please correct the detach() "
            "semantics defined by its __torch_function__() implementation."
        )
    out._is_param = True
    _ParameterKind.__instancecheck__ = _is_parameter  # type: ignore[method-assign]
    return out


@hot_slots
class Parameter(Tensor, metaclass=_ParameterKind):
    """A tensor that is learned: assigned to a Module, it appears in its `parameters()`.

    It shares the values of `data`: a change of one in place is a change of both.

    Args:
        data: the values it starts with.
        requires_grad: whether it is learned; False freezes it.

    Example:
        >>> layer = nn.Module()
        >>> layer.weight = nn.Parameter(lg.zeros(3))
        >>> len(list(layer.parameters()))
        1
    """

    __slots__ = ()

    # What is computed with parameters is a Tensor.
    __torch_function__ = staticmethod(disabled_torch_function)

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if isinstance(data, Tensor) and not type(data).__module__.startswith("livegrad."):
            return _of_its_own_class(data, requires_grad)  # type: ignore[no-any-return]
        out: Parameter = _alias(data)
        if out.layout is not strided:
            sparse: Parameter = Above.sparse_parameters().SparseParameter(out, requires_grad)
            return sparse
        out.__class__ = cls
        if requires_grad:
            out.requires_grad_()
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A parameter of the same values, without its gradient, attributes or rest of a storage."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that is kept but not learned: assigned to a Module, it becomes a buffer."""

    __slots__ = ()
    __torch_function__ = staticmethod(disabled_torch_function)
    # Without a default here, which would make it none of the attributes that copies keep.
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        out: Buffer = _alias(data)
        out.__class__ = cls
        out.persistent = persistent
        if data is not None and data.requires_grad:
            out.requires_grad_()
        return out


# ------------------------------------------------------------------------------ not initialised


class _Unready:
    """The share of a tensor that cannot be used yet: whoever looks at it is refused."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError(
            "Attempted to use an uninitialized parameter or buffer. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating uninitialized tensors. When using "
            "LazyModules, call `forward` with a dummy batch to initialize the parameters before "
            "using them"
        )


class UninitializedTensorMixin(Tensor):
    """A tensor that gets its shape, and so its values, later: by `materialize`."""

    __slots__ = ()
    __torch_function__ = staticmethod(disabled_torch_function)
    cls_to_become: type[Any]

    @property
    def shape(self) -> NoReturn:
        """Raises: there is no shape yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    @property
    def is_leaf(self) -> bool:
        """True: it was computed from nothing."""
        return True

    @property
    def requires_grad(self) -> bool:
        """Whether gradients will be collected."""
        return bool(self.__dict__["_learned"])

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.__dict__["_learned"] = value

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Says whether gradients will be collected."""
        self.__dict__["_learned"] = requires_grad
        return self

    def detach(self) -> Any:
        """The tensor itself, which has no value to be cut from its history."""
        return self

    def convert_(self, function: Any) -> None:
        """Notes the dtype that `function`, which casts or moves tensors, gives to a value."""
        self._node = function(wrap(self._node))._node
        self.__dict__["_dtype"] = self._node.meta.dtype

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Makes this a tensor of `shape`, whose values are still to be written."""
        own = self.__dict__
        data = empty(*shape, device=device, dtype=dtype or own["_dtype"])
        self._node, self._share = data._node, None
        learned = own.pop("_learned")
        own.pop("_dtype")
        self.__class__ = self.cls_to_become
        if learned:
            self.requires_grad_()

    def share_memory_(self) -> NoReturn:
        """Raises: there are no values yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = _unready(type(self), self.requires_grad, self.__dict__["_dtype"])
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (_unready, (type(self), self.requires_grad, self.__dict__["_dtype"]))


def _unready(cls: Any, learned: bool, dtype: DType) -> Any:
    out: Any = wrap(empty(0, dtype=dtype)._node)
    out.__class__ = cls
    out._share = _Unready()
    out.__dict__.update(_learned=learned, _dtype=dtype)
    return out


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape is not known yet."""

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
        out: UninitializedParameter = _unready(cls, requires_grad, dtype)
        return out


class UninitializedBuffer(UninitializedTensorMixin):
    """A buffer whose shape is not known yet."""

    __slots__ = ()
    cls_to_become = Tensor
    persistent = True

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
        out: UninitializedBuffer = _unready(cls, requires_grad, dtype)
        out.persistent = persistent
        return out


def is_lazy(param: Any) -> bool:
    """Whether a tensor waits for its shape."""
    return isinstance(param, UninitializedTensorMixin)
