"""`torch.jit`: what is decorated or traced runs as it is, since what runs is compiled anyway.

script(f), trace(f, x)      f itself, in a coat that knows `save`, `code`, …
ignore, export, unused      the function
is_scripting()              False: branches for the other language are not taken

Files of TorchScript are neither written nor read: `save` says what to use.
"""

from __future__ import annotations

import builtins
import copy
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final as Final, NoReturn, TypeVar

from livegrad.nn.module import Module

F = TypeVar("F")

__path__: list[str] = []  # what is asked of packages

_NO_FILES = (
    "livegrad writes and reads no TorchScript. Save the weights, save(model.state_dict(), path), "
    "and load them into a model made by its class"
)


class Error(RuntimeError):
    """What TorchScript raises in PyTorch."""


class TracerWarning(Warning):
    """What PyTorch warns of in `trace`, for programs that ignore it: nothing is traced here."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Ignores those from PyTorch's own modules: there are none."""


class ScriptFunction:
    """A function that was scripted or traced: called as it is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    @property
    def code(self) -> str:
        """The Python source."""
        return inspect.getsource(self._function)

    @property
    def graph(self) -> str:
        """What there is to look at: the source, which is what runs."""
        return self.code

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """RuntimeError: says what to use."""
        raise RuntimeError(_NO_FILES)


class ScriptModule(Module):
    """A module that was scripted or traced, or whose class says that it is meant to be."""

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """RuntimeError: says what to use."""
        raise RuntimeError(_NO_FILES)

    save_to_buffer = save

    @property
    def code(self) -> str:
        """The Python source of `forward`."""
        return inspect.getsource(type(self).forward)

    @property
    def graph(self) -> str:
        """What there is to look at: the source, which is what runs."""
        return self.code

    def __getattr__(self, name: str) -> Any:
        """A method that is asked for in this way, as programs do to see its graph, shows it."""
        method = getattr(type(self), name, None)
        if not inspect.isfunction(method):
            return super().__getattr__(name)
        return ScriptFunction(types.MethodType(method, self))

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return type(self).__name__


class RecursiveScriptModule(ScriptModule):
    """What `script` makes of a module."""


class TracedModule(ScriptModule):
    """What `trace` makes of a module."""


TopLevelTracedModule = TracedModule


@functools.cache
def _in_coat(cls: Any, coat: Any) -> Any:
    if issubclass(cls, ScriptModule):
        return cls
    return type(cls.__name__, (cls, coat), {"__module__": cls.__module__})


def _with_coat(module: Any, coat: type) -> Any:
    """The same parameters, buffers and submodules, with the methods of a scripted module."""
    out = copy.copy(module)
    out.__class__ = _in_coat(out.__class__, coat)
    return out


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """A function, class or module as it is; functions and modules say that they are scripted."""
    if isinstance(obj, Module):
        return _with_coat(obj, RecursiveScriptModule)
    if isinstance(obj, type | ScriptFunction) or not callable(obj):
        return obj
    return ScriptFunction(obj)


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """`func` as it is, called once with the example. Its branches stay branches."""
    inputs = options.get("example_kwarg_inputs")
    if isinstance(inputs, dict):
        func(**inputs)
    else:
        func(*_as_tuple(example_inputs))
    return _with_coat(func, TracedModule) if isinstance(func, Module) else ScriptFunction(func)


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
    """`mod` as it is, its methods called once with the examples."""
    for name, example in inputs.items():
        getattr(mod, name)(*_as_tuple(example))
    return _with_coat(mod, TracedModule)


def _as_tuple(example: Any) -> tuple[Any, ...]:
    return tuple(example) if isinstance(example, tuple | list) else (example,)


def save(m: Any, f: Any, *args: Any, **options: Any) -> NoReturn:
    """RuntimeError: says what to use."""
    raise RuntimeError(_NO_FILES)


def load(f: Any, *args: Any, **options: Any) -> NoReturn:
    """RuntimeError: says what to use."""
    raise RuntimeError(_NO_FILES)


# ------------------------------------------------------------------------------------ decorators


def script_method(fn: F) -> F:
    """The method."""
    return fn


def export(fn: F) -> F:
    """The method."""
    return fn


def interface(cls: F) -> F:
    """The class."""
    return cls


def unused(fn: F) -> F:
    """The method."""
    return fn


def script_if_tracing(fn: F) -> F:
    """The function."""
    return fn


_script_if_tracing = _overload = _overload_method = script_method


def ignore(drop: Any = False, **options: Any) -> Any:
    """The function; also as a decorator with options."""
    return drop if callable(drop) else script_method


# ------------------------------------------------------------------------------- asked and wished


def is_scripting() -> bool:
    """False: Python runs."""
    return False


def is_tracing() -> bool:
    """False: Python runs."""
    return False


def annotate(the_type: Any, the_value: F) -> F:
    """The value."""
    return the_value


def Attribute(value: F, type: Any) -> F:
    """The value."""
    return value


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`."""
    return builtins.isinstance(obj, target_type)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module; RuntimeError if it is training, as in PyTorch."""
    if mod.training:
        raise RuntimeError("jit.freeze: the module is in training mode; call eval() first")
    return mod


def optimize_for_inference(mod: F, other_methods: Any = None) -> F:
    """The module."""
    return mod


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """[]: fusion needs no strategy here."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing: operations are fused anyway."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Nothing, around a block: operations are fused anyway."""
    yield


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Nothing, around a block."""
    yield


