"""A whole run in one file: everything that decides how it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from livegrad.graph.handle import Handle
from livegrad.optim.optimizer import Optimizer
from livegrad.serialization import load, save
from livegrad.train.seeding import (
    generator_state,
    is_generator,
    rng_state,
    set_generator_state,
    set_rng_state,
)

VERSION = 1
_KEYS = {"livegrad_run", "objects", "values", "rng"}


def save_run(path: Any, /, **state: Any) -> None:
    """Saves a run to one file, from which `load_run` has it go on exactly as it would have.

        save_run("run.safetensors", model=model, optimizer=optimizer, scheduler=scheduler,
                 loader=loader, epoch=epoch, step=step)

    Of what has `state_dict` and `load_state_dict` (modules, optimisers, schedulers, a DataLoader
    with its position, metrics, EarlyStopping, Accumulate, …) the state is saved; generators of
    random numbers are saved as where they are; everything else as a value (numbers, strings,
    tensors, lists, dicts). The states of the generators of livegrad, NumPy and Python are always
    included. The file is replaced in one go: a run that is killed meanwhile leaves the old one.
    """
    objects = {name: _state_of(x) for name, x in state.items() if _has_state(x)}
    values = {name: x for name, x in state.items() if name not in objects}
    run = {"livegrad_run": VERSION, "objects": objects, "values": values, "rng": rng_state()}
    save(run, path, format="safetensors")


def load_run(
    path: Any, /, *, strict: bool = True, restore_rng: bool = True, **objects: Any
) -> dict[str, Any]:
    """Puts objects back to what they were at `save_run`; returns the values saved with them.

        values = load_run("run.safetensors", model=model, optimizer=optimizer,
                          scheduler=scheduler, loader=loader)
        start = values["epoch"]

    Give the same objects under the same names, made as they were made then. With `strict=False`
    some may be left out, or be unknown to the file. `restore_rng=False` leaves the generators of
    random numbers of the program alone.
    """
    run = _checked(path, load(path))
    saved: dict[str, Any] = run["objects"]
    for name, x in objects.items():
        if not _has_state(x):
            raise TypeError(
                f"load_run: {name} is a {type(x).__name__}, which has no load_state_dict; values "
                "are returned, not given"
            )
    if strict:
        _check_names(path, saved, objects, run["values"])
    for name, x in objects.items():
        if name in saved:
            _restore(x, saved[name])
    if restore_rng:
        set_rng_state(run["rng"])
    values: dict[str, Any] = run["values"]
    return values


def _checked(path: Any, run: Any) -> dict[str, Any]:
    if not isinstance(run, dict) or not set(run) >= _KEYS:
        raise ValueError(f"load_run: {path} is not a run; expected a file that save_run wrote")
    if run["livegrad_run"] != VERSION:
        raise ValueError(
            f"load_run: {path} is a run of version {run['livegrad_run']}; expected {VERSION}"
        )
    return run


def _check_names(
    path: Any, saved: Mapping[str, Any], given: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    absent = sorted(set(given) - set(saved))
    if absent:
        raise ValueError(
            f"load_run: {path} has no state of {', '.join(absent)}; it has "
            f"{', '.join(sorted(saved)) or 'none'}, and the values {', '.join(sorted(values))}. "
            "To load what is there, give strict=False"
        )
    missing = sorted(set(saved) - set(given))
    if missing:
        raise ValueError(
            f"load_run: {path} also has the state of {', '.join(missing)}; without it the run "
            "would not go on as before. Give it as a keyword, or strict=False"
        )


# -------------------------------------------------------------------------------- single objects


def _has_state(x: Any) -> bool:
    stateful = hasattr(x, "state_dict") and hasattr(x, "load_state_dict")
    return (stateful and not isinstance(x, type)) or is_generator(x)


def _state_of(x: Any) -> Any:
    if is_generator(x):
        return generator_state(x)
    return optimizer_state(x) if isinstance(x, Optimizer) else x.state_dict()


def _restore(x: Any, state: Any) -> None:
    if is_generator(x):
        set_generator_state(x, state)
    elif isinstance(x, Optimizer):
        load_optimizer_state(x, state)
    else:
        x.load_state_dict(state)


def optimizer_state(optimizer: Optimizer) -> dict[str, Any]:
    """The state dict in PyTorch's form, and beside it, in "exact", what is no tensor there."""
    saved = optimizer.state_dict()
    state, exact = {}, {}
    for number, values in zip(_numbers(optimizer), optimizer.state.values(), strict=True):
        exact[number] = {k: v for k, v in values.items() if not isinstance(v, Handle)}
        lists = {k for k, v in exact[number].items() if isinstance(v, list | tuple | dict)}
        state[number] = {k: v for k, v in saved["state"][number].items() if k not in lists}
    return {**saved, "state": state, "exact": exact}


def load_optimizer_state(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Takes back what `optimizer_state`, or an optimiser's `state_dict`, gave."""
    plain = {name: value for name, value in state.items() if name != "exact"}
    owned = {number: _owned(values) for number, values in plain["state"].items()}
    optimizer.load_state_dict({**plain, "state": owned})
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for number, values in state.get("exact", {}).items():
        optimizer.state[params[number]].update({k: _owned(v) for k, v in values.items()})


def _numbers(optimizer: Optimizer) -> list[int]:
    """The numbers, in a state dict, of the parameters that have a state, in its order."""
    params = [id(p) for group in optimizer.param_groups for p in group["params"]]
    places = {identity: place for place, identity in reversed(list(enumerate(params)))}
    return [places[id(p)] for p in optimizer.state]


def _owned(value: Any) -> Any:
    """A value with copies of its tensors, which may lie on the file."""
    if isinstance(value, Handle):
        tensor: Any = value
        return tensor.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(_owned(x) for x in value)
    if isinstance(value, dict):
        return {name: _owned(x) for name, x in value.items()}
    return value
