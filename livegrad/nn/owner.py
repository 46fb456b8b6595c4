"""Owner: the part of Module that holds parameters, buffers and submodules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from livegrad.nn.hooks import GlobalHooks, registered
from livegrad.nn.members import Members
from livegrad.nn.parameter import Buffer, Parameter
from livegrad.tensor import Tensor

if TYPE_CHECKING:
    from livegrad.nn.module import Module

MEMBERS = ("_parameters", "_buffers", "_modules")


class Owner:
    """What has parameters, buffers and submodules, each also an attribute.

    Owner -> Stateful -> Module: every Owner is a Module.
    """

    _parameters: Members
    _buffers: Members
    _modules: Members
    _non_persistent_buffers_set: set[str]

    # ---- attributes ------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_parameters", "parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Owner):
            self._set_submodule(name, value)
        elif isinstance(value, Buffer) and name not in own.get("_buffers", ()):
            self._forget(name, "_buffers", "buffers")
            self.register_buffer(name, value, getattr(value, "persistent", True))
        elif name in own and self._set_member(name, value):
            return
        else:
            object.__setattr__(self, name, value)

    def _set_submodule(self, name: str, value: Owner) -> None:
        self._forget(name, "_modules", "module")
        self._modules[name] = registered(GlobalHooks.module_registration, self, name, value)

    def _set_member(self, name: str, value: Any) -> bool:
        """Writes to a parameter, buffer or submodule called `name`; False if there is none."""
        if name in MEMBERS:
            self._set_table(name, value)
        elif name in self._parameters:
            _check_member(name, value, "parameter", "livegrad.nn.Parameter", False)
            self.register_parameter(name, value)
        elif name in self._modules:
            _check_member(name, value, "child module", "livegrad.nn.Module", False)
            self._modules[name] = value
        elif name in self._buffers:
            _check_member(name, value, "buffer", "livegrad.Tensor", isinstance(value, Tensor))
            self._buffers[name] = registered(GlobalHooks.buffer_registration, self, name, value)
        else:
            return False
        return True

    def _set_table(self, table: str, value: Any) -> None:
        """Puts the entries of a mapping in the place of a table of members."""
        own = self.__dict__
        for name in own[table]:
            own.pop(name, None)
        own[table] = Members(self)
        own[table].update(value)

    def _forget(self, name: str, keep: str, what: str) -> None:
        """Makes room for a member called `name` in the table `keep`."""
        own = self.__dict__
        if keep not in own:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        for table in MEMBERS:
            if table != keep and name in own[table]:
                del own[table][name]
        if name not in own[keep]:
            own.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        # Only reached when the attribute does not exist, and when a table is a plain dict:
        # of a subclass with a `__setattr__` of its own that made it.
        for table in MEMBERS:
            members = self.__dict__.get(table)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in MEMBERS:
            members = self.__dict__[table]
            if name in members:
                del members[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        return sorted(name for name in names if not name[:1].isdigit())

    # ---- registering members ---------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter (or None, a parameter that is not there) under `name`."""
        self._check_name(name, "_parameters", "parameter")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                    "(livegrad.nn.Parameter or None required)"
                )
            if not param.is_leaf:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    "be created explicitly; compute derived values in forward()"
                )
        hooks = GlobalHooks.parameter_registration
        self._parameters[name] = registered(hooks, self, name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Adds a tensor that is kept but not learned; only persistent ones are in state_dict."""
        self._check_name(name, "_buffers", "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(livegrad.Tensor or None required)"
            )
        self._buffers[name] = registered(GlobalHooks.buffer_registration, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule under `name`."""
        if module is not None and not isinstance(module, Owner):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "_modules", "module")
        self._modules[name] = registered(GlobalHooks.module_registration, self, name, module)

    register_module = add_module

    def _check_name(self, name: str, table: str, what: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."; got {name!r}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if table not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if name not in self.__dict__[table] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # ---- finding members -------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The submodule at a path such as "layers.0.linear"."""
        module: Any = self
        for name in target.split(".") if target else ():
            found = module._modules.get(name)
            if found is None:
                raise AttributeError(f"{type(module).__name__} has no submodule `{name}`")
            module = found
        return module  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts `module` at a path such as "layers.0.linear"; with `strict`, in place of another."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Owner):
            raise ValueError(
                f"`module` is not an nn.Module, found {type(module).__name__}; expected a Module"
            )
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and name not in parent._modules:
            raise AttributeError(f"{type(parent).__name__} has no submodule `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as "layers.0.weight"."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._parameters.get(name) is None:
            raise AttributeError(f"{type(module).__name__} has no parameter `{name}`")
        return module._parameters[name]  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Any:
        """The buffer at a path such as "norm.running_mean"."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._buffers:
            raise AttributeError(f"{type(module).__name__} has no buffer `{name}`")
        return module._buffers[name]

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths."""
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self  # type: ignore[misc]
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(seen, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names."""
        seen: set[Any] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, value in getattr(module, table).items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their paths; each once, however often it is shared."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters of this module and, with `recurse`, of all below it."""
        for _, value in self.named_parameters(recurse=recurse):
            yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Buffers with their paths."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """Buffers of this module and, with `recurse`, of all below it."""
        for _, value in self.named_buffers(recurse=recurse):
            yield value


def _check_member(name: str, value: Any, what: str, wanted: str, fits: bool) -> None:
    if value is not None and not fits:
        raise TypeError(
            f"cannot assign '{type(value).__name__}' as {what} '{name}' ({wanted} or None expected)"
        )
