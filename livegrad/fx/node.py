"""Node: one step of a traced program, in a graph that can be read and changed.

    op              target                  args, kwargs
    placeholder     name of the argument    (default,) or ()
    get_attr        path of the value       ()
    call_function   the function            its arguments
    call_method     name of the method      the object, then the arguments
    call_module     path of the module      its arguments, without the module
    output          "output"                (what is returned,)

Arguments are numbers, strings, dtypes and other nodes, also within lists, tuples, dicts and slices.
A node knows which nodes it uses (`all_input_nodes`) and by which it is used (`users`).
"""

from __future__ import annotations

import builtins
import inspect
import operator
import sys
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from livegrad.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from livegrad.fx.graph import Graph

Target = Callable[..., Any] | str
Argument = Any
F = TypeVar("F", bound=Callable[..., Any])

LEGAL_OPS = frozenset(
    ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
)
# Functions that are called for what they do: their calls stay, although nothing uses the result.
_SIDE_EFFECTS: set[Callable[..., Any]] = {operator.setitem}


def has_side_effect(fn: F) -> F:
    """Says that calls of `fn` are to stay where nothing uses their result."""
    _SIDE_EFFECTS.add(fn)
    return fn


class ArgsKwargsPair(NamedTuple):
    """Arguments of a call by position, and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Node:
    """A step of a graph; `meta` is for whatever passes want to note."""

    _prev: Node
    _next: Node

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        _check_target(op, target)
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._erased = False
        self._prev = self._next = self
        self._inputs: dict[Node, None] = {}
        self._update_args_kwargs(tuple(args), dict(kwargs))

    # ---- arguments -------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Argument, ...]:
        """Arguments by position."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._update_args_kwargs(tuple(a), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, dict(k))

    def _update_args_kwargs(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for old in self._inputs:
            old.users.pop(self, None)
        self._inputs = {}

        def use(node: Node) -> Node:
            self._inputs.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args: tuple[Argument, ...] = map_arg(args, use)
        self._kwargs: dict[str, Argument] = map_arg(kwargs, use)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._inputs)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replaces the argument at a position."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Puts another argument before the one at a position."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replaces the argument of a name, or adds it."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Uses `new_input` wherever `old_input` is among the arguments."""
        if self.graph.owning_module is not None:
            self.graph.owning_module._tell_replaced(old_input, new_input.name, self)

        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._update_args_kwargs(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Has all users use another node instead; returns those that were changed.

        `delete_user_cb(user)` says for which of them that is wanted; with `propagate_meta`, the
        other node, which must have no meta yet, gets that of this one.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                    "replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        wanted = [u for u in self.users if delete_user_cb is None or delete_user_cb(u)]
        for user in wanted:
            user.replace_input_with(self, replace_with)
        return wanted

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """The arguments with all defaults filled in, if the signature can be found."""
        if self.op == "call_function":
            called = self.target
        elif self.op == "call_module":
            called = root.get_submodule(self.target).forward
        else:
            return None
        try:
            bound = inspect.signature(called).bind(*self.args, **self.kwargs)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None
        bound.apply_defaults()
        if normalize_to_only_use_kwargs:
            return ArgsKwargsPair((), dict(bound.arguments))
        return ArgsKwargsPair(bound.args, bound.kwargs)

    # ---- place in the graph ----------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one; after the last, the one that holds the ends together."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Moves `x`, of the same graph, directly before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Moves `x`, of the same graph, directly after this node."""
        self._next.prepend(x)

    def _unlink(self) -> None:
        # Its own links stay, so that a loop over the nodes finds the way on.
        self._prev._next, self._next._prev = self._next, self._prev

    # ---- what it is ------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where the program was when the node was recorded, if the tracer noted it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node matters even if nothing uses its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _SIDE_EFFECTS
        if self.op == "call_module" and self.graph.owning_module is not None:
            module = self.graph.owning_module.get_submodule(str(self.target))
            return bool(getattr(module, "_is_impure", False))
        return False

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace.associate(self.name, self)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node on one line; None for an argument that is put into `placeholder_names`."""
        kind = f"{type_text(self.type)} " if self.type else ""
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.name + (f": {kind.strip()}" if kind else ""))
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        if self.op == "get_attr":
            return f"{head}[target={self._pretty_print_target(self.target)}]"
        args, kwargs = _format_arg(self.args), _format_arg(self.kwargs)
        target = self._pretty_print_target(self.target)
        return f"{head}[target={target}](args = {args}, kwargs = {kwargs})"

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        if hasattr(target, "__module__") and hasattr(target, "__name__"):
            return qualified_name(target)
        return str(getattr(target, "__name__", target))


def _check_target(op: str, target: Target) -> None:
    if op not in LEGAL_OPS:
        raise AssertionError(f"op '{op}' is not in _legal_ops")
    if op == "call_function":
        if not callable(target):
            raise ValueError(
                f"Node [graph = , name = ''] target {target} has type {type(target)} but a "
                "Callable is expected"
            )
    elif not isinstance(target, str):
        raise ValueError(
            f"Node of op {op!r}: target {target} has type {type(target)} but a str is expected"
        )


# --------------------------------------------------------------------------------------- names


def qualified_name(function: Any) -> str:
    """The name under which a program finds a function, such as `livegrad.relu`."""
    name = function.__name__
    if getattr(builtins, name, None) is function:
        return f"builtins.{name}"
    module = _module_of(function)
    qualified = getattr(function, "__qualname__", name)
    own = qualified if "<locals>" not in qualified else name
    return f"{module}.{own if name != '<lambda>' else name}"


def _module_of(function: Any) -> str:
    if isinstance(function, MethodDescriptorType):
        return str(function.__objclass__.__module__)
    module = getattr(function, "__module__", None) or "builtins"
    return "operator" if module == "_operator" else str(module)


def type_text(kind: Any) -> str:
    """A type as it is written in annotations."""
    if isinstance(kind, str):
        return kind
    if kind is None or kind is type(None):
        return "None"
    if isinstance(kind, FunctionType | BuiltinFunctionType):
        return kind.__name__
    if isinstance(kind, type) and not getattr(kind, "__args__", None):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        name = kind.__name__
        if getattr(sys.modules["livegrad"], name, None) is kind:
            return f"livegrad.{name}"
        return f"{kind.__module__}.{kind.__qualname__}"
    return repr(kind)


def _format_arg(arg: Any) -> str:
    """An argument as graphs are printed: nodes with %, strings without quotes."""
    if isinstance(arg, list):
        return f"[{', '.join(map(_format_arg, arg))}]"
    if isinstance(arg, tuple):
        return f"({', '.join(map(_format_arg, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return f"{{{', '.join([f'{k}: {_format_arg(v)}' for k, v in arg.items()])}}}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


# ------------------------------------------------------------------------------------- mapping


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Any:
    """An argument with `fn` of each node in it."""
    if not callable(fn):
        raise AssertionError(f"map_arg: fn must be callable; got {fn!r}")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Any:
    """An argument with `fn` of everything in it that is no container; containers are frozen."""
    if isinstance(a, tuple):
        items = [map_aggregate(x, fn) for x in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict([(k, map_aggregate(v, fn)) for k, v in a.items()])
    if isinstance(a, slice):
        return slice(*[map_aggregate(x, fn) for x in (a.start, a.stop, a.step)])
    return fn(a)


def nodes_in(args: Sequence[Argument]) -> list[Node]:
    """The nodes in arguments, in order."""
    found: list[Node] = []
    map_arg(tuple(args), lambda n: found.append(n) or n)  # type: ignore[func-returns-value]
    return found


__all__ = [
    "Argument",
    "ArgsKwargsPair",
    "Node",
    "Target",
    "has_side_effect",
    "map_aggregate",
    "map_arg",
]