@contextmanager
def strict_fusion() -> Iterator[None]:
    """Nothing, around a block."""
    yield


class _Started:
    """A call that `fork` has made; it is done."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def wait(self) -> Any:
        """What the call returned."""
        return self._value

    value = wait

    def done(self) -> bool:
        """True."""
        return True


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls `func` at once; `wait` gives its result. What it records is computed when needed."""
    return _Started(func(*args, **kwargs))


def wait(future: Any) -> Any:
    """The result of a call that `fork` has made."""
    return future.wait()


# Annotations of arguments that are a number or a list: files and names that packages import.
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list
_annotations = types.ModuleType(f"{__name__}.annotations")
for _name in ("BroadcastingList1", "BroadcastingList2", "BroadcastingList3"):
    setattr(_annotations, _name, list)
for _name in ("Any", "Dict", "List", "Optional", "Tuple", "Union"):
    setattr(_annotations, _name, getattr(typing, _name))
sys.modules[_annotations.__name__] = _annotations


def _get_trace_graph(*args: Any, **options: Any) -> NoReturn:
    """RuntimeError: there is no graph of TorchScript."""
    raise RuntimeError(
        "jit._get_trace_graph: livegrad has no graph of TorchScript. livegrad.graph(y) shows what "
        "was recorded, livegrad.train.summary(model, x) counts its operations"
    )


def is_of_type(obj: Any, target_type: Any) -> bool:
    """Whether `obj` is of a type such as `list[int]` or `dict[str, Tensor]`; a tuple: of one."""
    if isinstance(target_type, tuple):
        return any(is_of_type(obj, one) for one in target_type)
    holder, held = typing.get_origin(target_type), typing.get_args(target_type)
    if holder in (typing.Union, types.UnionType):
        return any(is_of_type(obj, one) for one in held)
    if holder is None:
        if target_type in (list, dict, tuple):
            raise RuntimeError(
                f"Attempted to use {target_type} without a contained type. Please add a contained "
                "type, e.g. list[int]"
            )
        return target_type is Any or isinstance(obj, target_type or type(None))
    if not isinstance(obj, holder):
        return False
    if holder is dict:
        return all(is_of_type(k, held[0]) and is_of_type(v, held[1]) for k, v in obj.items())
    if holder is tuple:
        return len(obj) == len(held) and all(map(is_of_type, obj, held))
    return all(is_of_type(x, held[0]) for x in obj)


def __getattr__(name: str) -> Any:
    if name == "isinstance":  # its name in PyTorch, which is Python's own above
        return is_of_type
    raise AttributeError(f"module 'livegrad.jit' has no attribute {name!r}")
