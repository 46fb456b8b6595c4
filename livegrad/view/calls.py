"""Which module a node belongs to: calls of modules are noted while somebody watches.

    marks   (120, model) (120, model.fc1) (121, ·) (122, model.fc2) (123, ·) (123, ·)

A mark says that from a position on, nodes are recorded in this; `·` ends the latest. Positions are
node indices, which only grow, so that a mark costs two additions and no node is touched. Those who
watch one thread share its marks.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from livegrad.graph.events import BACKWARD, STEP, TAKEN_UP, WALKED
from livegrad.graph.state import LOCAL, State
from livegrad.graph.views import taken_by
from livegrad.nn.module import Module

# What marks say besides paths of modules.
BACKWARD_MARK = "\0backward"
UPDATE_MARK = "\0update "

_plain_call: Any = Module._called


class Marks:
    """What a thread notes: marks since the last flush, and what was open when they began."""

    def __init__(self) -> None:
        self.list: list[tuple[int, str | None]] = []
        self.open: list[str] = []  # now
        self.before: list[str] = []  # when the first of the marks was made
        self.watchers = 0  # who wants them
        self.noted: Noted | None = None  # what was asked for last

    def clear(self) -> None:
        """Forgets everything."""
        self.list, self.open, self.before, self.noted = [], [], [], None


class _Here(threading.local):
    """The marks of this thread."""

    def __init__(self) -> None:
        self.marks = Marks()


HERE = _Here()


def enter(name: str) -> None:
    """From here on, nodes belong to this."""
    state, marks = LOCAL.state, HERE.marks
    marks.list.append((state.base + len(state.nodes), name))
    marks.open.append(name)


def leave(depth: int) -> None:
    """Ends all that was entered since `depth` names were open."""
    state, marks = LOCAL.state, HERE.marks
    while len(marks.open) > depth:
        marks.open.pop()
        marks.list.append((state.base + len(state.nodes), None))


class Noted:
    """The marks of what is pending, for all who watch; the thread begins anew with the next."""

    def __init__(self, state: State) -> None:
        marks = HERE.marks
        self.at = state.base, len(state.nodes)
        self._marks, marks.list = marks.list, []
        self._before, marks.before = marks.before, list(marks.open)

    @cached_property
    def key(self) -> int:
        """A number that is another if modules were called in another order."""
        return hash(tuple([name for _, name in self._marks]))

    @cached_property
    def modules(self) -> list[str]:
        """For each pending node, the name it belongs to."""
        found: list[str] = []
        stack = list(self._before)
        at, count = self.at
        end = at + count
        for position, name in self._marks:
            if position > at:
                found += [stack[-1] if stack else ""] * (position - at)
                at = position
            if name is not None:
                stack.append(name)
            elif stack:
                stack.pop()
        return found + [stack[-1] if stack else ""] * (end - at)


def noted(state: State) -> Noted:
    """What was noted of what is pending in this thread."""
    known = HERE.marks.noted
    if known is None or known.at != (state.base, len(state.nodes)):
        known = HERE.marks.noted = Noted(state)
    return known


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
        opened = HERE.marks.open
        if opened:  # made, or put in, since its root was looked at
            for each in self.roots():
                self._look_at(each)
            return self.modules.setdefault(root, f"{opened[-1]}.{type(root).__name__}")
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
    marks = HERE.marks
    if not marks.watchers:
        return _plain_call(self, *args, **kwargs)
    state = LOCAL.state
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


def _backward(tensors: Any) -> None:
    if HERE.marks.watchers:
        _walked()  # if the last one ended with an error
        enter(BACKWARD_MARK)


def _walked() -> None:
    opened = HERE.marks.open
    if opened and opened[-1] == BACKWARD_MARK:
        leave(len(opened) - 1)


def _stepping(optimizer: Any, before: bool) -> None:
    marks = HERE.marks
    if not marks.watchers:
        return
    if before:
        enter(UPDATE_MARK + type(optimizer).__name__)
    elif marks.open:
        leave(len(marks.open) - 1)


def _taken_up(before: list[Any]) -> None:
    """Nodes that a flush goes on with belong to what they belonged to."""
    known, state = HERE.marks.noted, LOCAL.state
    if known is not None and known.at[1] == len(before):
        belong = dict(zip(map(id, before), known.modules, strict=True))
        known.modules = [belong.get(id(node), "") for node in state.nodes]
        known.at = state.base, len(state.nodes)


class _Watching:
    """How many recorders there are, and how many of them take notes now, in all threads."""

    recorders = 0
    noting = 0


def watch_calls(enabled: bool) -> None:
    """Lets calls of modules be noted, or no longer.

    It is done once for a whole recording: to change a class makes Python forget what it has learnt
    about it.
    """
    _Watching.recorders += 1 if enabled else -1
    function: Any = _watched_call if _Watching.recorders else _plain_call
    if Module.__call__ is not function:
        type.__setattr__(Module, "__call__", function)


_LISTENERS: list[tuple[list[Any], Any]] = [
    (BACKWARD, _backward),
    (WALKED, _walked),
    (STEP, _stepping),
    (TAKEN_UP, _taken_up),
]


def take_notes(marks: Marks, enabled: bool) -> None:
    """Has calls in the thread of these marks noted, or no longer."""
    change = 1 if enabled else -1
    marks.watchers += change
    _Watching.noting += change
    for listeners, function in _LISTENERS:
        if _Watching.noting and function not in listeners:
            listeners.append(function)
        elif not _Watching.noting:
            listeners.remove(function)
    if not marks.watchers:
        marks.clear()


def names_by_node(nodes: Iterable[Any]) -> dict[int, str]:
    """Names of computed values that are parameters: by their tensors, or because they collect.

    Of those that have been written to in place since, such as statistics, the values before.
    """
    written = LOCAL.state.written
    found = {}
    for name, tensor in NAMES.parameters():
        node = tensor._node
        found[id(node)] = name
        while node in written:
            node = taken_by(node, written[node])
            found[id(node)] = name
    for node in nodes:
        to = node.grad_to
        if to is not None and to is not True and callable(to):
            name = NAMES.name_of(to())
            if name:
                found[id(node)] = name
    return found
