"""Stateful: the part of Module that saves and loads its parameters and buffers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Self

from livegrad.autograd import no_grad
from livegrad.autograd.hooks import RemovableHandle
from livegrad.nn.hooks import Hook, Hooks
from livegrad.nn.loading import IncompatibleKeys, Loader, load_members
from livegrad.nn.members import Members
from livegrad.nn.owner import MEMBERS, Owner

_HOOKS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Stateful(Owner):
    """What can say all of its values by name, and take them back."""

    # The version of the module's part of a state dict, for those that changed over time.
    _version: int = 1

    training: bool
    _state_dict_pre_hooks: Hooks
    _state_dict_hooks: Hooks
    _load_state_dict_pre_hooks: Hooks
    _load_state_dict_post_hooks: Hooks

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got unexpected arguments {args or kwargs}"
            )
        own = self.__dict__
        own["training"] = True
        for name in MEMBERS:
            own[name] = Members(self)
        own["_non_persistent_buffers_set"] = set()
        for name in _HOOKS:
            own[name] = Hooks()

    # ---- saving ----------------------------------------------------------------------------

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """Parameters and persistent buffers by path, as detached tensors that share the values."""
        if args:  # PyTorch still takes them by position
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            return self.state_dict(**{"prefix": prefix, "keep_vars": keep_vars, **given})
        out: Any = OrderedDict() if destination is None else destination
        if destination is None:
            out._metadata = OrderedDict()  # the versions of the modules' parts, as in PyTorch
        local: dict[str, Any] = {"version": self._version}
        if hasattr(out, "_metadata"):
            out._metadata[prefix[:-1]] = local
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(out, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=out, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            changed = hook(self, out, prefix, local)
            out = out if changed is None else changed
        return out

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Adds what this module itself holds; subclasses may add more."""
        for name, value in self._saved_members():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def _saved_members(self) -> list[tuple[str, Any]]:
        saved = [(n, p) for n, p in self._parameters.items() if p is not None]
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                saved.append((name, buffer))
        return saved

    def get_extra_state(self) -> Any:
        """More to save in `state_dict`; subclasses that define it define `set_extra_state` too."""
        raise RuntimeError(f"{type(self).__name__} has no extra state")

    # ---- loading ---------------------------------------------------------------------------

    @property
    def _takes_extra_state(self) -> bool:
        return type(self).set_extra_state is not Stateful.set_extra_state

    def set_extra_state(self, state: Any) -> None:
        """Takes back what `get_extra_state` gave."""
        raise RuntimeError(f"{type(self).__name__} has no extra state")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copies values by path into parameters and buffers; with `assign`, replaces them."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"Expected state_dict to be dict-like, got {type(state_dict).__name__}."
            )
        loader = Loader(getattr(state_dict, "_metadata", None), assign)
        values = OrderedDict(state_dict)
        with no_grad():
            loader.load(self, values, "")
        return loader.finish(type(self).__name__, values, strict)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Takes what this module itself holds; subclasses may change `state_dict` first."""
        found = (missing_keys, unexpected_keys, error_msgs)
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(self, state_dict, prefix, local_metadata, strict, *found)
        load_members(self, state_dict, prefix, local_metadata, strict, *found)

    # ---- hooks -----------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` runs before `state_dict` collects."""
        return self._state_dict_pre_hooks.add(hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` runs after `state_dict` collected."""
        return self._state_dict_hooks.add(hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)`
        runs before loading and may change what is loaded."""
        return self._load_state_dict_pre_hooks.add(hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        given = hook if with_module else lambda module, *rest: hook(*rest)
        return self._load_state_dict_pre_hooks.add(given)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(module, incompatible_keys)` runs after loading and may change the key lists."""
        return self._load_state_dict_post_hooks.add(hook)

    # ---- pickling --------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for table in MEMBERS:
            members = state.pop(table, {})
            for name in members:
                state.pop(name, None)
            state[table] = dict(members)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update({name: value for name, value in state.items() if name not in MEMBERS})
        for table in MEMBERS:
            own[table] = Members(self)
            own[table].update(state.get(table, {}))
        own.setdefault("_non_persistent_buffers_set", set())
        for name in _HOOKS:
            own.setdefault(name, Hooks())

    def _replicate_for_data_parallel(self) -> Self:
        """A module of the same attributes, with its own tables and no parameters yet."""
        replica = type(self).__new__(type(self))
        replica.__dict__.update(self.__dict__)
        for table in MEMBERS:
            setattr(replica, table, {} if table == "_parameters" else dict(getattr(self, table)))
        return replica
