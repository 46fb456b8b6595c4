"""Optimizer: parameter groups, state, saving. A subclass says how one group is updated."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from livegrad.autograd import enable_grad
from livegrad.autograd.holding import clear
from livegrad.autograd.hooks import RemovableHandle
from livegrad.creation import tensor
from livegrad.graph.above import Above
from livegrad.graph.elsewhere import Sparse
from livegrad.graph.events import MADE, STEP, tell
from livegrad.graph.losses import HELD
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, flush
from livegrad.graph.watch import BLAMING, Watch
from livegrad.nn.hooks import Hooks
from livegrad.ops.bookkeeping.asking import compute_large_writes
from livegrad.optim import for_subclasses, own_steps
from livegrad.runtime.counts import as_count
from livegrad.tensor import Tensor

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """What optimisers written elsewhere import from here."""
        return getattr(for_subclasses, name)


Group = dict[str, Any]
Step = Callable[..., Any]


def _load_lint(optimizer: Any) -> None:
    """The training lint looks at the first steps of every optimiser."""
    if Watch.enabled:
        from livegrad.lint.events import made  # imported with the first optimiser

        made(optimizer)


MADE.append(_load_lint)


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class _AllSteps:
    """Hooks around the steps of every optimiser."""

    before = Hooks()
    after = Hooks()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` runs before each step of any optimiser."""
    return _AllSteps.before.add(hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` runs after each step of any optimiser."""
    return _AllSteps.after.add(hook)


def _counted(step: Step) -> Step:
    """A `step` method that counts itself and calls hooks, unless another such one called it."""

    @wraps(step)
    def method(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        # What wraps an optimiser need not be one itself: it has no hooks, as in PyTorch.
        if self._stepping or "_step_pre_hooks" not in self.__dict__:
            return step(self, *args, **kwargs)
        self._stepping = True
        self.steps_taken += 1
        try:
            if (
                self._has_own_step
                or self._step_pre_hooks
                or self._step_post_hooks
                or _AllSteps.before
                or _AllSteps.after
            ):
                return _with_hooks(step, self, args, kwargs)
            return step(self, *args, **kwargs)
        finally:
            self._stepping = False

    return method


def _with_hooks(step: Step, self: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given: tuple[Any, ...] = (self, *args)
    for hook in [*_AllSteps.before.values(), *self._step_pre_hooks.values()]:
        given, kwargs = _instead(step, hook(self, given, kwargs), given, kwargs)
    if self._has_own_step:
        result = own_steps.take(step, given[0], given[1:], kwargs)
    else:
        result = step(*given, **kwargs)
    for hook in [*self._step_post_hooks.values(), *_AllSteps.after.values()]:
        hook(self, given, kwargs)
    return result


def _instead(step: Step, changed: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a step after a hook has returned `changed`."""
    if changed is None:
        return args, kwargs
    if isinstance(changed, tuple) and len(changed) == 2:
        return changed
    raise RuntimeError(
        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}."
    )


class Optimizer:
    """Base class of optimisers.

    `param_groups` is a list of dicts, each with "params" and its own options. `state` holds a dict
    per parameter, filled when the parameter is first updated. Subclasses define `update_group`,
    which records the update of one group; `step` does the rest and computes what is pending.

    Args:
        params: parameters, or dicts with "params" and options of their own.
        defaults: the options of groups that do not say otherwise.

    Example:
        >>> from livegrad import optim
        >>> w = lg.ones(2, requires_grad=True)
        >>> optimizer = optim.SGD([w], lr=0.5)
        >>> isinstance(optimizer, optim.Optimizer), optimizer.param_groups[0]["lr"]
        (True, 0.5)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.5000, 0.5000], requires_grad=True)
    """

    # Whether a parameter is more than once in a group: then it is updated as often.
    _repeats = False

    # Since it was made, for schedulers to see that they are not called too early.
    steps_taken = 0
    # Whether the training lint looks at steps: at the first ones.
    watched = True
    # Within `step`, so that a step that calls that of its parent class counts as one.
    _stepping = False
    # Names of numbers in the state of a parameter that PyTorch keeps as tensors.
    counts: ClassVar[tuple[str, ...]] = ()
    # Whether gradients may be sparse; what is said otherwise.
    takes_sparse = False
    # Whether `step` computes loss and gradients itself, again and again, and so needs a closure.
    needs_closure = False

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._make_hooks()
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
        if MADE:
            tell(MADE, self)

    # Whether `step` does all by itself, without `Optimizer.step`, which asks for `update_group`.
    _has_own_step = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._has_own_step = cls.update_group is Optimizer.update_group
        if "step" in cls.__dict__:
            cls.step = _counted(cls.step)  # type: ignore[method-assign]

    def _make_hooks(self) -> None:
        self._step_pre_hooks = Hooks()
        self._step_post_hooks = Hooks()
        self._save_pre_hooks = Hooks()
        self._save_post_hooks = Hooks()
        self._load_pre_hooks = Hooks()
        self._load_post_hooks = Hooks()

    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group
        group["params"] = self._checked(group["params"], group)
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, default)
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {'with' if 'param_names' in group else 'without'} names to the "
                    "optimizer"
                )
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
        given = [params] if isinstance(params, Tensor) else list(params)
        names = [x[0] for x in given if isinstance(x, tuple)]
        if names:
            if len(names) != len(given):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing"
                )
            group["param_names"] = names
        listed = [x[1] if isinstance(x, tuple) else x for x in given]
        for p in listed:
            self._check_parameter(p)
        if len({id(p) for p in listed}) != len(listed):
            self._repeats = True
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=4,
            )
        return listed

    def _check_parameter(self, p: Any) -> None:
        if not isinstance(p, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}"
            )
        if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    # ---- stepping --------------------------------------------------------------------------

    def update_group(self, group: Group) -> None:
        """Records the update of the parameters of one group."""
        raise NotImplementedError(f"{type(self).__name__} does not define update_group")

    @_counted
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns what `closure` does, if given.

        With the option `differentiable`, gradients flow through the update.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if STEP:
            tell(STEP, self, True)
        state = LOCAL.state
        site, grad = state.site, state.grad
        try:
            state.site = user_site()  # found once for all updates
            state.grad = bool(self.defaults.get("differentiable"))
            if BLAMING.enabled:
                BLAMING.optimizer, BLAMING.reads = self, True
                if state.written:
                    compute_large_writes(state)
                if BLAMING.asked != state.position:
                    BLAMING.state, BLAMING.knows_loss = state, False
            for group in self.param_groups:
                if Sparse.exist and not self.takes_sparse:
                    self._refuse_sparse(group)
                if self._repeats:
                    self._update_repeatedly(group)
                else:
                    self.update_group(group)
            state.site = site
            flush("optimizer.step()")
        except KeyboardInterrupt:
            # What has been recorded is done now, not at some later read.
            flush("optimizer.step()")
            raise
        finally:
            state.site, state.grad = site, grad
            BLAMING.optimizer = BLAMING.state = None
            if HELD.nodes:
                HELD.clear()
        if BLAMING.untold is not None:
            Above.blaming().tell()
        if STEP:
            tell(STEP, self, False)
        return loss

    def _refuse_sparse(self, group: Group) -> None:
        if any([p._grad is not None and p._grad.is_sparse for p in group["params"]]):
            name = type(self).__name__
            instead = ", please consider SparseAdam instead" if name in ("Adam", "AdamW") else ""
            name = "Adam" if name == "AdamW" else name
            raise RuntimeError(f"{name} does not support sparse gradients{instead}")

    def _update_repeatedly(self, group: Group) -> None:
        """Updates parameters as often as they are in a group, each time what the last one left."""
        seen: dict[int, int] = {}
        parts: dict[int, list[Any]] = {}
        for p in group["params"]:
            seen[id(p)] = seen.get(id(p), 0) + 1
            parts.setdefault(seen[id(p)], []).append(p)
        new = [p for p in parts[1] if not self.state.get(p)] if parts else []
        for params in parts.values():
            self._start_again([p for p in params if any(p is x for x in new)])
            self.update_group({**group, "params": params})
            flush("optimizer.step()")

    def _start_again(self, params: list[Any]) -> None:
        """Prepares an update of parameters that had no state when this step began."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, or makes them zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p._grad = None
                elif p.grad is not None:
                    clear(p.grad)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` runs before each step."""
        return self._step_pre_hooks.add(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` runs after each step."""
        return self._step_post_hooks.add(hook)

    # ---- saving ----------------------------------------------------------------------------

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` runs before `state_dict`."""
        return self._save_pre_hooks.add(hook, first=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` runs after `state_dict` and may give another one."""
        return self._save_post_hooks.add(hook, first=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` runs before loading and may give another `state_dict`."""
        return self._load_pre_hooks.add(hook, first=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` runs after loading."""
        return self._load_post_hooks.add(hook, first=prepend)

    def state_dict(self) -> dict[str, Any]:
        """State and options in PyTorch's form; parameters are numbered in order."""
        for hook in list(self._save_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            saved = {name: value for name, value in group.items() if name != "params"}
            groups.append({**saved, "params": [numbers[id(p)] for p in group["params"]]})
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: values
            for key, values in self.state.items()
        }
        whole: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in list(self._save_post_hooks.values()):
            changed = hook(self, whole)
            whole = whole if changed is None else changed
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave.

        As in PyTorch, tensors are those of the state dict itself, unless parameters have another
        dtype: copy it first (`copy.deepcopy`) if it belongs to an optimiser that goes on.
        """
        state_dict = dict(state_dict)
        for hook in list(self._load_pre_hooks.values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved = state_dict["param_groups"]
        by_number = self._numbered(saved)
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, values in state_dict["state"].items():
            if key in by_number:
                p = by_number[key]
                state[p] = _cast(values, p)
            else:
                state[key] = values
        groups = []
        for old, group in zip(saved, self.param_groups, strict=True):
            options = {name: value for name, value in old.items() if name != "params"}
            groups.append({**group, **deepcopy(options)})
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in list(self._load_post_hooks.values()):
            hook(self)

    def _numbered(self, saved: list[Group]) -> dict[Any, Any]:
        """The parameters by the numbers they have in saved groups."""
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        by_number: dict[Any, Any] = {}
        for old, group in zip(saved, self.param_groups, strict=True):
            if len(old["params"]) != len(group["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
            by_number.update(zip(old["params"], group["params"], strict=True))
        return by_number

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def _patch_step_function(self) -> None:
        """Nothing: `step` calls hooks anyway. Optimisers that wrap another call this in PyTorch."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_step_pre_hooks" not in self.__dict__:
            self._make_hooks()
        self.defaults.setdefault("differentiable", False)
        for values in self.state.values():
            self._keep_counts(values)

    def _keep_counts(self, values: Any) -> None:
        """Makes tensors of plain numbers in the state of a parameter, where PyTorch has tensors."""
        for name in self.counts:
            if isinstance(values.get(name), int | float):
                values[name] = as_count(values[name])

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            text += "".join([f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params"])
        return text + ")"


def _cast(value: Any, p: Any, name: Any = None) -> Any:
    """A value of the saved state; floating tensors get dtype and device of the parameter."""
    if isinstance(value, np.ndarray):
        value = tensor(value)
    if isinstance(value, Tensor):
        if name == "step":
            return value
        dtype = p.dtype if p.is_floating_point() else None
        return value.to(p.device, dtype)
    if isinstance(value, dict):
        return {k: _cast(v, p, k) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_cast(v, p) for v in value])
    return value


__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]
