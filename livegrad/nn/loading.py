"""Loading a state dict into a module, with a report of all that is wrong with it."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from livegrad.creation import as_tensor
from livegrad.nn.parameter import Parameter, is_lazy
from livegrad.tensor import Tensor

Values = dict[str, Any]


class IncompatibleKeys(NamedTuple):
    """Keys that `load_state_dict` did not find, and keys it had no use for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class Loader:
    """One call of `load_state_dict`: what went wrong so far."""

    def __init__(self, metadata: Any, assign: bool) -> None:
        self.metadata = {} if metadata is None else metadata
        self.assign = assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Any, values: Values, prefix: str) -> None:
        """Loads a module and those below it."""
        found = (self.missing, self.unexpected)
        local = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            local["assign_to_params_buffers"] = True
        module._load_from_state_dict(values, prefix, local, True, *found, self.errors)
        for name, below in list(module._modules.items()):
            if below is not None:
                inner = f"{prefix}{name}."
                part = {key: value for key, value in values.items() if key.startswith(inner)}
                self.load(below, part, inner)
        for hook in list(module._load_state_dict_post_hooks.values()):
            hook(module, IncompatibleKeys(*found))

    def finish(self, name: str, values: Values, strict: bool) -> IncompatibleKeys:
        """The keys that did not match; RuntimeError if that, or anything else, is wrong."""
        lines = list(self.errors)
        if strict and self.unexpected:
            listed = ", ".join(f'"{key}"' for key in self.unexpected)
            lines.insert(0, f"Unexpected key(s) in state_dict: {listed}. ")
        if strict and self.missing:
            listed = ", ".join(f'"{key}"' for key in self.missing)
            lines.insert(0, f"Missing key(s) in state_dict: {listed}. ")
        if lines:
            hint = _hint(self.missing, self.unexpected) if strict else None
            text = "\n\t".join(lines if hint is None else [*lines, hint])
            raise RuntimeError(f"Error(s) in loading state_dict for {name}:\n\t{text}")
        return IncompatibleKeys(self.missing, self.unexpected)


def _hint(missing: list[str], unexpected: list[str]) -> str | None:
    """What may have happened, if all keys differ from those expected in the same way."""
    if not missing or len(missing) != len(unexpected):
        return None
    wanted, given = sorted(missing), sorted(unexpected)
    if all(b.endswith("." + a) for a, b in zip(wanted, given, strict=True)):
        extra = given[0][: -len(wanted[0])]
        if all(b == extra + a for a, b in zip(wanted, given, strict=True)):
            return (
                f'All keys have "{extra}" in front, which this model does not expect. Take it '
                f"away: {{key[{len(extra)}:]: value for key, value in state_dict.items()}}"
            )
    if all(a.endswith("." + b) for a, b in zip(wanted, given, strict=True)):
        lacking = wanted[0][: -len(given[0])]
        return f'The keys lack "{lacking}", under which this model has its parameters.'
    return None


def load_members(
    module: Any,
    values: Values,
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    """Loads the parameters, buffers and extra state of one module."""
    assign = bool(local_metadata.get("assign_to_params_buffers", False))
    for name, target in module._saved_members():
        if prefix + name in values:
            _load_one(module, name, target, prefix + name, values, assign, errors)
        elif strict:
            missing.append(prefix + name)
    _load_extra(module, prefix + "_extra_state", values, strict, missing, unexpected)
    if strict:
        _note_unexpected(module, values, prefix, unexpected)


def _note_unexpected(module: Any, values: Values, prefix: str, unexpected: list[str]) -> None:
    known = {name for name, _ in module._saved_members()} | {"_extra_state"}
    for key in values:
        if not key.startswith(prefix):
            continue
        name, _, below = key[len(prefix) :].partition(".")
        if name not in (module._modules if below else known):
            unexpected.append(key)


def _load_extra(
    module: Any, key: str, values: Values, strict: bool, missing: list[str], unexpected: list[str]
) -> None:
    wanted = module._takes_extra_state
    if wanted and key in values:
        module.set_extra_state(values[key])
    elif wanted and strict:
        missing.append(key)
    elif key in values and strict:
        unexpected.append(key)


def _as_tensor(value: Any) -> Any:
    """A value of a state dict as a tensor; PyTorch's tensors are taken too."""
    if isinstance(value, Tensor):
        return value
    if type(value).__module__.partition(".")[0] == "torch":
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # which NumPy does not have
            return as_tensor(value.float().numpy()).bfloat16()
        value = value.numpy()
    return as_tensor(value)


def _load_one(
    module: Any,
    name: str,
    target: Any,
    key: str,
    values: Values,
    assign: bool,
    errors: list[str],
) -> None:
    try:
        value = _as_tensor(values[key])
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(values[key]).__name__
        errors.append(f"cannot load {key}: expected a tensor, got {kind} ({error}).")
        return
    if is_lazy(target):
        if is_lazy(value):
            return
        target.materialize(value.shape)
    elif is_lazy(value):
        errors.append(f"cannot load {key}: the value in the state_dict is not initialised yet.")
        return
    if target.ndim == 0 and value.ndim == 1 and value.numel() == 1:
        value = value.reshape(())  # as numbers were saved long ago
    if tuple(value.shape) != tuple(target.shape):
        errors.append(
            f"size mismatch for {key}: copying a param with shape {value.shape} from "
            f"checkpoint, the shape in current model is {target.shape}."
        )
    elif not assign:
        _copy(target, value, key, errors)
    elif isinstance(target, Parameter):
        own = isinstance(value, Parameter)
        learned = target.requires_grad
        module._parameters[name] = (
            value.requires_grad_(learned) if own else Parameter(value, learned)
        )
    else:
        module._buffers[name] = value


def _copy(target: Any, value: Any, key: str, errors: list[str]) -> None:
    """Writes a value of the state dict into a parameter or buffer."""
    if target.is_meta and not value.is_meta:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter "
            "in the current model, which is a no-op. (Did you mean to pass `assign=True` to assign "
            "items in the state dictionary to their corresponding key in the module instead of "
            "copying them in place?)",
            stacklevel=2,
        )
    try:
        target.copy_(value)
    except (RuntimeError, TypeError, ValueError) as error:
        errors.append(
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{target.shape} and whose dimensions in the checkpoint are {value.shape}, an "
            f"exception occurred : {error.args}."
        )
