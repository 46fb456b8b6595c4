"""Proxy: stands for a value while a program is traced, and notes what is done with it.

x + 1              call_function  operator.add        operators
x.view(2, 3)       call_method    view                attributes that are called
x.shape            call_function  getattr             attributes that are not
livegrad.relu(x)   call_function  livegrad.relu       public functions, by `__torch_function__`
"""

from __future__ import annotations

import copy
import dis
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import CodeType
from typing import Any

from livegrad.asserting import _assert
from livegrad.device import Device
from livegrad.dtypes import DType
from livegrad.fx.codegen import MAGIC_METHODS
from livegrad.fx.graph import Graph
from livegrad.fx.node import Argument, Node, Target, has_side_effect, map_aggregate
from livegrad.graph.above import Above
from livegrad.settings import MemoryFormat
from livegrad.tensor import Tensor

has_side_effect(_assert)


class TraceError(ValueError):
    """The program does with a traced value what a graph cannot say, such as a branch on it."""


class TracerBase:
    """What turns Python values into arguments of nodes, and nodes into proxies."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False  # whether `assert` on a proxy is recorded
    proxy_buffer_attributes = False  # whether buffers become proxies when they are read

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node to the graph; overridden by tracers that want to note more about it."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """What stands for a node's value."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Adds a node, of arguments that may be proxies, and gives what stands for its value."""
        given, named = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, tuple(given), dict(named), name, type_expr)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = user_stack()
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """A Python value as an argument of a node; NotImplementedError if it cannot be one."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(x) for x in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {_checked_key(self, k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(*[self.create_arg(x) for x in (a.start, a.stop, a.step)])
        if isinstance(a, range):
            return range(*[self.create_arg(x) for x in (a.start, a.stop, a.step)])
        if is_dataclass(a) and not isinstance(a, type):
            given = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), given)
        if isinstance(a, _PLAIN) or a is ... or a is None:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """A branch on a proxy; overridden by tracers that know which way to take."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Any) -> Iterator[Any]:
        """A loop over a proxy; one of known length, as in `a, b = x`, is unrolled."""
        frame = sys._getframe(2)
        length = _unpacked(frame.f_code, frame.f_lasti)
        if length is not None:
            return (obj[i] for i in range(length))
        raise TraceError(
            "Proxy object cannot be iterated: its length is not known while tracing. This happens "
            "in a loop over a traced value, or when one is given as *args or **kwargs"
        )

    def keys(self, obj: Proxy) -> Any:
        """`**proxy`; overridden by tracers that know the names."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds to a graph what is done with proxies of its nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        _ask()


def _ask() -> None:
    """Has public functions ask their arguments, so that proxies hear of them."""
    Above.overrides().install()


_PLAIN = (
    str, int, float, bool, complex, bytes, DType, Device, MemoryFormat, Tensor, Node,
)  # fmt: skip


def _checked_key(tracer: TracerBase, key: Any) -> Any:
    key = tracer.create_arg(key)

    def check(x: Any) -> Any:
        if isinstance(x, Node):
            raise RuntimeError(
                f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}"
            )
        return x

    map_aggregate(key, check)
    return key


def _from(code: CodeType, at: int) -> list[dis.Instruction]:
    """The instructions from one on, without those that mean nothing by themselves."""
    found = [x for x in dis.get_instructions(code) if x.offset >= at]
    return [x for x in found if x.opname not in ("CACHE", "NOT_TAKEN", "TO_BOOL")]


def _unpacked(code: CodeType, at: int) -> int | None:
    """How many values the instruction there takes out of what it iterates over."""
    found = _from(code, at)
    if not found or found[0].opname != "UNPACK_SEQUENCE":
        return None
    return found[0].argval  # type: ignore[no-any-return]


def _is_asserted(code: CodeType, at: int) -> bool:
    """Whether the jump there goes over the raising of an AssertionError."""
    names = [x.opname for x in _from(code, at)[:2]]
    raising = ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT")
    return len(names) == 2 and names[0].startswith("POP_JUMP") and names[1] in raising


def user_stack() -> str:
    """The lines that are running now, without those of this package."""
    import traceback

    root = __file__.rpartition("livegrad")[0] + "livegrad"
    lines = [f for f in traceback.extract_stack() if not f.filename.startswith(root)]
    return "".join(traceback.format_list(lines))


class Proxy:
    """A value of a traced program: `node` is what made it."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k in ("node", "tracer") or (k.startswith("__") and k in _NOT_THERE):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        # Not by way of __getattr__, which would record that.
        copied = Proxy.__new__(type(self))
        copied.__dict__ = {k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()}
        return copied

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            frame = sys._getframe(1)
            if _is_asserted(frame.f_code, frame.f_lasti):
                self.tracer.create_proxy("call_function", _assert, (self,), {})
                return True
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call livegrad.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """The names of `**proxy`."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracer = _tracer_of(args, kwargs)
        if _is_method(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


# Protocols that Python looks for on objects: a proxy has none of them.
_NOT_THERE = frozenset(
    """
    __array__ __array_interface__ __array_struct__ __array_namespace__ __array_priority__
    __array_ufunc__ __cuda_array_interface__ __dlpack__ __fx_create_arg__ __deepcopy__ __copy__
    __wrapped__ __set_name__ __isabstractmethod__ __dataclass_fields__ __fspath__
    """.split()
)


def _tracer_of(args: Any, kwargs: Any) -> TracerBase:
    tracers: dict[TracerBase, None] = {}

    def note(x: Any) -> Any:
        if isinstance(x, Proxy):
            tracers[x.tracer] = None
        return x

    map_aggregate((tuple(args), dict(kwargs)), note)
    if len(tracers) > 1:
        raise RuntimeError(
            f"Found multiple different tracers {list(tracers)} while trying to trace operations"
        )
    return next(iter(tracers))


def _is_method(function: Any) -> bool:
    return bool(Above.overrides().is_tensor_method_or_property(function))


class Attribute(Proxy):
    """An attribute of a proxy: a call of it is a call of a method, anything else reads it."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute: made when it is first needed."""
        if self._node is None:
            args = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, args, {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy of a parameter whose shape is known while tracing."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self, *args: Any) -> Any:
        """The parameter's sizes."""
        return self.param.size(*args)

    def dim(self) -> int:
        """The parameter's number of dims."""
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        """The parameter's number of dims."""
        return int(self.param.ndim)

    def numel(self) -> int:
        """The parameter's number of elements."""
        return int(self.param.numel())

    def nelement(self) -> int:
        """The parameter's number of elements."""
        return int(self.param.nelement())


def _define_operators() -> None:
    for name in MAGIC_METHODS:
        setattr(Proxy, f"__{name.strip('_')}__", _recording(getattr(operator, name)))
    reflected = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul".split()
    for name in reflected:
        function = getattr(operator, name)
        setattr(Proxy, f"__r{name.strip('_')}__", _recording(function, swapped=True))


def _recording(function: Any, swapped: bool = False) -> Any:
    def record(self: Proxy, *args: Any) -> Any:
        given = (args[0], self) if swapped else (self, *args)
        return self.tracer.create_proxy("call_function", function, given, {})

    record.__name__ = function.__name__
    return record


_define_operators()
__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "TraceError",
    "TracerBase",
]
