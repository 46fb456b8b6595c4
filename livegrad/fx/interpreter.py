"""Interpreter: runs a graph node by node; Transformer: makes a new graph node by node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from livegrad.fx._symbolic_trace import Tracer
from livegrad.fx.graph import Graph
from livegrad.fx.graph_module import GraphModule
from livegrad.fx.node import Argument, Node, Target, map_aggregate, map_arg
from livegrad.fx.proxy import Proxy
from livegrad.nn.module import Module


class Interpreter:
    """Runs a graph; subclasses override what single nodes do.

    `env` has the values of nodes; with `garbage_collect_values`, each until its last use.
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        found: Any = graph if graph is not None else module.graph
        self.graph: Graph = found
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses = _last_uses(self.graph) if garbage_collect_values else {}

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Runs the graph with these arguments; `initial_env` has values that are known already."""
        self.env = initial_env if initial_env is not None else {}
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(given)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self._run(node)
            for used in self.user_to_last_uses.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def _run(self, node: Node) -> Any:
        try:
            return self.run_node(node)
        except Exception as error:
            if self.extra_traceback:
                where = f"\n\nWhile executing {node.format_node()}"
                if node.stack_trace:
                    where += f"\nOriginal traceback:\n{node.stack_trace}"
                text = f"{error.args[0]}{where}" if error.args else where
                error.args = (text, *error.args[1:])
            raise

    def boxed_run(self, args_list: list[Any]) -> Any:
        """`run` of arguments in a list, which is emptied, so that they can be freed."""
        given = dict(zip(self._placeholders(), list(args_list), strict=False))
        args_list.clear()
        return self.run(initial_env=given)

    def _placeholders(self) -> list[Node]:
        return [node for node in self.graph.nodes if node.op == "placeholder"]

    def run_node(self, n: Node) -> Any:
        """The value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    # ---- one method for each op ------------------------------------------------------------

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: Any) -> Any:
        """The next argument, or the default."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected string target, got {type(target)}")
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: Any) -> Any:
        """A value of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function."""
        if isinstance(target, str):
            raise AssertionError("call_function: the target must be a function, not a name")
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the first argument."""
        return getattr(args[0], str(target))(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a submodule."""
        module = self.fetch_attr(str(target))
        return module(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: Any) -> Any:
        """What the graph returns."""
        return args[0]

    # ---- values ----------------------------------------------------------------------------

    def fetch_attr(self, target: str) -> Any:
        """A value of the module, by its path."""
        found: Any = self.module
        parts = target.split(".")
        for i, name in enumerate(parts):
            if not hasattr(found, name):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            found = getattr(found, name)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a node's arguments."""
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """Arguments with the values of the nodes in them."""

        def load(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose "
                    "such issues"
                )
            return self.env[used]

        return map_arg(args, load)


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """For each node, the ones whose values are not needed after it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        for used in node.all_input_nodes:
            if used not in seen:
                seen.add(used)
                found.setdefault(node, []).append(used)
    return found


class _Transforming(Tracer):
    """Adds to a new graph; every module is a leaf."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.tensor_attrs = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Yes."""
        return True


class Transformer(Interpreter):
    """Makes a new module; subclasses override what single nodes become."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _Transforming(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: Any) -> Proxy:
        """An argument of the new graph."""
        default = {"default_value": next(iter(args))} if args else {}
        return Proxy(self.new_graph.placeholder(str(target), **default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: Any) -> Proxy:
        """A value of the module, in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a submodule, in the new graph."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function, in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Runs over all nodes; the new module, with the parameters of the old one."""
        result = super().run(enable_io_processing=False)
        if result is not None:

            def strip(x: Any) -> Any:
                return x.node if isinstance(x, Proxy) else x

            made = self.new_graph.output(map_aggregate(result, strip))
            made.meta = dict(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)


__all__ = ["Interpreter", "Transformer"]
