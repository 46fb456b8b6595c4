"""Python code for a graph: one line per node, each value dropped after its last use."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from livegrad.func.tree import Shape, flatten, unflatten
from livegrad.fx.names import Namespace, custom_builtins
from livegrad.fx.node import Argument, Node, qualified_name, type_text
from livegrad.fx.wrapping import is_wrapped

if TYPE_CHECKING:
    from livegrad.fx.graph import Graph

TransformCodeFunc = Callable[[list[str]], list[str]]

# How calls of the functions in `operator` are written.
MAGIC_METHODS = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}",
    "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}", "add": "{} + {}",
    "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}",
    "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "matmul": "{} @ {}",
    "getitem": "{}[{}]",
}  # fmt: skip
INPLACE_METHODS = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}",
    "imod": "{} %= {}", "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}",
    "ipow": "{} **= {}", "irshift": "{} >>= {}", "isub": "{} -= {}", "itruediv": "{} /= {}",
    "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip
_OPERATORS = {getattr(operator, name): text for name, text in MAGIC_METHODS.items()}
_INPLACE = {getattr(operator, name): text for name, text in INPLACE_METHODS.items()}


@dataclass
class PythonCode:
    """Code of a graph, and the values of the names it uses."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] = field(default_factory=dict)


class CodeGen:
    """Writes the code; subclasses may change how it takes arguments and returns results."""

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line that begins the function."""
        names = list(free_vars)
        if not names or names[0] != "self":
            names.insert(0, "self")
        return f"def forward({', '.join(names)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Argument) -> str:
        """The line that ends it."""
        return f"return {output_args!r}"

    def process_inputs(self, *args: Any) -> Any:
        """What the placeholders get for the arguments of a call."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What a call gives for the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """More names that the code needs."""
        return []

    def _gen_python_code(
        self, graph: Graph, root_module: str, namespace: Namespace, verbose: bool = False
    ) -> PythonCode:
        return _Writer(self, graph, root_module, namespace, verbose).write()


class PyTreeCodeGen(CodeGen):
    """Takes nested arguments apart, and puts results together again.

    `names` are the parameters; `inputs` is how their values are built, `output` how the result is.
    """

    def __init__(self, names: list[str], inputs: Shape, output: Shape) -> None:
        super().__init__()
        self.names = names
        self.inputs = inputs
        self.output = output

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The function takes nested values; the first line takes them apart."""
        begin = super().gen_fn_def(self.names, maybe_return_annotation)
        leaves = [text.split(":")[0].split("=")[0].strip() for text in free_vars]
        given = ", ".join(self.names)
        return f"{begin}\n    {', '.join(leaves)}, = _codegen.process_inputs({given})"

    def generate_output(self, output_args: Argument) -> str:
        """The result is put together."""
        return f"return _codegen.process_outputs({output_args!r})"

    def process_inputs(self, *args: Any) -> Any:
        """The leaves of the arguments, which must be built as those that were traced."""
        leaves, shape = flatten(list(args))
        if shape != self.inputs:
            raise ValueError(f"arguments are built like {shape}; traced were {self.inputs}")
        return leaves

    def process_outputs(self, outputs: Any) -> Any:
        """The result as the traced function gave it."""
        return unflatten(list(outputs), self.output)

    def additional_globals(self) -> list[tuple[str, Any]]:
        """The code calls this object."""
        return [("_codegen", self)]


