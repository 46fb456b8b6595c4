"""Loading a state dict into a module, with a report of all that is wrong with it."""

from __future__ import annotations

from typing import Any, NamedTuple

from livegrad.creation import as_tensor
from livegrad.nn.parameter import Parameter


class IncompatibleKeys(NamedTuple):
    """Keys that `load_state_dict` did not find, and keys it had no use for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class Loader:
    """One call of `load_state_dict`: what is loaded, and what went wrong so far."""

    def __init__(self, values: dict[str, Any], strict: bool, assign: bool) -> None:
        self.values = values
        self.strict = strict
        self.assign = assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Any, prefix: str) -> None:
        """Loads a module and those below it."""
        values, found = self.values, (self.missing, self.unexpected)
        for hook in list(module._load_state_dict_pre_hooks.values()):
            hook(module, values, prefix, {}, self.strict, *found, self.errors)
        for name, target in module._saved_members():
            if prefix + name in values:
                self._load_one(module, name, target, prefix + name)
            else:
                self.missing.append(prefix + name)
        self._load_extra(module, prefix + "_extra_state")
        for name, below in module._modules.items():
            if below is not None:
                self.load(below, f"{prefix}{name}.")
        self._note_unexpected(module, prefix)
        for hook in list(module._load_state_dict_post_hooks.values()):
            hook(module, IncompatibleKeys(*found))

    def _note_unexpected(self, module: Any, prefix: str) -> None:
        known = {name for name, _ in module._saved_members()} | {"_extra_state"}
        for key in self.values:
            if not key.startswith(prefix):
                continue
            name, _, below = key[len(prefix) :].partition(".")
            if name not in (module._modules if below else known):
                self.unexpected.append(key)

    def _load_extra(self, module: Any, key: str) -> None:
        from livegrad.nn.module import Module

        wanted = type(module).set_extra_state is not Module.set_extra_state
        if key in self.values and wanted:
            module.set_extra_state(self.values[key])
        elif key in self.values:
            self.unexpected.append(key)
        elif wanted:
            self.missing.append(key)

    def _load_one(self, module: Any, name: str, target: Any, key: str) -> None:
        try:
            value = as_tensor(self.values[key])
        except (TypeError, ValueError, RuntimeError) as error:
            kind = type(self.values[key]).__name__
            self.errors.append(f"cannot load {key}: expected a tensor, got {kind} ({error}).")
            return
        if tuple(value.shape) != tuple(target.shape):
            self.errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {target.shape}."
            )
        elif not self.assign:
            target.copy_(value)
        elif isinstance(target, Parameter):
            own = isinstance(value, Parameter)
            module._parameters[name] = value if own else Parameter(value, target.requires_grad)
        else:
            module._buffers[name] = value

    def finish(self, name: str) -> IncompatibleKeys:
        """The keys that did not match; RuntimeError if that, or anything else, is wrong."""
        lines = list(self.errors)
        if self.strict and self.unexpected:
            listed = ", ".join(f'"{key}"' for key in self.unexpected)
            lines.insert(0, f"Unexpected key(s) in state_dict: {listed}. ")
        if self.strict and self.missing:
            listed = ", ".join(f'"{key}"' for key in self.missing)
            lines.insert(0, f"Missing key(s) in state_dict: {listed}. ")
        if lines:
            text = "\n\t".join(lines)
            raise RuntimeError(f"Error(s) in loading state_dict for {name}:\n\t{text}")
        return IncompatibleKeys(self.missing, self.unexpected)
