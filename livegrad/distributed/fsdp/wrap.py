"""Which modules of a model are wrapped one by one: policies, and `wrap` in the model itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from livegrad.nn.container import ModuleDict, ModuleList
from livegrad.nn.module import Module


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Modules of which `lambda_fn` is true."""
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: Iterable[type[Module]],
) -> bool:
    """Modules of some classes."""
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Modules with at least so many parameters that are not wrapped yet."""
    leaves = force_leaf_modules or SIZE_LEAVES
    excluded = exclude_wrap_modules or SIZE_EXCLUDED
    if recurse:
        return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(leaves))
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(excluded))


SIZE_LEAVES: set[type[Module]] = set()
SIZE_EXCLUDED: set[type[Module]] = {ModuleList, ModuleDict}


class ModuleWrapPolicy:
    """Modules of some classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return True if recurse else isinstance(module, tuple(self._module_classes))


class CustomPolicy:
    """Modules of which `lambda_fn` is true, or a dict of arguments for their wrapper."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        return True if recurse else self._lambda_fn(module)


class _Enabled:
    """What `wrap` wraps with, inside `enable_wrap`."""

    wrapper: Any = None


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Within it, `wrap(module)` is `wrapper_cls(module, **wrapper_kwargs)`."""
    before, _Enabled.wrapper = _Enabled.wrapper, partial(wrapper_cls, **wrapper_kwargs)
    try:
        yield
    finally:
        _Enabled.wrapper = before


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module, wrapped if this is inside `enable_wrap`."""
    if _Enabled.wrapper is None:
        return module
    wrapped: Module = _Enabled.wrapper(module, **wrap_overrides)
    return wrapped


def wrap_inside(
    module: Module, policy: Any, wrapper: Callable[..., Module], ignored: set[Module]
) -> None:
    """Wraps the modules in a module that a policy says, those furthest inside first."""
    for name, child in list(module.named_children()):
        if child in ignored or isinstance(child, _class_of(wrapper)):
            continue
        size = sum(p.numel() for p in child.parameters())
        if policy(module=child, recurse=True, nonwrapped_numel=size):
            wrap_inside(child, policy, wrapper, ignored)
        left = size - sum(
            p.numel() for m in _wrapped_in(child, _class_of(wrapper)) for p in m.parameters()
        )
        found = policy(module=child, recurse=False, nonwrapped_numel=left)
        if found:
            more = found if isinstance(found, dict) else {}
            setattr(module, name, wrapper(child, **more))


def _class_of(wrapper: Any) -> type:
    cls: Any = wrapper.func if isinstance(wrapper, partial) else wrapper
    return cls  # type: ignore[no-any-return]


def _wrapped_in(module: Module, kind: type) -> list[Module]:
    """The outermost wrapped modules in a module."""
    found: list[Module] = []
    for child in module.children():
        found += [child] if isinstance(child, kind) else _wrapped_in(child, kind)
    return found


__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]
