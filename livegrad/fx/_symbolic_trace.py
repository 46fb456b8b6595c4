"""Tracing: a function or module is run with proxies, and what it does becomes a graph.

    symbolic_trace(model) ──► Tracer().trace ──► Graph ──► GraphModule

While it runs, calls of modules and reads of parameters are noticed by exchanging `Module.__call__`
and `Module.__getattribute__`, in the thread that traces.
"""

from __future__ import annotations

import collections
import functools
import inspect
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

from livegrad.asserting import _assert
from livegrad.func.tree import Shape, flatten, unflatten
from livegrad.fx.codegen import PyTreeCodeGen
from livegrad.fx.graph import Graph
from livegrad.fx.graph_module import GraphModule
from livegrad.fx.node import Argument, Node, Target, has_side_effect
from livegrad.fx.proxy import GraphAppendingTracer, ParameterProxy, Proxy, TracerBase
from livegrad.fx.wrapping import wrap, wrapped_names
from livegrad.nn.container import Sequential
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.tensor import Tensor


class PHBase:
    """What stands, in `concrete_args`, for a leaf that stays an argument."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


@has_side_effect
def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


class Tracing(threading.local):
    """Whether a trace is running in this thread."""

    now = False


TRACING = Tracing()


def is_fx_tracing() -> bool:
    """Whether a program is being traced in this thread."""
    return TRACING.now


class Tracer(TracerBase):
    """Traces modules and functions; subclasses say what is a leaf, and what is noted."""

    traced_func_name = "forward"

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_functions = {
            *autowrap_functions,
            *[f for m in autowrap_modules for n, f in vars(m).items()
              if callable(f) and not n.startswith("_")],
        }  # fmt: skip
        self._autowrap_modules = tuple(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.root: Any = Module()
        self.submodule_paths: dict[Any, str] | None = None
        self.tensor_attrs: dict[int, tuple[Any, str]] = {}
        self.module_stack: collections.OrderedDict[str, Any] = collections.OrderedDict()
        self._counts: dict[str, int] = {}
        # For nested concrete arguments: the parameters' names, and how their values are built.
        self._nested: tuple[list[str], Shape] | None = None

    # ---- what subclasses override ----------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of a module is one step; else its `forward` is traced.

        By default the layers of `livegrad.nn` are, except Sequential.
        """
        return type(m).__module__.startswith("livegrad.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a submodule; NameError if it is not part of what is traced."""
        paths = self.submodule_paths
        if paths is None:
            paths = {m: n for n, m in self.root.named_modules()}
        if mod not in paths:
            raise NameError("module is not installed as a submodule")
        return paths[mod]

    def call_module(
        self,
        m: Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """A call of a submodule while tracing; `forward` runs it."""
        path = self.path_of_module(m)
        self.module_stack[path] = (path, type(m))
        try:
            if not self.is_leaf_module(m, path):
                return forward(*args, **kwargs)
            return self.create_proxy("call_module", path, args, kwargs)
        finally:
            self.module_stack.pop(path, None)

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node, and notes the modules that are being called."""
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        if self.module_stack:
            node.meta["nn_module_stack"] = collections.OrderedDict(self.module_stack)
        return node

    def create_arg(self, a: Any) -> Argument:
        """As for all tracers; parameters, tensors and modules are read from the root."""
        if isinstance(a, Parameter):
            for name, p in self.root.named_parameters():
                if a is p:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            return self._constant(a)
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            items = tuple([self.create_arg(x) for x in a])
            return self.create_node("call_function", type(a), items, {})
        return super().create_arg(a)

    def _constant(self, tensor: Any) -> Node:
        """A tensor that the program made from nothing it was given, or a buffer."""
        known = self.tensor_attrs.get(id(tensor))
        if known is None:
            name = self.get_fresh_qualname("_tensor_constant")
            setattr(self.root, name, tensor)
            known = self.tensor_attrs[id(tensor)] = (tensor, name)
        return self.create_node("get_attr", known[1], (), {})

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name for an attribute of the root that it does not have yet."""
        number = self._counts.get(prefix, 0)
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._counts[prefix] = number + 1
        return f"{prefix}{number}"

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What a module's attribute is while tracing: parameters are proxies."""
        if isinstance(attr_val, Parameter):
            return self._member(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._member(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _member(self, value: Any, members: Iterator[tuple[str, Any]], known: Any) -> Any:
        for name, member in members:
            if member is value:
                if name not in known:
                    make = None
                    if self.param_shapes_constant:
                        make = functools.partial(self._parameter_proxy, name, value)
                    known[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=make)
                return known[name]
        return value

    def _parameter_proxy(self, name: str, value: Any, node: Node) -> ParameterProxy:
        return ParameterProxy(self, node, name, value)

    # ---- tracing ---------------------------------------------------------------------------

    def trace(
        self,
        root: Module | Callable[..., Any],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """The graph of what `root` does.

        `concrete_args` has values of arguments that are to be fixed; in a nested value, what is
        `PH` stays an argument.
        """
        forward = self._enter(root)
        run, arguments = self.create_args_for_root(forward, isinstance(root, Module), concrete_args)
        with self._watching(forward):
            result = run(*arguments)
            if self._nested is not None:
                result = self._taken_apart(result)
            annotation = _annotations(forward).get("return")
            self.create_node(
                "output", "output", (self.create_arg(result),), {}, type_expr=annotation
            )
        self.submodule_paths = None
        return self.graph

    def _enter(self, root: Module | Callable[..., Any]) -> Callable[..., Any]:
        """Begins a graph; gives the function that is to be run."""
        if isinstance(root, Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in "
                    f"{type(root).__name__}"
                )
            forward = getattr(type(root), self.traced_func_name)
            self.submodule_paths = {m: n for n, m in root.named_modules()}
        else:
            self.root = Module()
            forward = root
        kind: Any = type(self)
        self.graph = GraphAppendingTracer(Graph(tracer_cls=kind)).graph
        self.tensor_attrs = {}
        _collect_tensors(self.root, "", self.tensor_attrs)
        self._counts, self._nested = {}, None
        return forward  # type: ignore[no-any-return]

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function to run, and its arguments: proxies of placeholders, values that are fixed.

        The first argument of a module's function is the module.
        """
        parameters, run = _parameters(root_fn)
        arguments: list[Any] = []
        if is_module:
            arguments.append(self.root)
            parameters = parameters[1:]
        concrete = _by_name(concrete_args, parameters)
        annotations = _annotations(root_fn)
        arguments += [self._argument(p, concrete, annotations) for p in parameters]
        if any([isinstance(value, dict | list | tuple) for value in concrete.values()]):
            names = [p.name for p in parameters]
            _, shape = flatten([concrete.get(name, PH) for name in names])
            self._nested = names, shape
        return run, arguments

    def _argument(self, parameter: Any, concrete: dict[str, Any], annotations: Any) -> Any:
        name = parameter.name
        if name in concrete:
            return _leaves_replaced(concrete[name], functools.partial(self._fixed, parameter))
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        default = () if parameter.default is parameter.empty else (parameter.default,)
        target = stars.get(parameter.kind, "") + name
        kind = annotations.get(name)
        return self.create_proxy("placeholder", target, default, {}, type_expr=kind)

    def _fixed(self, parameter: Any, value: Any) -> Any:
        """A leaf of a concrete argument: a placeholder that is checked, and the value itself."""
        number = self._counts.get(f"leaf {parameter.name}", 0) + 1
        self._counts[f"leaf {parameter.name}"] = number
        default = () if parameter.default is parameter.empty else (parameter.default,)
        out = self.create_proxy("placeholder", f"{parameter.name}_{number}", default, {})
        if value is PH:
            return out
        message = (
            f"{parameter.name} has been specialized to have value {value} but got another value"
        )
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (out, message), {})
        elif type(value) in (bool, int, float, str):
            self.create_proxy("call_function", _assert, (out == value, message), {})
        return value

    def _taken_apart(self, result: Any) -> list[Any]:
        """The leaves of the result; the code is to take nested arguments apart, too."""
        leaves, built = flatten(result)
        assert self._nested is not None
        self.graph.set_codegen(PyTreeCodeGen(*self._nested, built))
        return leaves

    @contextmanager
    def _watching(self, forward: Any) -> Iterator[None]:
        """Within it, calls of modules, reads of parameters and wrapped functions are noticed."""
        before, TRACING.now = TRACING.now, True
        exchanges = [*self._exchanges(forward)]
        undo = [exchange() for exchange in exchanges]
        try:
            with _modules_watched(self):
                yield
        finally:
            for take_back in reversed(undo):
                take_back()
            TRACING.now = before

    def _exchanges(self, forward: Any) -> Iterator[Callable[[], Callable[[], None]]]:
        """Names in globals, whose functions are to be recorded."""
        seen: set[tuple[int, str]] = set()
        names = getattr(inspect.unwrap(forward), "__globals__", {})
        for entry in wrapped_names():
            seen.add((id(entry.names), entry.name))
            yield functools.partial(_exchange, entry.names, entry.name, entry.function)
        found = [(names, name, f) for name, f in list(names.items())]
        modules = [(vars(m), n, f) for m in self._autowrap_modules for n, f in vars(m).items()]
        for where, name, function in chain(found, modules):
            if name.startswith("_") or not callable(function) or (id(where), name) in seen:
                continue
            if _is_hashable(function) and function in self._autowrap_functions:
                yield functools.partial(_exchange, where, name, function)


def _is_hashable(x: Any) -> bool:
    return type(x).__hash__ is not None and not isinstance(x, Module)


def _collect_tensors(module: Any, prefix: str, found: dict[int, tuple[Any, str]]) -> None:
    """Tensors that are ordinary attributes of modules, by path."""
    for name, value in module.__dict__.items():
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            found[id(value)] = (value, f"{prefix}{name}")
    for name, child in module.named_children():
        _collect_tensors(child, f"{prefix}{name}.", found)


def _parameters(function: Any) -> tuple[list[inspect.Parameter], Callable[..., Any]]:
    """The parameters of a function, and what takes all of them by position.

    `*args` is then one value, as it is one in the graph.
    """
    known = inspect.unwrap(function)
    found = list(inspect.signature(known).parameters.values())
    found.sort(key=lambda p: _ORDER.get(p.kind, 0))
    plain = all([p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in found])
    if plain or known is not function:
        return found, function
    if not isinstance(function, FunctionType):
        return [p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)], function
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    code = code.replace(
        co_argcount=len(found), co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags
    )
    return found, FunctionType(
        code, function.__globals__, function.__name__, None, function.__closure__
    )


# As in a function's code: keyword-only parameters before `*args`.
_ORDER: dict[Any, int] = {
    inspect.Parameter.KEYWORD_ONLY: 1,
    inspect.Parameter.VAR_POSITIONAL: 2,
    inspect.Parameter.VAR_KEYWORD: 3,
}


def _by_name(concrete: Any, parameters: list[inspect.Parameter]) -> dict[str, Any]:
    if not isinstance(concrete, tuple):
        return dict(concrete or {})
    if len(concrete) != len(parameters):
        raise RuntimeError(
            f"Tracing expected {len(parameters)} arguments but got {len(concrete)} concrete "
            "arguments"
        )
    return dict(zip([p.name for p in parameters], concrete, strict=True))


def _annotations(function: Any) -> dict[str, Any]:
    """Annotations of a function that say something, if they can be evaluated."""
    try:
        found = inspect.get_annotations(inspect.unwrap(function), eval_str=True)
    except Exception:
        return {}
    return {name: kind for name, kind in found.items() if kind is not Any}


def _leaves_replaced(value: Any, function: Callable[[Any], Any]) -> Any:
    if not isinstance(value, dict | list | tuple):
        return function(value)
    leaves, shape = flatten(value)
    return unflatten([function(x) for x in leaves], shape)


# -------------------------------------------------------------------------- noticing what happens


def _exchange(names: dict[str, Any], name: str, function: Any) -> Callable[[], None]:
    """Puts a recorder in the place of a function in a module's globals; gives the way back."""
    absent = name not in names
    before = names.get(name)
    names[name] = before if hasattr(before, "_recorded") else _recorder(before or function)

    def take_back() -> None:
        if absent:
            del names[name]
        else:
            names[name] = before

    return take_back


def _recorder(function: Any) -> Any:
    """Calls with a proxy among the arguments are recorded, others are made."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_in((args, kwargs))
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    call._recorded = function  # type: ignore[attr-defined]
    return call


def _proxy_in(value: Any) -> Proxy | None:
    leaves, _ = flatten(value)
    return next((x for x in leaves if isinstance(x, Proxy)), None)


@contextmanager
def _modules_watched(tracer: Tracer) -> Iterator[None]:
    thread = threading.get_ident()
    call = vars(Module)["__call__"]
    outer = vars(Module).get("__getattribute__")  # of a trace within which this one runs
    read: Any = outer or object.__getattribute__
    cache: dict[str, Proxy] = {}

    def called(mod: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return call(mod, *args, **kwargs)
        run = functools.partial(call, mod)
        return tracer.call_module(mod, run, args, kwargs)

    def getattribute(mod: Any, name: str) -> Any:
        value = read(mod, name)
        if not isinstance(value, Tensor) or threading.get_ident() != thread:
            return value
        return tracer.getattr(name, value, cache)

    kind: Any = Module
    kind.__call__, kind.__getattribute__ = called, getattribute
    try:
        yield
    finally:
        kind.__call__ = call
        if outer is None:
            del kind.__getattribute__
        else:
            kind.__getattribute__ = outer


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A module that does what `root` does, as a graph that can be read and changed.

    `concrete_args` fixes arguments, so that branches on them are followed.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "traced")
    return GraphModule(tracer.root, graph, name)


__all__ = ["PH", "PHBase", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]
