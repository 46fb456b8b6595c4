"""GraphModule: a module whose `forward` is written from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from livegrad.fx.codegen import PythonCode
from livegrad.fx.graph import Graph
from livegrad.fx.node import Node
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.serialization import save
from livegrad.tensor import Tensor

_numbers = itertools.count()


class GraphModule(Module):
    """A module with the code of a graph.

    After changes to `graph`, `recompile()` writes the code anew; assigning another graph does so
    too. `code` is its text. Each object has a class of its own, for its `forward`.
    """

    _graph: Graph
    _code: str
    meta: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """An object of a new class."""
        base = next(c for c in cls.__mro__ if not vars(c).get("_is_own_class"))
        own = type(base.__name__, (base,), {"_is_own_class": True, "__module__": base.__module__})
        return super().__new__(own)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        self._tellers: dict[str, list[Callable[..., Any]]] = {}
        self.meta = dict(getattr(root, "meta", {}))
        targets = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = root.training
            for target in targets:
                _copy_member(root, self, target)
        elif isinstance(root, dict):
            self._take(root, graph)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph

    def _take(self, root: dict[str, Any], graph: Graph) -> None:
        """Members from a dict by path, those that lie higher first."""
        wanted: dict[str, None] = {}
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
                wanted[str(node.target)] = None
        for target in sorted(wanted, key=lambda path: path.count(".")):
            _assign(root[target], self, target)

    # ---- graph and code --------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that the code was written from."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The code of `forward`."""
        return self._code

    def recompile(self) -> PythonCode:
        """Writes the code anew, after the graph was changed."""
        python_code = self._graph.python_code(root_module="self")
        self.__dict__["_code"] = python_code.src
        forward: Any = _forward_of(python_code)
        type(self).forward = forward  # type: ignore[method-assign]
        return python_code

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        **ignored: Any,
    ) -> str:
        """The code of this module and of those below it, as classes; printed if asked for."""
        code = self._graph.python_code(root_module="self", verbose=True).src
        lines = [f"    {line}" if line else "" for line in code.strip("\n").splitlines()]
        text = f"class {self._get_name()}(livegrad.nn.Module):\n" + "\n".join(lines) + "\n"
        for child in self.children():
            if isinstance(child, GraphModule):
                inner = child.print_readable(print_output=False)
                text += "".join([f"\n    {line}" if line else "\n" for line in inner.splitlines()])
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Writes a package with the code and the parameters: `from folder import FxModule`."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        save({**dict(self.named_parameters()), **dict(self.named_buffers())}, place / "tensors.pt")
        lines = ["import pathlib", "", "import livegrad", "from livegrad.nn import *", "", ""]
        lines += [f"class {module_name}(livegrad.nn.Module):", "    def __init__(self):"]
        lines += ["        super().__init__()"]
        lines += ["        path = pathlib.Path(__file__).parent / 'tensors.pt'"]
        lines += ["        tensors = livegrad.load(path)"]
        for name, child in self.named_children():
            _require_plain(child, name)
            lines.append(f"        self.{name} = {child!r}".replace("\n", "\n        "))
        for name in self._parameters:
            lines.append(f"        self.{name} = livegrad.nn.Parameter(tensors[{name!r}])")
        for name in self._buffers:
            kept = name not in self._non_persistent_buffers_set
            lines.append(f"        self.register_buffer({name!r}, tensors[{name!r}], {kept})")
        lines.append("        self.load_state_dict(tensors, strict=False)")
        body = [f"    {line}" if line else "" for line in self._code.strip().splitlines()]
        (place / "module.py").write_text("\n".join([*lines, "", *body, ""]), encoding="utf-8")
        (place / "__init__.py").write_text("from .module import *\n", encoding="utf-8")

    # ---- submodules ------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at a path; False if something that is no module lies on the way."""
        *path, name = target.split(".")
        module: Any = self
        for part in path:
            below = getattr(module, part, None)
            if below is None:
                below = Module()
                setattr(module, part, below)
            if not isinstance(below, Module):
                return False
            module = below
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Takes a submodule out; False if there is none at that path."""
        *path, name = target.split(".")
        module: Any = self
        for part in path:
            module = module._modules.get(part)
            if module is None:
                return False
        if module._modules.get(name) is None:
            return False
        del module._modules[name]
        return True

    def delete_all_unused_submodules(self) -> None:
        """Takes out submodules that no node calls or reads."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update([".".join(parts[: i + 1]) for i in range(len(parts))])
                if node.op == "call_module":
                    module = self.get_submodule(str(node.target))
                    used.update([f"{node.target}.{n}" for n, _ in module.named_modules() if n])
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- those who want to know of changes -------------------------------------------------

    def _tell_created(self, node: Node) -> None:
        for tell in self._tellers.get("create", ()):
            tell(node)

    def _tell_erased(self, node: Node) -> None:
        for tell in self._tellers.get("erase", ()):
            tell(node)

    def _tell_replaced(self, old: Node, new: str, user: Node) -> None:
        for tell in self._tellers.get("replace", ()):
            tell(old=old, new=new, user=user)

    def _register_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._tellers.setdefault("create", []).append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._tellers["create"].remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._tellers.setdefault("erase", []).append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._tellers["erase"].remove(f)

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        self._tellers.setdefault("replace", []).append(f)
        try:
            yield
        finally:
            self._tellers["replace"].remove(f)

    # ---- copies ----------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        return self._copied(copy.deepcopy(self.__getstate__(), memo), memo)

    def __copy__(self) -> GraphModule:
        return self._copied(dict(self.__getstate__()), None)

    def _copied(self, state: dict[str, Any], memo: dict[int, Any] | None) -> GraphModule:
        made = type(self).__new__(type(self))
        if memo is not None:
            memo[id(self)] = made
        type(made).__name__ = type(self).__name__
        state["_graph"] = state["_graph"] if memo is not None else copy.deepcopy(self._graph)
        made.__setstate__(state)
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        graph = state.pop("_graph")
        super().__setstate__(state)
        self.graph = graph

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        base = next(c for c in type(self).__mro__ if not vars(c).get("_is_own_class"))
        return _unpickled, (base, type(self).__name__), self.__getstate__()

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n{self._code}"