class _Writer:
    """Writes the code of one graph."""

    def __init__(
        self, codegen: CodeGen, graph: Graph, root: str, namespace: Namespace, verbose: bool
    ) -> None:
        self.codegen = codegen
        self.graph = graph
        self.root = root
        self.namespace = namespace
        self.verbose = verbose
        self.globals: dict[str, Any] = {}
        self.free_vars: list[str] = []
        self.body: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.annotation = ""
        self.dies: dict[Node, list[Node]] = {}

    def write(self) -> PythonCode:
        for name, value in self.codegen.additional_globals():
            self._global(name, value)
        self._find_last_uses()
        for node in self.graph.nodes:
            self._write_node(node)
        if not self.body:
            self.body.append("pass\n")
        if self.codegen._body_transformer is not None:
            self.body = self.codegen._body_transformer(self.body)
        begin = self.codegen.gen_fn_def(self.free_vars, self.annotation)
        wraps = "\n".join([f'livegrad.fx.wrap("{name}")' for name in self.wrapped])
        if wraps:
            self.globals.setdefault("livegrad", sys.modules["livegrad"])
        lines = "".join(self.body).splitlines()
        code = "\n".join([f"    {line}" if line else "" for line in lines])
        return PythonCode(f"\n{wraps}\n\n{begin}\n{code}\n", self.globals)

    def _find_last_uses(self) -> None:
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.dies.setdefault(node, []).append(used)

    # ---- names -----------------------------------------------------------------------------

    def _global(self, hint: str, value: Any) -> str:
        """The name by which the code says `value`."""
        if hint.partition(".")[0] in ("livegrad", "builtins") and _found(hint) is value:
            if hint.startswith("builtins."):
                return hint.removeprefix("builtins.")
            self.globals["livegrad"] = sys.modules["livegrad"]
            return hint
        name = self.namespace.create_name(hint.replace(".", "_"), value)
        self.globals[name] = value
        return name

    def _function(self, target: Any) -> str:
        name = self._global(qualified_name(target), target)
        if is_wrapped(target):
            self.wrapped[name] = None
        return name

    def _type(self, kind: Any) -> str:
        if kind is None:
            return ""
        if isinstance(kind, type) and kind.__module__ == "builtins":
            return type_text(kind)
        return self._global(type_text(kind), kind)

    def _text(self, value: Any) -> str:
        """A value as the code says it."""
        if isinstance(value, tuple):
            inner = "".join([f"{self._text(x)}, " for x in value])
            inner = inner if len(value) == 1 else inner.removesuffix(", ")
            if hasattr(value, "_fields"):
                return f"{self._global(type_text(type(value)), type(value))}({inner})"
            return f"({inner.rstrip() if len(value) == 1 else inner})"
        if isinstance(value, list):
            return f"[{', '.join(map(self._text, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join([f'{k!r}: {self._text(v)}' for k, v in value.items()])}}}"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self._text, (value.start, value.stop, value.step)))})"
        if isinstance(value, type) or inspect.isroutine(value):
            return self._global(qualified_name(value), value)
        text = repr(value)
        known = custom_builtins()
        for word in known:
            if word in text and not isinstance(value, str | Node):
                self.globals[word] = known[word]
        return text

    # ---- nodes -----------------------------------------------------------------------------

    def _write_node(self, node: Node) -> None:
        if node.op == "placeholder":
            self._write_placeholder(node)
            return
        if node.op == "output":
            if node.type is not None:
                self.annotation = f" -> {self._type(node.type)}"
            self.body.append(f"{self._output(node)}\n")
            return
        if self.verbose and node.stack_trace:
            self.body.append(f"# {node.stack_trace.strip().splitlines()[-1].strip()}\n")
        kind = f" : {self._type(node.type)}" if node.type is not None else ""
        self.body.append(f"{self._statement(node, kind)}{self._drop(node)}\n")

    def _output(self, node: Node) -> str:
        # Nodes print as their names; everything else as `_text` says it.
        value = _Said(self._text(node.args[0]))
        return self.codegen.generate_output(value)

    def _write_placeholder(self, node: Node) -> None:
        default = f" = {self._text(node.args[0])}" if node.args else ""
        kind = f" : {self._type(node.type)}" if node.type is not None else ""
        self.free_vars.append(f"{node.target}{kind}{default}")
        raw = str(node.target).replace("*", "")
        if raw != node.name:
            self.body.append(f"{node.name} = {raw}\n")

    def _statement(self, node: Node, kind: str) -> str:
        name, args, target = node.name, node.args, node.target
        if node.op == "get_attr":
            return f"{name}{kind} = {format_target(self.root, str(target))}"
        if node.op == "call_module":
            return f"{name}{kind} = {format_target(self.root, str(target))}({self._call(node)})"
        if node.op == "call_method":
            given = self._call(node, skip=1)
            return f"{name}{kind} = {format_target(self._text(args[0]), str(target))}({given})"
        special = self._operator(node, kind)
        return special or f"{name}{kind} = {self._function(target)}({self._call(node)})"

    def _operator(self, node: Node, kind: str) -> str | None:
        """A call of a function of `operator`, or of `getattr`, as one writes it."""
        target: Any = node.target
        args = [self._text(x) for x in node.args]
        plain = not node.kwargs
        if plain and target in _OPERATORS and len(args) == _OPERATORS[target].count("{}"):
            return f"{node.name}{kind} = {_OPERATORS[target].format(*args)}"
        if plain and target in _INPLACE and len(args) == _INPLACE[target].count("{}"):
            return f"{_INPLACE[target].format(*args)};  {node.name}{kind} = {args[0]}"
        if plain and target is getattr and len(args) == 2 and isinstance(node.args[0], Node):
            attribute = node.args[1]
            if isinstance(attribute, str) and attribute.isidentifier():
                return f"{node.name}{kind} = {format_target(args[0], attribute)}"
        return None

    def _call(self, node: Node, skip: int = 0) -> str:
        given = [self._text(x) for x in node.args[skip:]]
        given += [f"{key} = {self._text(value)}" for key, value in node.kwargs.items()]
        return ", ".join(given)

    def _drop(self, node: Node) -> str:
        """The end of the line, after which some values are not needed any more."""
        dropped = list(self.dies.get(node, []))
        if not node.users:
            dropped.append(node)
        if not dropped:
            return ""
        return f";  {' = '.join([n.name for n in dropped])} = None"


class _Said:
    """Text that prints as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def format_target(base: str, target: str) -> str:
    """An attribute by its path; names that are no identifiers go through `getattr`."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def _found(path: str) -> Any:
    """What a path of names such as `livegrad.nn.functional.relu` leads to."""
    first, *rest = path.split(".")
    found: Any = sys.modules.get(first)
    for name in rest:
        found = getattr(found, name, None)
    return found


__all__ = ["CodeGen", "PyTreeCodeGen", "PythonCode"]
