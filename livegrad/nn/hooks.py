"""Tables of hooks: functions that users attach to modules, to all modules, and to optimisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from livegrad.autograd.hooks import RemovableHandle

Hook = Callable[..., Any]


class Hooks(dict[int, Any]):
    """Hooks by number, in the order in which they are called."""

    def add(self, hook: Any, *, first: bool = False) -> RemovableHandle:
        """Adds `hook`, in front of the others if `first`."""
        others = dict(self) if first else {}
        if first:
            self.clear()
        handle = RemovableHandle(self, hook)
        self.update(others)
        return handle


class GlobalHooks:
    """The hooks of all modules; those of a call run before the module's own."""

    forward_pre = Hooks()
    forward = Hooks()
    forward_with_kwargs: ClassVar[set[int]] = set()
    forward_always: ClassVar[set[int]] = set()
    backward_pre = Hooks()
    backward = Hooks()
    buffer_registration = Hooks()
    module_registration = Hooks()
    parameter_registration = Hooks()


def registered(hooks: Hooks, module: Any, name: str, value: Any) -> Any:
    """The member that is added as `name`: `value`, or what a registration hook gives instead."""
    for hook in list(hooks.values()):
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value
