"""Module: the base class of everything that holds parameters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from livegrad import dtypes
from livegrad.autograd import no_grad
from livegrad.autograd.hooks import RemovableHandle
from livegrad.graph.record import node_of, user_site, wrap
from livegrad.graph.state import LOCAL
from livegrad.nn.hooks import Hooks
from livegrad.nn.loading import IncompatibleKeys, Loader
from livegrad.nn.members import Members
from livegrad.nn.parameter import Buffer, Parameter
from livegrad.tensor import Tensor

Self = TypeVar("Self", bound="Module")
Hook = Callable[..., Any]


_MEMBERS = ("_parameters", "_buffers", "_modules")
_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Module:
    """Base class of neural networks and their layers.

        module ── _parameters   learned tensors
               ── _buffers      tensors that are kept, not learned
               ── _modules      submodules, each a Module again

    Subclasses call `super().__init__()`, assign parameters and submodules as attributes, and define
    `forward`. Calling the module runs `forward` and the hooks around it.
    """

    training: bool
    _parameters: Members
    _buffers: Members
    _modules: Members
    _non_persistent_buffers_set: set[str]
    # Whether a hook that concerns calls was ever added: if not, `forward` is all there is.
    _hooked: bool
    _forward_pre_hooks: Hooks
    _forward_hooks: Hooks
    _backward_pre_hooks: Hooks
    _backward_hooks: Hooks
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
        own["_hooked"] = False
        for name in _MEMBERS:
            own[name] = Members(self)
        own["_non_persistent_buffers_set"] = set()
        for name in _HOOKS:
            own[name] = Hooks()

    # ---- calling ---------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._is_ours = cls.__module__.startswith("livegrad.nn.")

    # Whether the class is livegrad's: what it records is then blamed on the line that calls it.
    _is_ours = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooked:
            return self._call_with_hooks(args, kwargs)
        state = LOCAL.state
        site = state.site
        if self._is_ours:
            if site is not None:
                return self.forward(*args, **kwargs)
            # Found once here instead of once per operation, from deeper down.
            state.site = user_site()
        elif site is None:
            return self.forward(*args, **kwargs)
        else:
            state.site = None
        try:
            return self.forward(*args, **kwargs)
        finally:
            state.site = site

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        done: set[int] = set()
        try:
            args, kwargs = self._run_pre_hooks(args, kwargs)
            watch = None
            if self._backward_hooks or self._backward_pre_hooks:
                from livegrad.nn.backward_hooks import Watch

                watch = Watch(self)
                args = watch.inputs(args)
            result = self.forward(*args, **kwargs)
            for number, (hook, with_kwargs, _) in list(self._forward_hooks.items()):
                done.add(number)
                given = (args, kwargs, result) if with_kwargs else (args, result)
                changed = hook(self, *given)
                result = result if changed is None else changed
            return result if watch is None else watch.outputs(result)
        except Exception:
            self._run_always_hooks(done, args, kwargs)
            raise

    def _run_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for hook, with_kwargs in list(self._forward_pre_hooks.values()):
            if with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _run_always_hooks(
        self, done: set[int], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """After a failed call: the hooks that asked to be called in any case."""
        for number, (hook, with_kwargs, always) in list(self._forward_hooks.items()):
            if always and number not in done:
                hook(self, *((args, kwargs, None) if with_kwargs else (args, None)))

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` runs before `forward` and may return other arguments."""
        self._hooked = True
        return self._forward_pre_hooks.add((hook, with_kwargs), first=prepend)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args, output)` runs after `forward` and may return another output."""
        self._hooked = True
        return self._forward_hooks.add((hook, with_kwargs, always_call), first=prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` runs when the outputs' gradients are known."""
        self._hooked = True
        return self._backward_pre_hooks.add(hook, first=prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` runs when the inputs' gradients are known."""
        self._hooked = True
        return self._backward_hooks.add(hook, first=prepend)

    # ---- attributes ------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._set_submodule(name, value)
        elif isinstance(value, Buffer) and name not in own.get("_buffers", ()):
            self.register_buffer(name, value, value.persistent)
        elif name in own and self._set_member(name, value):
            return
        else:
            object.__setattr__(self, name, value)

    def _set_submodule(self, name: str, value: Module) -> None:
        self._forget(name, "_modules", "module")
        self._modules[name] = value

    def _set_member(self, name: str, value: Any) -> bool:
        """Writes to a parameter, buffer or submodule called `name`; False if there is none."""
        if name in self._parameters:
            _check_member(name, value, "parameter", "livegrad.nn.Parameter", False)
            self._parameters[name] = value
        elif name in self._modules:
            _check_member(name, value, "child module", "livegrad.nn.Module", False)
            self._modules[name] = value
        elif name in self._buffers:
            _check_member(name, value, "buffer", "livegrad.Tensor", isinstance(value, Tensor))
            self._buffers[name] = value
        else:
            return False
        return True

    def _forget(self, name: str, keep: str, what: str) -> None:
        """Makes room for a member called `name` in the table `keep`."""
        own = self.__dict__
        if keep not in own:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        for table in _MEMBERS:
            if table != keep and name in own[table]:
                del own[table][name]
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        # Only reached when the attribute does not exist.
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in _MEMBERS:
            members = self.__dict__[table]
            if name in members:
                del members[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        return sorted(name for name in names if not name[:1].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for table in _MEMBERS:
            members = state.pop(table, {})
            for name in members:
                state.pop(name, None)
            state[table] = dict(members)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update({name: value for name, value in state.items() if name not in _MEMBERS})
        for table in _MEMBERS:
            own[table] = Members(self)
            own[table].update(state.get(table, {}))
        for name in _HOOKS:
            own.setdefault(name, Hooks())

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
        self._forget(name, "_parameters", "parameters")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Adds a tensor that is kept but not learned; only persistent ones are in state_dict."""
        self._check_name(name, "_buffers", "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(livegrad.Tensor or None required)"
            )
        self._forget(name, "_buffers", "buffers")
        self._buffers[name] = tensor
        if not persistent:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule under `name`."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "_modules", "module")
        self._modules[name] = module

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
        known = any(name in self.__dict__[t] for t in _MEMBERS)
        if hasattr(self, name) and not known:
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
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths."""
        seen = set() if memo is None else memo
        if remove_duplicate:
            if id(self) in seen:
                return
            seen.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(seen, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            modules = iter([(prefix, self)])
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

    # ---- state dict ------------------------------------------------------------------------

    def state_dict(
        self,
        *args: Any,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by path, as detached tensors that share the values."""
        if args:  # PyTorch still takes them by position
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            return self.state_dict(**{"prefix": prefix, "keep_vars": keep_vars, **given})
        out: dict[str, Any] = OrderedDict() if destination is None else destination
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        for name, value in self._saved_members():
            out[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            out[prefix + "_extra_state"] = self.get_extra_state()
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=out, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            changed = hook(self, out, prefix, {})
            out = out if changed is None else changed
        return out

    def _saved_members(self) -> list[tuple[str, Any]]:
        saved = [(n, p) for n, p in self._parameters.items() if p is not None]
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                saved.append((name, buffer))
        return saved

    def get_extra_state(self) -> Any:
        """More to save in `state_dict`; subclasses that define it define `set_extra_state` too."""
        raise RuntimeError(f"{type(self).__name__} has no extra state")

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
        loader = Loader(dict(state_dict), strict, assign)
        with no_grad():
            loader.load(self, "")
        return loader.finish(type(self).__name__)

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

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(module, incompatible_keys)` runs after loading and may change the key lists."""
        return self._load_state_dict_post_hooks.add(hook)

    # ---- modes, dtypes, devices ------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Says whether the module is learning, which matters to Dropout and its like."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Says that the module is not learning."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Says whether gradients are collected for the parameters."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or makes them zero."""
        for p in self.parameters():
            if p.grad is not None:
                p.grad = None if set_to_none else p.grad.detach().zero_()

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Calls `fn` on every module below, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: Self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replaces the values of parameters, gradients and buffers by `fn` of them."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with no_grad():
            for p in self._parameters.values():
                if p is None:
                    continue
                _replace_data(p, fn)
                if p.grad is not None:
                    p.grad = fn(p.grad.detach())
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self: Self, *target: Any, **options: Any) -> Self:
        """Moves to a device or casts floating parameters and buffers to a dtype."""
        dtype = options.get("dtype")
        for x in target:
            if isinstance(x, dtypes.DType):
                dtype = x
            elif isinstance(x, Tensor):
                dtype = x.dtype
        if dtype is not None and not dtypes.as_dtype(dtype).is_floating_point:
            raise TypeError(
                f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype!r}"
            )
        return self._apply(lambda t: t.to(*target, **options) if t.is_floating_point() else t)

    def type(self: Self, dst_type: Any) -> Self:
        """Casts all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def _cast(self: Self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: Self) -> Self:
        """Casts floating parameters and buffers to float32."""
        return self._cast(dtypes.float32)

    def double(self: Self) -> Self:
        """Casts floating parameters and buffers to float64."""
        return self._cast(dtypes.float64)

    def half(self: Self) -> Self:
        """Casts floating parameters and buffers to float16."""
        return self._cast(dtypes.float16)

    def bfloat16(self: Self) -> Self:
        """Casts floating parameters and buffers to bfloat16."""
        return self._cast(dtypes.bfloat16)

    def cpu(self: Self) -> Self:
        """Moves to the CPU, where everything is."""
        return self

    def share_memory(self: Self) -> Self:
        """Does nothing: values are copied between processes."""
        return self

    # ---- repr ------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` says about the module itself, such as its sizes."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        if not self._modules:
            return layout(self._get_name(), lines, single=len(lines) == 1)
        for name, module in self._modules.items():
            lines.append(f"({name}): {indent(repr(module))}")
        return layout(self._get_name(), lines)


def _check_member(name: str, value: Any, what: str, wanted: str, fits: bool) -> None:
    if value is not None and not fits:
        raise TypeError(
            f"cannot assign '{type(value).__name__}' as {what} '{name}' ({wanted} or None expected)"
        )


def _replace_data(p: Any, fn: Callable[[Any], Any]) -> None:
    """Gives parameter `p` the value `fn` makes of it; it stays the same leaf."""
    old = wrap(node_of(p))  # not detach(): that would make `p` a tensor that has views
    new = fn(old)
    if new is not old:
        p.data = new


def indent(text: str) -> str:
    """`text` with all lines but the first moved right by two."""
    return text.replace("\n", "\n  ")


def layout(name: str, lines: list[str], single: bool = False) -> str:
    """`name(…)` around `lines`, on one line if `single`."""
    if not lines:
        return f"{name}()"
    if single:
        return f"{name}({lines[0]})"
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"
