"""Graph: the steps of a traced program in the order in which they run.

%x ──► %relu ──► %add ──► return          a list that is linked both ways; nodes know their
                                          inputs and users, so both are cheap to change
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from livegrad.fx.codegen import CodeGen, PythonCode, TransformCodeFunc
from livegrad.fx.names import Namespace, snake_case
from livegrad.fx.node import Argument, Node, Target, map_aggregate, map_arg

if TYPE_CHECKING:
    from livegrad.fx.graph_module import GraphModule

_NOTHING: Any = object()


class NodeList:
    """The nodes of a graph; it may be changed while somebody walks over it."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> NodeList:
        return NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")


class InsertPoint:
    """Within it, new nodes go to another place; `with graph.inserting_before(node): ...`."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.graph._insert = self.before


class Graph:
    """A program as nodes, which can be read, changed and written as Python code."""

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: Any = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    @property
    def nodes(self) -> NodeList:
        """The nodes in order; `reversed` and `len` work too."""
        return NodeList(self)

    def output_node(self) -> Node:
        """The node that returns."""
        for node in reversed(self.nodes):
            if node.op == "output":
                return node
        raise AssertionError("the graph has no output node")

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of an op, and of a target if one is given; in order."""
        if op == "call_function" and target is None:
            raise AssertionError("find_nodes: a target is needed for op='call_function'")
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    # ---- adding ----------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node where nodes are added now: at the end, unless something else was said."""
        args, kwargs = args or (), kwargs or {}
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        given = self._graph_namespace.create_name(name or self._target_to_str(target), None)
        node = Node(self, given, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate(given, node)
        self._insert(node)
        self._len += 1
        if self.owning_module is not None:
            self.owning_module._tell_created(node)
        return node

    def _target_to_str(self, target: Target) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        name = name or type(target).__name__
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return snake_case(name)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = _NOTHING) -> Node:
        """Adds an argument of the program."""
        args = () if default_value is _NOTHING else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Adds a value of the module, by its path."""
        if self.owning_module is not None and not _has_attr(self.owning_module, qualified_name):
            import warnings

            warnings.warn(
                f"get_attr: the graph's module has no {qualified_name!r}; use "
                "GraphModule.add_submodule or register_parameter to add it first",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a call of a submodule, by its path."""
        if self.owning_module is not None and not _has_attr(self.owning_module, module_name):
            import warnings

            warnings.warn(
                f"call_module: the graph's module has no {module_name!r}; use "
                "GraphModule.add_submodule to add it first",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Adds a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Adds the end: what is returned."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """Adds a copy of a node of another graph; `arg_transform` finds its inputs here."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        new = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        new.meta = copy.copy(node.meta)
        return new

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Adds copies of all nodes of `g` that are not in `val_map`, except its output.

        Returns what `g` returns, of nodes here; with `return_output_node`, also g's output node.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    # ---- places ----------------------------------------------------------------------------

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """`with graph.inserting_before(n):` new nodes go before `n`; by default to the start."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """`with graph.inserting_after(n):` new nodes go directly after `n`; or to the end."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return InsertPoint(self, n.append)

    # ---- removing --------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Takes a node out, which nothing uses any more."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            import warnings

            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        if self.owning_module is not None:
            self.owning_module._tell_erased(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase.args, to_erase.kwargs = (), {}

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Takes out nodes whose results nothing uses; returns whether there were any.

        Arguments stay, and so do calls that are made for what they do (`has_side_effect`).
        """
        self.lint()
        matters = is_impure_node or Node.is_impure
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not matters(node):
                self.erase_node(node)
        return self._len != before

    # ---- checking, copying -----------------------------------------------------------------

    def lint(self) -> None:
        """RuntimeError if the graph is no program: an order, a name or a target is wrong."""
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node.all_input_nodes:
                self._check_use(node, used, seen)
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    _check_path(self.owning_module, node)

    def _check_use(self, node: Node, used: Node, seen: set[Node]) -> None:
        if used.graph is not self:
            raise RuntimeError(
                f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used "
                "as an argument! If you are copying nodes from another graph, make sure to use "
                f"``arg_transform`` on node_copy() to remap values\n{self}"
            )
        if used not in seen:
            raise RuntimeError(
                f"Argument '{used}' of Node '{node}' was used before it has been defined! Please "
                f"check that Nodes in the graph are topologically ordered\n{self}"
            )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls)
        if memo is not None:
            memo[id(self)] = copied
        nodes: dict[Node, Node] = {}
        result = copied.graph_copy(self, nodes, return_output_node=True)
        if result is not None:
            value, old = result
            copied.output(value, old.type).meta = copy.copy(old.meta)
        copied._codegen = copy.copy(self._codegen)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        places = {node: place for place, node in enumerate(self.nodes)}
        steps = [
            (n.op, n.name, n.target, *map_arg((n.args, n.kwargs), lambda x: _Place(places[x])))
            + (n.type, n.meta)
            for n in self.nodes
        ]
        return {"steps": steps, "codegen": self._codegen, "tracer": self._tracer_cls}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Graph.__init__(self, tracer_cls=state["tracer"])
        made: list[Node] = []

        def found(x: Any) -> Any:
            return made[x.place] if isinstance(x, _Place) else x

        for op, name, target, args, kwargs, kind, meta in state["steps"]:
            args, kwargs = map_aggregate((args, kwargs), found)
            made.append(self.create_node(op, target, args, kwargs, name, kind))
            made[-1].meta = meta
        self._codegen = state["codegen"]

    # ---- text ------------------------------------------------------------------------------

    def python_code(self, root_module: str, *, verbose: bool = False, **ignored: Any) -> PythonCode:
        """Python code that does what the graph says; `root_module` is how it says the module.

        PyTorch's options for how it is laid out are accepted, and change nothing.
        """
        namespace = Namespace()
        for node in self.nodes:
            namespace.associate(node.name, node)
        return self._codegen._gen_python_code(self, root_module, namespace, verbose)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Has code written by another object."""
        self._codegen = codegen

    @contextmanager
    def _generating(self, before: TransformCodeFunc | None) -> Iterator[None]:
        try:
            yield
        finally:
            self._codegen._body_transformer = before

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> Any:
        """Has the lines of the code changed by a function; `with` takes that back at the end.

        `make_transformer` gets the function that does so now, or None, and gives the new one.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        return self._generating(before)

    def process_inputs(self, *args: Any) -> Any:
        """What the placeholders get for the arguments of a call."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What a call gives for the value of the output node."""
        return self._codegen.process_outputs(out)

    def __str__(self) -> str:
        lines = [text for text in [node.format_node() for node in self.nodes] if text]
        return "graph():" + "".join([f"\n    {line}" for line in lines])

    def print_tabular(self) -> None:
        """Prints the nodes as a table."""
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        print(table(["opcode", "name", "target", "args", "kwargs"], rows))


class _Place:
    """Stands for a node in a pickle: its number."""

    def __init__(self, place: int) -> None:
        self.place = place


def table(head: list[str], rows: list[list[Any]]) -> str:
    """Rows under their heads, in columns as wide as what is in them."""
    texts = [head, *[[str(x) for x in row] for row in rows]]
    widths = [max([len(row[i]) for row in texts]) for i in range(len(head))]
    texts.insert(1, ["-" * width for width in widths])
    lines = ["  ".join([t.ljust(w) for t, w in zip(row, widths, strict=True)]) for row in texts]
    return "\n".join([line.rstrip() for line in lines])


def _has_attr(module: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True


def _check_path(module: Any, node: Node) -> None:
    """The target of a node is in the module, and a call's is a module itself."""
    for name in str(node.target).split("."):
        if not hasattr(module, name):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {name} of "
                f"{type(module).__name__}"
            )
        module = getattr(module, name)
    if node.op == "call_module" and not hasattr(module, "forward"):
        raise RuntimeError(f"Node {node} target {node.target} is not a Module: {type(module)}")


__all__ = ["CodeGen", "Graph", "PythonCode"]
