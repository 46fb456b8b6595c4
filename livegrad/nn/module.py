"""Module: the base class of everything that holds parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from livegrad import dtypes
from livegrad.autograd import no_grad
from livegrad.autograd.holding import clear
from livegrad.autograd.hooks import RemovableHandle
from livegrad.creation import empty_like
from livegrad.device import Device, unavailable
from livegrad.graph.above import Above
from livegrad.graph.handle import node_of, wrap
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, setting
from livegrad.nn import loading
from livegrad.nn.hooks import GlobalHooks, Hook, Hooks
from livegrad.nn.making import note
from livegrad.nn.parameter import is_lazy
from livegrad.nn.stateful import Stateful
from livegrad.settings import strided
from livegrad.tensor import Tensor

Self = TypeVar("Self", bound="Module")
P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class HasForward(Protocol[P, R]):
    """What has a `forward` of these arguments and this result."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result."""
        ...


_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


def asked_of_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The device and the dtype that `Module.to` is called with; None for what stays."""
    dtype, device = kwargs.get("dtype"), kwargs.get("device")
    for x in args:
        if isinstance(x, dtypes.DType):
            dtype = x
        elif isinstance(x, Tensor):
            dtype, device = x.dtype, x.device
        elif isinstance(x, str | Device):
            device = x
    if dtype is not None and dtypes.as_dtype(dtype).category < dtypes.FLOAT:
        raise TypeError(
            "nn.Module.to only accepts floating point or complex dtypes, but got desired "
            f"dtype={dtype!r}"
        )
    return device, dtype


class Module(Stateful):
    """Base class of neural networks and their layers.

        module ── _parameters   learned tensors
               ── _buffers      tensors that are kept, not learned
               ── _modules      submodules, each a Module again

    Subclasses call `super().__init__()`, assign parameters and submodules as attributes, and define
    `forward`. Calling the module runs `forward` and the hooks around it. Members are in `owner.py`,
    saving and loading in `stateful.py`.

    Example:
        >>> class Twice(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.layer = nn.Linear(2, 2)
        ...
        ...     def forward(self, x):
        ...         return self.layer(self.layer(x))
        >>> net = Twice()
        >>> net(lg.ones(1, 2)).shape
        livegrad.Size([1, 2])
        >>> [name for name, _ in net.named_parameters()]
        ['layer.weight', 'layer.bias']
    """

    # Whether a hook that concerns calls was ever added, to the module or to all modules: if not,
    # `forward` is all there is.
    _hooked = False
    _forward_pre_hooks: Hooks
    _forward_pre_hooks_with_kwargs: Hooks
    _forward_hooks: Hooks
    _forward_hooks_with_kwargs: Hooks
    _forward_hooks_always_called: Hooks
    _backward_pre_hooks: Hooks
    _backward_hooks: Hooks

    # ---- calling ---------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __new__(cls: type[Self], *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        if not cls._is_ours:
            note(made, args, kwargs)
        return made

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._is_ours = cls.__module__.startswith("livegrad.nn.")

    # Whether the class is livegrad's: what it records is then blamed on the line that calls it.
    _is_ours = False

    def _called(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooked:
            with setting(site=None):  # hooks have lines of their own
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

    # To a type checker, a call of a module takes and gives what its `forward` does.
    if TYPE_CHECKING:

        def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:
        __call__ = _called

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        done: set[int] = set()
        try:
            args, kwargs = self._run_pre_hooks(args, kwargs)
            watch = None
            if self._has_backward_hooks():
                from livegrad.nn.backward_hooks import Watch

                watch = Watch(self)
                args = watch.inputs(args)
            result = self.forward(*args, **kwargs)
            for number, hook, with_kwargs, _ in self._all_forward_hooks():
                done.add(number)
                given = (args, kwargs, result) if with_kwargs else (args, result)
                changed = hook(self, *given)
                result = result if changed is None else changed
            return result if watch is None else watch.outputs(result)
        except Exception:
            self._run_always_hooks(done, args, kwargs)
            raise

    def _has_backward_hooks(self) -> bool:
        own = self._backward_hooks or self._backward_pre_hooks
        return bool(own or GlobalHooks.backward or GlobalHooks.backward_pre)

    def _run_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        hooks = [*GlobalHooks.forward_pre.items(), *self._forward_pre_hooks.items()]
        for number, hook in hooks:
            if number in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {changed}."
                    )
                args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _all_forward_hooks(self) -> list[tuple[int, Hook, bool, bool]]:
        """Number, hook, whether it takes kwargs, whether it is called after a failure too."""
        shared = GlobalHooks
        found = [
            (number, hook, number in shared.forward_with_kwargs, number in shared.forward_always)
            for number, hook in shared.forward.items()
        ]
        for number, hook in self._forward_hooks.items():
            with_kwargs = number in self._forward_hooks_with_kwargs
            found.append((number, hook, with_kwargs, number in self._forward_hooks_always_called))
        return found

    def _run_always_hooks(
        self, done: set[int], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """After a failed call: the hooks that asked to be called in any case."""
        for number, hook, with_kwargs, always in self._all_forward_hooks():
            if always and number not in done:
                hook(self, *((args, kwargs, None) if with_kwargs else (args, None)))

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` runs before `forward` and may return other arguments."""
        self._hooked = True
        handle = self._forward_pre_hooks.add(hook, first=prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

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
        handle = self._forward_hooks.add(hook, first=prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` runs when the outputs' gradients are known."""
        self._hooked = True
        return self._backward_pre_hooks.add(hook, first=prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` runs when the inputs' gradients are known."""
        self._hooked = True
        return self._backward_hooks.add(hook, first=prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """The old name of `register_full_backward_hook`; gradients are those of all inputs."""
        return self.register_full_backward_hook(hook)

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
            if set_to_none:
                p._grad = None
            elif p.grad is not None:
                clear(p.grad)

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
                if is_lazy(p):
                    p.convert_(fn)
                    continue
                _replace_data(p, fn)
                if p.grad is not None:
                    _replace_data(p.grad, fn)  # who holds the gradient holds the new one
            for name, buffer in list(self._buffers.items()):
                if is_lazy(buffer):
                    buffer.convert_(fn)
                elif buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Moves to a device, and casts floating parameters and buffers to a dtype."""
        device, _ = asked_of_to(args, kwargs)
        memory_format = kwargs.pop("memory_format", None)

        def move(t: Any) -> Any:
            cast = t.dtype.category >= dtypes.FLOAT
            moved = t.to(*args, **kwargs) if cast else t.to(device=device)
            # A format is one of images; other parameters have none.
            return moved.to(memory_format=memory_format) if t.ndim in (4, 5) else moved

        return self._apply(move)

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Forgets the values of all parameters and buffers, which are then written anew."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

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
        """Moves to the CPU, where everything is that has data."""
        return self._apply(lambda t: t.cpu())

    def cuda(self: Self, device: Any = None) -> Self:
        """AssertionError: there is no such device."""
        raise unavailable("cuda")

    def xpu(self: Self, device: Any = None) -> Self:
        """AssertionError: there is no such device."""
        raise unavailable("xpu")

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: whatever is recorded is compiled."""

    def share_memory(self: Self) -> Self:
        """Moves parameters and buffers, and their gradients, to memory that other processes see."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
            if tensor.grad is not None:
                tensor.grad.share_memory_()
        return self

    # ---- repr ------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` says about the module itself, such as its sizes."""
        return ""

    def _repr_html_(self) -> str:
        html: str = Above.drawing().html_of_module(self)
        return html

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        if not self._modules:
            return layout(self._get_name(), lines, single=len(lines) == 1)
        for name, module in self._modules.items():
            lines.append(f"({name}): {indent(repr(module))}")
        return layout(self._get_name(), lines)


def _replace_data(p: Any, fn: Callable[[Any], Any]) -> None:
    """Gives parameter `p` the value `fn` makes of it; it stays the same leaf."""
    # Not detach(), if there is another way: that would make `p` a tensor that has views.
    old = wrap(node_of(p)) if p.layout is strided else p.detach()
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


# ------------------------------------------------------------------------- hooks of all modules


class _GlobalHandle(RemovableHandle):
    """Takes a hook of all modules away; after the last, calls go the short way again."""

    def remove(self) -> None:
        """Takes the hook away; a second call does nothing."""
        super().remove()
        shared = GlobalHooks
        left = (shared.forward_pre, shared.forward, shared.backward_pre, shared.backward)
        Module._hooked = any(left)


def _add_to_all(hooks: Hooks, hook: Hook) -> RemovableHandle:
    Module._hooked = True
    return _GlobalHandle(hooks, hook)


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, args)` runs before the `forward` of every module."""
    return _add_to_all(GlobalHooks.forward_pre, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)` runs after the `forward` of every module."""
    handle = _add_to_all(GlobalHooks.forward, hook)
    if with_kwargs:
        GlobalHooks.forward_with_kwargs.add(handle.id)
    if always_call:
        GlobalHooks.forward_always.add(handle.id)
    return handle


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, grad_output)` runs for every module when its outputs' gradients are known."""
    return _add_to_all(GlobalHooks.backward_pre, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` runs for every module."""
    return _add_to_all(GlobalHooks.backward, hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, name, buffer)` sees every buffer that is added, and may give another."""
    return GlobalHooks.buffer_registration.add(hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, name, submodule)` sees every submodule that is added, and may give another."""
    return GlobalHooks.module_registration.add(hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, name, parameter)` sees every parameter that is added, and may give another."""
    return GlobalHooks.parameter_registration.add(hook)


# What PyTorch has here under names of its own.
_IncompatibleKeys = loading.IncompatibleKeys
_global_forward_pre_hooks, _global_forward_hooks = GlobalHooks.forward_pre, GlobalHooks.forward
_global_backward_pre_hooks, _global_backward_hooks = GlobalHooks.backward_pre, GlobalHooks.backward
_global_buffer_registration_hooks = GlobalHooks.buffer_registration
_global_module_registration_hooks = GlobalHooks.module_registration
_global_parameter_registration_hooks = GlobalHooks.parameter_registration