def _unpickled(base: type[GraphModule], name: str) -> GraphModule:
    made = base.__new__(base)
    type(made).__name__ = name
    return made


def _forward_of(code: PythonCode) -> Any:
    """The function that the code defines; tracebacks show its lines."""
    name = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(True), name)
    names = dict(code.globals)
    names.setdefault("livegrad", sys.modules["livegrad"])
    exec(compile(code.src, name, "exec"), names)
    return names["forward"]


def _copy_member(root: Module, to: Module, target: str) -> None:
    """Puts what `root` has at a path there in another module, too."""
    *path, name = target.split(".")
    for part in path:
        below = getattr(root, part)
        if below is getattr(to, part, None):
            return  # all of it is there already
        if getattr(to, part, None) is None:
            setattr(to, part, Module())
        root, to = below, getattr(to, part)
    value = getattr(root, name)
    _set(to, name, value, persistent=name not in root._non_persistent_buffers_set)


def _assign(value: Any, to: Module, target: str) -> None:
    *path, name = target.split(".")
    for part in path:
        if getattr(to, part, None) is None:
            setattr(to, part, Module())
        to = getattr(to, part)
    _set(to, name, value)


def _set(to: Module, name: str, value: Any, persistent: bool = True) -> None:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        if name in to._buffers:
            setattr(to, name, value)
        else:
            to.register_buffer(name, value, persistent)
    else:
        setattr(to, name, value)


def _require_plain(module: Module, name: str) -> None:
    if not type(module).__module__.startswith("livegrad.nn") or type(module) is Module:
        raise ValueError(
            f"to_folder: {name} is a {type(module).__name__}; only modules of livegrad.nn can be "
            "written as code. Save the state dict instead"
        )


__all__ = ["GraphModule"]
