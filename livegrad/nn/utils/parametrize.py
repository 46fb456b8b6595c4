"""Parametrizations: parameters computed from others, such as a symmetric or orthogonal matrix.

module.weight            what the parametrizations make of the original, whenever it is read
module.parametrizations.weight.original      what is learned
module.parametrizations.weight[0]            the first parametrization, a Module
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import local
from typing import Any

from livegrad.autograd import no_grad
from livegrad.nn.container import ModuleDict, ModuleList
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.tensor import Tensor


class _Cache(local):
    """Values computed already, while `cached()` blocks are running."""

    depth = 0

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Within it, a parametrized tensor is computed once, however often it is read."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values = {}


def _register(module: Module, name: str, x: Any) -> None:
    if isinstance(x, Parameter):
        module.register_parameter(name, x)
    else:
        module.register_buffer(name, x)


def _check_like(what: str, given: Any, wanted: Any) -> None:
    """ValueError unless a value has the dtype and shape of the tensor it stands for."""
    if not isinstance(given, Tensor):
        raise ValueError(f"{what} must return a tensor. Got {type(given).__name__}")
    if given.dtype is not wanted.dtype:
        raise ValueError(
            f"{what} may not change the dtype of the tensor unless `unsafe` is enabled; expected "
            f"{wanted.dtype}, got {given.dtype}"
        )
    if given.shape != wanted.shape:
        raise ValueError(
            f"{what} may not change the shape of the tensor unless `unsafe` is enabled; expected "
            f"{wanted.shape}, got {given.shape}"
        )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order to `original` (or `original0`, …)."""

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            start = _undone(self, original)
        self.is_tensor = isinstance(start, Tensor)
        if not self.is_tensor and not isinstance(start, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(start).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            if not unsafe and start.dtype is not original.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype; got "
                    f"{start.dtype}, expected {original.dtype}"
                )
            if start is not original:
                original.data = start
            _register(self, "original", original)
        else:
            for i, part in enumerate(start):
                _register(self, f"original{i}", _part_like(part, original))
        if not unsafe:
            _check_like("A parametrization", self(), original)

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Gives the originals values from which `value` is computed."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            parts = [value] if self.is_tensor else list(value)
            if len(parts) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(parts)}."
                )
            for original, part in zip(self._originals(), parts, strict=True):
                if part.dtype is not original.dtype:
                    raise ValueError(
                        "The tensor returned by `right_inverse` has another dtype than the "
                        f"original; got {part.dtype}, expected {original.dtype}"
                    )
                original.data = part

    def forward(self) -> Any:
        """The value of the parametrized tensor."""
        value = self[0](*self._originals())
        for module in list(self)[1:]:
            value = module(value)
        return value


def _undone(modules: Any, value: Any) -> Any:
    """What the parametrizations would make `value` of, as far as they know."""
    for module in reversed(list(modules)):
        if hasattr(module, "right_inverse"):
            with suppress(NotImplementedError):  # it may exist for other options only
                value = module.right_inverse(value)
    return value


def _part_like(part: Any, original: Any) -> Any:
    if not isinstance(part, Tensor):
        raise ValueError(
            "'right_inverse' must return a Tensor or a Sequence of tensors. Got element of type "
            f"{type(part).__name__}"
        )
    if isinstance(original, Parameter):
        return Parameter(part, original.requires_grad)
    return part.detach().clone().requires_grad_(original.requires_grad)


# ------------------------------------------------------------------------ on the module's class


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    base: Any = type(self).__bases__[0]
    made = base.__new__(base)
    memo[id(self)] = made
    made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
    _give_own_class(made)  # properties of one are not those of the other
    for name in made.parametrizations:
        _add_property(made, name)
    return made


def _refuse_pickling(self: Any, protocol: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). Save that, "
        "and load it into a module with the same parametrizations"
    )


def _give_own_class(module: Any) -> None:
    """Makes the module the only one of a class of its own, to which properties can be added."""
    cls = type(module)
    name = f"Parametrized{cls.__name__}"
    body = {"__deepcopy__": _deepcopy, "__reduce_ex__": _refuse_pickling}
    module.__class__ = type(name, (cls,), body)
    type(module)._is_ours = cls._is_ours


def _add_property(module: Any, name: str) -> None:
    def read(self: Any) -> Any:
        made = self.parametrizations[name]
        if not _cache.depth:
            return made()
        key = (id(self), name)
        if key not in _cache.values:
            _cache.values[key] = made()
        return _cache.values[key]

    def write(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a parameter or buffer what `parametrization` computes from it, from now on.

    Args:
        parametrization: a Module from the original to the value. If it has a method
            `right_inverse`, the original starts as (and assignments go through) what it gives,
            which may be a sequence of tensors that `forward` takes.
        unsafe: values of another dtype or shape are accepted, and nothing is tried out.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _add_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module  # type: ignore[no-any-return]


def _append(module: Any, name: str, parametrization: Any, unsafe: bool) -> None:
    made = module.parametrizations[name]
    if not unsafe:
        with no_grad():
            value = getattr(module, name)
            changed = parametrization(value)
            _check_like("A parametrization", changed, value)
            if hasattr(parametrization, "right_inverse"):
                try:
                    back = parametrization.right_inverse(changed)
                except NotImplementedError:
                    pass
                else:
                    _check_like("parametrization.right_inverse", back, value)
    made.append(parametrization)
    made.unsafe = made.unsafe or unsafe


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether the module, or one of its tensors, has parametrizations."""
    made = module.__dict__.get("parametrizations")
    if not isinstance(made, ModuleDict):
        return False
    return len(made) > 0 if tensor_name is None else tensor_name in made


def remove_parametrizations(
    module: Any, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Makes a parametrized tensor an ordinary one, with its value (or that of the original)."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made = module.parametrizations[tensor_name]
    kind = made._originals()[0]
    with no_grad():
        value = getattr(module, tensor_name)
    if made.is_tensor:
        original = made.original
        if leave_parametrized:
            original.data = value
    elif not leave_parametrized:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    elif isinstance(kind, Parameter):
        original = Parameter(value, kind.requires_grad)
    else:
        original = value.clone().requires_grad_(kind.requires_grad)
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module  # type: ignore[no-any-return]


def type_before_parametrizations(module: Any) -> type[Any]:
    """The class of the module, without that made for its parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Module:
    """Gives `to_module` the parametrizations of another, and the values of their originals."""
    if not is_parametrized(from_module):
        return to_module  # type: ignore[no-any-return]
    if not isinstance(to_module, type_before_parametrizations(from_module)):
        raise AssertionError(
            "transfer_parametrizations_and_params: expected two modules of one class; got "
            f"{type_before_parametrizations(from_module)} and {type(to_module)}"
        )
    made = from_module.parametrizations
    names = list(made) if tensor_name is None else [tensor_name]
    for name in names:
        if name not in made:
            continue
        if not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(getattr(from_module, name).detach()))
        for module in made[name]:
            register_parametrization(to_module, name, copy.deepcopy(module), unsafe=True)
        target = to_module.parametrizations[name]
        for mine, theirs in zip(target._originals(), made[name]._originals(), strict=True):
            mine.data = theirs.detach()
    return to_module  # type: ignore[no-any-return]


__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]
