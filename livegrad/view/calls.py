"""Which module a node belongs to: calls of modules are noted while somebody watches.

    marks   (120, model) (120, model.fc1) (121, ·) (122, model.fc2) (123, ·) (123, ·)

A mark says that from a position on, nodes are recorded in this; `·` ends the latest. Positions are
node indices, which only grow, so that a mark costs two additions and no node is touched.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from livegrad.graph.state import LOCAL, State
from livegrad.nn.module import Module

_UNNAMED = "?"
_plain_call: Any = Module._called


class Marks(threading.local):
    """What a thread notes: marks since the last flush, and what was open when they began."""

    def __init__(self) -> None:
        self.list: list[tuple[int, str | None]] = []
        self.open: list[str] = []  # now
        self.before: list[str] = []  # when the first of the marks was made


MARKS = Marks()


def enter(name: str) -> None:
    """From here on, nodes belong to this."""
    state = LOCAL.state
    MARKS.list.append((state.base + len(state.nodes), name))
    MARKS.open.append(name)


def leave(depth: int) -> None:
    """Ends all that was entered since `depth` names were open."""
    state = LOCAL.state
    while len(MARKS.open) > depth:
        MARKS.open.pop()
        MARKS.list.append((state.base + len(state.nodes), None))


def taken(state: State) -> list[str]:
    """For each pending node, the name it belongs to; the marks start anew."""
    marks, MARKS.list = MARKS.list, []
    found: list[str] = []
    stack, MARKS.before = MARKS.before, list(MARKS.open)
    at = state.base
    for position, name in marks:
        if position > at:
            found += [stack[-1] if stack else ""] * (position - at)
            at = position
        if name is not None:
            stack.append(name)
        elif stack:
            stack.pop()
    found += [stack[-1] if stack else ""] * (state.base + len(state.nodes) - at)
    return found


class Names:
    """Names of modules and parameters, as paths from the module that was called first."""

    def __init__(self) -> None:
        self.modules: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._roots: list[weakref.ref[Module]] = []
        self._tensors: dict[int, tuple[weakref.ref[Any], str]] = {}

    def of(self, module: Module) -> str:
        """The path of a module; one that no root has is a root."""
        name = self.modules.get(module)
        return self._add_root(module) if name is None else name

    def _add_root(self, root: Module) -> str:
        if MARKS.open:  # made, or put in, since its root was looked at
            for each in self.roots():
                self._look_at(each)
            return self.modules.setdefault(root, f"{MARKS.open[-1]}.{type(root).__name__}")
        name = kind = type(root).__name__
        taken, number = {self.modules[each] for each in self.roots()}, 1
        while name in taken:
            number += 1
            name = f"{kind}#{number}"
        self.modules[root] = name
        self._roots.append(weakref.ref(root))
        self._look_at(root)
        return name

    def _look_at(self, root: Module) -> None:
        top = self.modules[root]
        for path, module in root.named_modules():
            if path:
                self.modules.setdefault(module, f"{top}.{path}")
        for path, tensor in (*root.named_parameters(), *root.named_buffers()):
            self._tensors[id(tensor)] = weakref.ref(tensor), f"{top}.{path}"

    def roots(self) -> list[Module]:
        """The modules that were called from outside of modules, and live."""
        return [each for each in [root() for root in self._roots] if each is not None]

    def name_of(self, tensor: Any) -> str:
        """The path of a parameter or buffer; "" for any other tensor."""
        known = self._tensors.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else ""

    def parameters(self) -> Iterator[tuple[str, Any]]:
        """Parameters and buffers with their paths."""
        for reference, name in list(self._tensors.values()):
            tensor = reference()
            if tensor is not None:
                yield name, tensor


class Failure(threading.local):
    """The error that is on its way out, so that only the innermost module speaks of it."""

    error: BaseException | None = None
    module = ""


FAILURE = Failure()
NAMES = Names()


def _watched_call(self: Module, *args: Any, **kwargs: Any) -> Any:
    marks, state = MARKS, LOCAL.state
    opened = marks.open
    depth = len(opened)
    name = NAMES.modules.get(self) or NAMES.of(self)
    marks.list.append((state.base + len(state.nodes), name))
    opened.append(name)
    try:
        result = _plain_call(self, *args, **kwargs)
    except Exception as error:
        if FAILURE.error is not error:
            FAILURE.error, FAILURE.module = error, name
        leave(depth)
        raise
    if len(opened) == depth + 1:  # the shortest way, as most often
        opened.pop()
        marks.list.append((state.base + len(state.nodes), None))
    else:
        leave(depth)
    return result


def watch_calls(enabled: bool) -> None:
    """Has calls of modules noted, or no longer."""
    function: Any = _watched_call if enabled else _plain_call
    type.__setattr__(Module, "__call__", function)
    if not enabled:
        MARKS.list, MARKS.open, MARKS.before = [], [], []


def names_by_node(nodes: Iterable[Any]) -> dict[int, str]:
    """Names of computed values that are parameters: by their tensors, or because they collect."""
    found = {id(tensor._node): name for name, tensor in NAMES.parameters()}
    for node in nodes:
        to = node.grad_to
        if to is not None and to is not True and callable(to):
            name = NAMES.name_of(to())
            if name:
                found[id(node)] = name
    return found
