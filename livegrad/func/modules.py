"""Modules as functions of their parameters: functional_call, stack_module_state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from livegrad.ops.shaping.joining import stack
from livegrad.tensor import Tensor

Tensors = dict[str, Tensor]


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with other tensors for (some of) its parameters and buffers.

    Args:
        parameter_and_buffer_dicts: tensors by name, as `named_parameters` gives them; or several
            such dicts.
        tie_weights: whether parameters that are one tensor in the module stay one.
        strict: whether the names must be exactly those of the module.
    """
    given = _merged(parameter_and_buffer_dicts)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with replaced_members(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def _merged(dicts: Any) -> Tensors:
    if isinstance(dicts, Mapping):
        return dict(dicts)
    if not isinstance(dicts, Sequence):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    if not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for d in dicts for name in d]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior is ambiguous")
    return {name: x for d in dicts for name, x in d.items()}


@contextmanager
def replaced_members(
    module: Any, given: Tensors, tie_weights: bool = True, strict: bool = False
) -> Iterator[None]:
    """Within it, the module has other tensors for parameters and buffers.

    Buffers that the module gives another tensor meanwhile are found in `given` afterwards.
    """
    own = dict(_members(module))
    if strict:
        _check_names(own, given)
    wanted = _with_ties(own, given) if tie_weights else given
    before = []
    try:
        for name, value in wanted.items():
            table, key = _table_of(module, name)
            before.append((table, key, table.get(key)))
            table[key] = value
        yield
    finally:
        for name in given:
            table, key = _table_of(module, name)
            if key in table:
                given[name] = table[key]
        for table, key, value in reversed(before):
            table[key] = value


def _members(module: Any) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _check_names(own: Tensors, given: Tensors) -> None:
    missing, unexpected = sorted(set(own) - set(given)), sorted(set(given) - set(own))
    if missing or unexpected:
        parts = [
            f"{what} key(s): {', '.join(names)}."
            for what, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        raise RuntimeError("Error(s) in reparametrizing: " + " ".join(parts))


def _with_ties(own: Tensors, given: Tensors) -> Tensors:
    """`given`, with other names of the same tensors added."""
    names: dict[int, list[str]] = {}
    for name, x in own.items():
        names.setdefault(id(x), []).append(name)
    wanted = dict(given)
    for together in names.values():
        replaced = {id(given[name]): given[name] for name in together if name in given}
        if len(replaced) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(together)}, which are tied. "
                "Consider using tie_weights=False"
            )
        for value in replaced.values():
            wanted.update(dict.fromkeys(together, value))
    return wanted


def _table_of(module: Any, name: str) -> tuple[Any, str]:
    """The table of a submodule that holds a parameter or buffer, and its name there."""
    *path, key = name.split(".")
    for part in path:
        module = module._modules[part] if part in module._modules else getattr(module, part)
    if key in module._parameters:
        return module._parameters, key
    if key in module._buffers:
        return module._buffers, key
    raise AttributeError(f"{type(module).__name__} has no parameter or buffer {key!r} ({name!r})")


def stack_module_state(models: Any) -> tuple[Tensors, Tensors]:
    """(parameters, buffers) of several like modules, each stacked along a new first dim."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    first = models[0]
    if any(m.training != first.training for m in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(first) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {
        name: _stacked([dict(m.named_parameters())[name] for m in models])
        for name, _ in first.named_parameters()
    }
    buffers = {
        name: _stacked([dict(m.named_buffers())[name] for m in models])
        for name, _ in first.named_buffers()
    }
    return parameters, buffers


def _stacked(tensors: list[Tensor]) -> Tensor:
    wanted = {bool(x.requires_grad) for x in tensors}
    if len(wanted) > 1:
        raise RuntimeError(
            "Expected tensors from the different models to have the same .requires_grad"
        )
    whole = stack([x.detach() for x in tensors])
    return whole.requires_grad_() if wanted == {True} else whole
