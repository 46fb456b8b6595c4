"""What values and lines belong to in the user's model: names of parameters and of modules."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from livegrad.graph.node import LeafRef, Node
from livegrad.nn.module import Module


class Names:
    """The modules that exist now, by the paths from those that are in no other."""

    def __init__(self) -> None:
        modules = [x for x in gc.get_objects() if isinstance(x, Module)]
        inner = {id(child) for module in modules for child in module.children()}
        roots = [module for module in modules if id(module) not in inner]
        # Larger models first: a layer that somebody keeps by itself has no better name.
        roots.sort(key=lambda module: -sum(1 for _ in module.modules()))
        self.paths: dict[int, str] = {}
        self.modules: list[Module] = []
        self.parameters: dict[int, str] = {}
        self._owners: dict[int, Module] = {}  # of parameters
        self._above: dict[int, list[Module]] = {}  # a module and those it is in, the largest first
        for root in roots:
            inside: dict[str, list[Module]] = {}
            for path, module in root.named_modules():
                inside[path] = [*(inside[path.rpartition(".")[0]] if path else []), module]
                if id(module) in self.paths:
                    continue
                self.paths[id(module)] = path
                self.modules.append(module)
                self._above[id(module)] = inside[path]
                for parameter in module.parameters(recurse=False):
                    self._owners.setdefault(id(parameter), module)
            for name, parameter in root.named_parameters():
                self.parameters.setdefault(id(parameter), name)

    def of_leaf(self, node: Node) -> str | None:
        """The name of the parameter that a leaf is the value of."""
        tensor = _leaf(node)
        return None if tensor is None else self.parameters.get(id(tensor))

    def of_tensor(self, tensor: Any) -> str | None:
        """The name of a parameter."""
        return self.parameters.get(id(tensor))

    def module_of(self, node: Node, order: Sequence[Node]) -> str | None:
        """The module that a node belongs to: `blocks.3 (Block)`.

        That is the one whose parameters it reads, or that a call at its place belongs to whose
        other nodes read some; else the one in whose method it was recorded. Of several with the
        same code, it is the one whose parameters were read last before.
        """
        called = self._reads(node) or self._called(node, order)
        if called is not None:
            return self._told([called])
        if node.site is None:
            return None
        code = node.site[0]
        found = [m for m in self.modules if _has_code(type(m), code)]
        if len(found) > 1:
            found = self._nearest(found, node, order) or found
        return None if not found else self._told(found)

    def of_code(self, code: Any) -> str | None:
        """The modules whose methods have this code: `blocks.3 (Block)`, `12 Block`."""
        found = [m for m in self.modules if code is not None and _has_code(type(m), code)]
        if len(found) > 1:
            return f"{len(found)} {type(found[0]).__name__}"
        return None if not found else self._told(found)

    def _told(self, found: list[Module]) -> str:
        kind = type(found[0]).__name__
        if len(found) > 1:
            return f"one of {len(found)} {kind}"
        path = self.paths[id(found[0])]
        return f"{path} ({kind})" if path else kind

    def _reads(self, node: Node) -> Module | None:
        """The module whose parameters a node reads."""
        for x in node.inputs:
            owner = self._owners.get(id(_leaf(x)))
            if owner is not None:
                return owner
        return None

    def _called(self, node: Node, order: Sequence[Node]) -> Module | None:
        """The module that was called where a node was recorded, if it has a name.

        It is what the nearest nodes from the same place that read parameters have in common.
        """
        if node.site is None or node not in order:
            return None
        place = order.index(node)
        around = [
            next((m for m in map(self._reads, nodes) if m is not None), None)
            for nodes in (
                [x for x in reversed(order[:place]) if x.site == node.site],
                [x for x in order[place + 1 :] if x.site == node.site],
            )
        ]
        first, last = [[] if m is None else self._above[id(m)] for m in around]
        common = [a for a, b in zip(first, last, strict=False) if a is b]
        return common[-1] if common and self.paths[id(common[-1])] else None

    def _nearest(self, found: list[Module], node: Node, order: Sequence[Node]) -> list[Module]:
        owned = {id(p): m for m in found for p in m.parameters()}
        place = order.index(node) if node in order else len(order) - 1
        for earlier in reversed(order[: place + 1]):
            for x in earlier.inputs:
                tensor = _leaf(x)
                if id(tensor) in owned:
                    return [owned[id(tensor)]]
        return []


def _leaf(node: Node) -> Any:
    """The tensor that a node is the value of, if that collects gradients."""
    return node.grad_to() if isinstance(node.grad_to, LeafRef) else None


def _has_code(kind: type, code: Any) -> bool:
    """Whether a method of a class, or a function inside of one, is this code."""
    for base in kind.__mro__:
        for method in vars(base).values():
            if code in _codes(getattr(method, "__code__", None)):
                return True
    return False


def _codes(code: Any) -> list[Any]:
    if code is None:
        return []
    inner = [x for x in code.co_consts if hasattr(x, "co_consts")]
    return [code, *[y for x in inner for y in _codes(x)]]


__all__ = ["Names"]
