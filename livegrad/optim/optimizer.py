"""Optimizer: parameter groups, state, saving. A subclass says how one group is updated."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from livegrad.autograd import enable_grad
from livegrad.autograd.hooks import RemovableHandle
from livegrad.creation import as_tensor, tensor
from livegrad.graph.record import user_site
from livegrad.graph.state import LOCAL, flush
from livegrad.graph.watch import Watch
from livegrad.nn.hooks import Hooks
from livegrad.tensor import Tensor

Group = dict[str, Any]


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Base class of optimisers.

    `param_groups` is a list of dicts, each with "params" and its own options. `state` holds a dict
    per parameter, filled when the parameter is first updated. Subclasses define `update_group`,
    which records the update of one group; `step` does the rest and computes what is pending.
    """

    # Since it was made, for schedulers to see that they are not called too early.
    steps_taken = 0
    # Whether the training lint looks at steps: at the first ones.
    watched = True
    # Whether `step` computes loss and gradients itself, again and again, and so needs a closure.
    needs_closure = False

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._step_pre_hooks = Hooks()
        self._step_post_hooks = Hooks()
        if isinstance(params, Tensor) or not isinstance(params, Iterable):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        if Watch.made is not None:
            Watch.made(self)

    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        group["params"] = self._checked(group["params"], group)
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, default)
        known = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in known for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def _checked(self, params: Any, group: Group) -> list[Any]:
        """The parameters as a list; names, if given, go into the group."""
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        listed = [params] if isinstance(params, Tensor) else list(params)
        if listed and isinstance(listed[0], tuple):
            group["param_names"] = [name for name, _ in listed]
            listed = [p for _, p in listed]
        for p in listed:
            if not isinstance(p, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{type(p).__name__}"
                )
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        if len({id(p) for p in listed}) != len(listed):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=4,
            )
        return listed

    # ---- stepping --------------------------------------------------------------------------

    def update_group(self, group: Group) -> None:
        """Records the update of the parameters of one group."""
        raise NotImplementedError(f"{type(self).__name__} does not define update_group")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns what `closure` does, if given."""
        for hook in list(self._step_pre_hooks.values()) if self._step_pre_hooks else ():
            hook(self, (closure,), {})
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        watch = Watch.step if self.watched or Watch.suspect is not None else None
        if watch is not None:
            watch(self, True)
        self.steps_taken += 1
        state = LOCAL.state
        site = state.site
        try:
            state.site = user_site()  # found once for all updates
            for group in self.param_groups:
                self.update_group(group)
            state.site = site
            flush("optimizer.step()")
        except KeyboardInterrupt:
            # What has been recorded is done now, not at some later read.
            flush("optimizer.step()")
            raise
        finally:
            state.site = site
        if watch is not None:
            watch(self, False)
        for hook in list(self._step_post_hooks.values()) if self._step_post_hooks else ():
            hook(self, (closure,), {})
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, or makes them zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p._grad = None
                elif p.grad is not None:
                    p.grad.zero_()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` runs before each step."""
        return self._step_pre_hooks.add(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` runs after each step."""
        return self._step_post_hooks.add(hook)

    # ---- saving ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and options in PyTorch's form; parameters are numbered in order."""
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            saved = {name: value for name, value in group.items() if name != "params"}
            groups.append({**saved, "params": [numbers[id(p)] for p in group["params"]]})
        state = {
            numbers[id(p)]: {name: _saved(name, value) for name, value in values.items()}
            for p, values in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave; tensors are copied."""
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        by_number: dict[int, Any] = {}
        for old, group in zip(saved, self.param_groups, strict=True):
            if len(old["params"]) != len(group["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
            by_number.update(zip(old["params"], group["params"], strict=True))
        self.state = defaultdict(dict)
        for number, values in state_dict["state"].items():
            p = by_number.get(number)
            if p is not None:
                self.state[p] = {name: _loaded(name, value, p) for name, value in values.items()}
        for old, group in zip(saved, self.param_groups, strict=True):
            options = {name: value for name, value in old.items() if name != "params"}
            group.update(deepcopy(options))

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": dict(self.state),
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.defaults = state["defaults"]
        self.param_groups = state["param_groups"]
        self.state = defaultdict(dict, state["state"])
        self._step_pre_hooks = Hooks()
        self._step_post_hooks = Hooks()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


# Numbers that PyTorch keeps as tensors.
_NUMBERS = ("step", "mu_product", "eta", "mu")


def _saved(name: str, value: Any) -> Any:
    """A state value as PyTorch saves it: the step count is a tensor."""
    return tensor(float(value)) if name in _NUMBERS else value


def _loaded(name: str, value: Any, p: Any) -> Any:
    """A saved state value as the state of parameter `p`."""
    if name == "step":
        return int(value)
    if name in _NUMBERS:
        return float(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    loaded = as_tensor(value).detach()
    return loaded.to(p.dtype).clone() if loaded.is_floating_point() else loaded.clone()


def number(value: Any) -> float:
    """An option as a Python float; a 0-d tensor is read."""
    return value if type(value) is float else float(value)


def check_range(name: str, value: Any, low: float, high: float = float("inf")) -> None:
    """ValueError unless `low <= value < high`; tensors are not read."""
    if not isinstance(value, Tensor) and not low <= value < high:
        raise ValueError(f"Invalid {name}: {value}")


def check_ignored(**options: Any) -> None:
    """Options that say how PyTorch should run: accepted, except where they change the meaning."""
    if options.get("differentiable"):
        raise NotImplementedError("optimizer: differentiable=True is not supported")


__all__ = ["Optimizer", "check_ignored", "check_range", "number", "required"]
