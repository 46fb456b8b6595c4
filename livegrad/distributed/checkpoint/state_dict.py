"""State dicts of models and optimisers, by names that do not depend on how they are wrapped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from livegrad.autograd import no_grad
from livegrad.creation import zeros_like
from livegrad.distributed.naming import named_members, short_names
from livegrad.distributed.tensor.placed import DTensor
from livegrad.nn.module import Module
from livegrad.optim.optimizer import Optimizer
from livegrad.tensor import Tensor


@dataclass
class StateDictOptions:
    """What state dicts have, and how they are taken back."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


class Both(NamedTuple):
    """The state dicts of a model and of its optimisers."""

    model: dict[str, Any]
    optimizers: dict[str, Any]


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state dict of a model, by the names that its parameters have in the model itself."""
    options = options or StateDictOptions()
    names, frozen = short_names(model), _frozen(model)
    return {
        names[key]: _whole(value, options)
        for key, value in model.state_dict().items()
        if not (options.ignore_frozen_params and names[key] in frozen)
    }


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Takes it back."""
    options = options or StateDictOptions()
    long = {short: key for key, short in short_names(model).items()}
    renamed = {long.get(name, name): value for name, value in model_state_dict.items()}
    return model.load_state_dict(renamed, strict=options.strict)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of optimisers, with parameters by name; before a first step, one is made up."""
    options = options or StateDictOptions()
    names = {id(x): name for name, x in named_members(model)}
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _all(optimizers):
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            members = [names[id(p)] for p in group["params"]]
            rest = {k: v for k, v in group.items() if k != "params"}
            groups.append({**rest, "params": members})
            for name, p in zip(members, group["params"], strict=True):
                kept = optimizer.state.get(p, {})
                state[name] = {k: _whole(v, options) for k, v in kept.items()}
    if options.flatten_optimizer_state_dict:
        return _flattened(state, groups)
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Takes it back."""
    options = options or StateDictOptions()
    names = {id(x): name for name, x in named_members(model)}
    for optimizer in _all(optimizers):
        _init_optim_state(optimizer)
        own = optimizer.state_dict()
        numbered = [p for group in optimizer.param_groups for p in group["params"]]
        by_number = {i: names[id(p)] for i, p in enumerate(numbered)}
        if options.flatten_optimizer_state_dict:
            found = _unflattened(optim_state_dict, own, by_number)
        else:
            found = _numbered(optim_state_dict, own, by_number)
        optimizer.load_state_dict(found)


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> Both:
    """Both."""
    return Both(
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Takes both back."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


def _init_optim_state(optim: Optimizer) -> None:
    """Makes the state that a first step makes, without changing a parameter."""
    parameters = [p for group in optim.param_groups for p in group["params"]]
    if optim.state or any(p.grad is not None for p in parameters):
        return
    rates = [group["lr"] for group in optim.param_groups]
    for group in optim.param_groups:
        group["lr"] = group["lr"] * 0
    with no_grad():
        for p in parameters:
            if p.requires_grad:
                p.grad = zeros_like(p)
    optim.step(None)
    for group, rate in zip(optim.param_groups, rates, strict=True):
        group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def _all(optimizers: Any) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _frozen(model: Module) -> set[str]:
    learned = {id(p) for p in model.parameters()}
    return {n for n, x in named_members(model) if id(x) in learned and not x.requires_grad}


def _whole(value: Any, options: StateDictOptions) -> Any:
    if not isinstance(value, Tensor):
        return value
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.full_tensor()
    return value.cpu() if options.cpu_offload else value


def _numbered(given: dict[str, Any], own: Any, by_number: dict[int, str]) -> dict[str, Any]:
    """What an optimiser takes, of a state by names."""
    groups = []
    for group in own["param_groups"]:
        members = {by_number[i] for i in group["params"]}
        fitting = [g for g in given["param_groups"] if members & set(g["params"])]
        if not fitting:
            raise RuntimeError(f"the state dict has no group with the parameters {sorted(members)}")
        groups.append({**group, **fitting[0], "params": group["params"]})
    state = {i: given["state"][n] for i, n in by_number.items() if given["state"].get(n)}
    return {"state": state, "param_groups": groups}


def _flattened(state: dict[str, Any], groups: list[dict[str, Any]]) -> dict[str, Any]:
    out = {f"state.{n}.{k}": v for n, values in state.items() for k, v in values.items()}
    for group in groups:
        for name in group["params"]:
            settings = {k: v for k, v in group.items() if k != "params"}
            out |= {f"param_groups.{name}.{k}": v for k, v in settings.items()}
    return out


def _unflattened(given: dict[str, Any], own: Any, by_number: dict[int, str]) -> dict[str, Any]:
    groups, state = [], {}
    for group in own["param_groups"]:
        first = f"param_groups.{by_number[group['params'][0]]}."
        settings = {k: given.get(first + k, v) for k, v in group.items() if k != "params"}
        groups.append({**settings, "params": group["params"]})
    for i, name in by_number.items():
        start = f"state.{name}."
        found = {k[len(start) :]: v for k, v in given.items() if k.startswith(start)}
        if found:
            state[i] = found
    return {"state": state, "param_groups": groups}
