"""`grad_fn`: what made a tensor, as PyTorch shows it, to look at and to hang hooks on.

The objects are made when somebody asks, and are the same ones as long as somebody holds them:

    y.grad_fn is y.grad_fn        and two ways through a graph that meet, meet in one object
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad.autograd.hooks import RemovableHandle, interior_of, leaf_hooks, leaf_post_hooks
from livegrad.autograd.reverse import OfStep
from livegrad.graph.handle import wrap
from livegrad.graph.node import CYCLES, Interior, Node, leaf_ref, place_of
from livegrad.ops.making.generate import filled
from livegrad.ops.shaping import movement
from livegrad.ops.support.parts import Part, Turned, part_of

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Edge = tuple[Any, int]  # a grad_fn or None, and which of its outputs

# By node (or leaf) and place among its parts; they hold their node, so that no id is used twice.
_known: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
_classes: dict[str, type[GradFn]] = {}


def grad_fn_of(node: Node) -> Any:
    """What made the value of an interior node."""
    return edge_to(node)[0]


def output_number(node: Node) -> int:
    """Which output of its `grad_fn` a value is."""
    return edge_to(node)[1]


def edge_to(node: Node | None) -> Edge:
    """Where a gradient of the node's value goes: (grad_fn, which of its outputs)."""
    if node is None or node.grad_to is None:
        return None, 0
    node = place_of(node)
    to = node.grad_to
    if isinstance(to, weakref.ref):
        variable = to()
        if variable is None:  # nobody holds the leaf any more, until now
            variable = wrap(node)
            to = node.grad_to = leaf_ref(variable)
        return _made(AccumulateGrad, id(to), variable, node), 0
    call = _call_of(node)
    if call is not None:
        return call
    part = part_of(node)
    return _made(_class(part.name), (id(node), ()), node, part, ()), 0


def _call_of(node: Node) -> Edge | None:
    """The ctx of a user's Function whose output the node is, and which output."""
    junction: Any = junction_of(node)
    if junction is None:
        return None
    to: Any = node.grad_to
    return junction.grad_to.pull.__self__.ctx, to.pull.place


def junction_of(node: Node) -> Node | None:
    """The node of the call of a user's Function whose output the node is."""
    to: Any = node.grad_to
    junction: Any = getattr(to.pull, "call", None) if type(to) is Interior else None
    if junction is None or type(junction.grad_to) is not Interior:
        return None
    ctx = getattr(junction.grad_to.pull.__self__, "ctx", None)  # type: ignore[union-attr]
    # That of a checkpoint belongs to no Function.
    return junction if hasattr(ctx, "_given_nodes") else None


def _made(cls: Any, key: Any, *arguments: Any) -> Any:
    found = _known.get(key)
    if found is None:
        found = _known[key] = cls(*arguments)
    return found


def _class(name: str) -> type[GradFn]:
    """A class of that name, because programs ask for `type(grad_fn).__name__`."""
    if name not in _classes:
        _classes[name] = type(name, (GradFn,), {"__slots__": (), "__module__": __name__})
    return _classes[name]


class GradFn:
    """One step of a backward pass that was recorded, in PyTorch's words (see `parts`)."""

    __slots__ = ("__weakref__", "_node", "_part", "_path")

    requires_grad = True

    def __init__(self, node: Node, part: Part, path: tuple[int, ...]) -> None:
        self._node = node
        self._part = part
        self._path = path

    def name(self) -> str:
        """Such as `AddBackward0`."""
        names = ("CopySlices", "CopyBackwards")  # written in C++ by hand, hence the prefix
        name = self._part.name
        return f"torch::autograd::{name}" if name in names else name

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """Where gradients go on to: (grad_fn, which of its outputs); (None, 0) for nowhere."""
        return tuple([self._next(i, edge) for i, edge in enumerate(self._part.edges)])

    def _next(self, place: int, edge: Node | Part | None) -> Edge:
        if not isinstance(edge, Part):
            return edge_to(edge)
        if not _flows(edge):
            return None, 0
        path = (*self._path, place)
        return _made(_class(edge.name), (id(self._node), path), self._node, edge, path), 0

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for notes, which stays with the graph."""
        interior = interior_of(self._node)
        if interior.metadata is None:
            CYCLES.are_possible = True
            interior.metadata = {}
        notes: dict[str, Any] = interior.metadata.setdefault(self._path, {})
        return notes

    def register_prehook(self, fn: Callable[[tuple[Any, ...]], Any]) -> RemovableHandle:
        """Calls `fn(grad_outputs)` before this step; a tuple it returns is used instead."""
        self._check_first("register_prehook")
        return RemovableHandle(interior_of(self._node).hooks, OfStep(fn))

    def register_hook(self, fn: Callable[[Any, Any], Any]) -> RemovableHandle:
        """Calls `fn(grad_inputs, grad_outputs)` after this step; a tuple replaces the inputs'."""
        self._check_first("register_hook")
        return RemovableHandle(interior_of(self._node).after, fn)

    def _check_first(self, what: str) -> None:
        if self._path:
            raise RuntimeError(
                f"{what}: {self._part.name} is recorded as a part of another operation; hooks go "
                "on the grad_fn of a tensor"
            )

    def __getattr__(self, name: str) -> Any:
        saved = self._part.saved if name.startswith("_saved_") else {}
        if name[7:] not in saved:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return self._unpacked(saved[name[7:]])

    def _unpacked(self, value: Any) -> Any:
        tensors = isinstance(value, Node | Turned)
        if self._node.spent and tensors:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved "
                "tensors after they have already been freed). Saved intermediate values of the "
                "graph are freed when you call .backward() or autograd.grad(). Specify "
                "retain_graph=True if you need to backward through the graph a second time or if "
                "you need to access saved tensors after calling backward."
            )
        if isinstance(value, Turned):
            return movement.t(_tensor(value.node))
        if isinstance(value, Node):
            return _tensor(value)
        if self._part.name in ("MulBackward0", "DivBackward0") and value is not None:
            return filled((), value, self._node.meta.dtype)  # a number that PyTorch made a tensor
        return value

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *[f"_saved_{name}" for name in self._part.saved]]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


def _flows(part: Part) -> bool:
    """Whether a gradient that comes to a part goes on anywhere."""
    return any(
        _flows(edge) if isinstance(edge, Part) else edge is not None and edge.grad_to is not None
        for edge in part.edges
    )


def _tensor(node: Node) -> Tensor:
    """A tensor with a node's value: the leaf itself, if it is one."""
    leaf = node.grad_to() if isinstance(node.grad_to, weakref.ref) else None
    return wrap(node) if leaf is None or leaf._node is not node else leaf


class AccumulateGrad:
    """The end of the way of a gradient: it is added to `grad` of the leaf `variable`."""

    __slots__ = ("__weakref__", "_node", "metadata", "variable")

    requires_grad = True
    next_functions: tuple[Edge, ...] = ()

    def __init__(self, variable: Tensor, node: Node) -> None:
        self.variable = variable
        self._node = node
        self.metadata: dict[str, Any] = {}

    def name(self) -> str:
        """PyTorch's full name of it."""
        return "torch::autograd::AccumulateGrad"

    def register_prehook(self, fn: Callable[[tuple[Any, ...]], Any]) -> RemovableHandle:
        """Calls `fn((gradient,))` before it is added to `grad`; a tuple it returns is used."""
        return RemovableHandle(leaf_hooks(self.variable), OfStep(fn))

    def register_hook(self, fn: Callable[[Any, Any], Any]) -> RemovableHandle:
        """Calls `fn((), (gradient,))` after it was added to `grad`."""

        def shown(variable: Tensor) -> None:
            fn((), (variable.grad,))

        return RemovableHandle(leaf_post_hooks(self.variable), shown)

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"
