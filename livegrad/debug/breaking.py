"""`livegrad.breakpoint_on(...)`: the debugger opens at the line that records what is looked for."""

from __future__ import annotations

import os
import pdb
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from livegrad.debug.names import Names
from livegrad.debug.values import Range, copied, range_of
from livegrad.graph.events import NOTED, RECORDED
from livegrad.graph.node import Node
from livegrad.graph.site import is_inside
from livegrad.graph.state import LOCAL, flush, scratch_state
from livegrad.nn.module import Module
from livegrad.runtime.values import array_of


class Hit(NamedTuple):
    """An operation that was looked for, about to be pending; `frame` is the user's."""

    op: str
    shape: tuple[int, ...]
    input_shapes: tuple[tuple[int, ...], ...]
    file: str
    line: int
    frame: FrameType
    values: Range | None = None


class Breakpoint:
    """Looks at every operation until it is removed, or to the end of a `with` block."""

    def __init__(self, conditions: Sequence[Callable[[Node, FrameType], bool]], nan: bool) -> None:
        self.hits = 0
        self.action: Callable[[Hit], Any] = _debug
        self._conditions = conditions
        # Values of what was recorded since, computed at once; as long as their nodes live.
        self._values: WeakKeyDictionary[Node, Any] | None = WeakKeyDictionary() if nan else None
        if nan:
            flush("breakpoint_on()")  # so that all that is read from here on has a value
        self._busy = False
        NOTED.append(self._noted)
        RECORDED.append(_nothing)  # operations are told of only if somebody listens

    def remove(self) -> None:
        """Ends it. Doing so twice does no harm."""
        if self._noted in NOTED:
            NOTED.remove(self._noted)
            RECORDED.remove(_nothing)

    def __enter__(self) -> Breakpoint:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def _noted(self, node: Node) -> None:
        if self._busy or LOCAL.state.outer:
            return
        self._busy = True
        try:
            values = self._look(node)
            frame = _user_frame()
            if (self._values is not None and values is None) or frame is None:
                return
            if all([condition(node, frame) for condition in self._conditions]):
                self.hits += 1
                self.action(_hit(node, frame, values))
        finally:
            self._busy = False

    def _look(self, node: Node) -> Range | None:
        """What is in a value that is the first not to be finite; None of others."""
        known = self._values
        if known is None or node.op.kind in ("update", "gradient", "gradient_of"):
            return None
        with scratch_state() as state:
            state.grad = False
            copies = {x: known[x] for x in node.inputs if x in known}
            if any([x.buffer is None and x not in copies for x in node.inputs]):
                return None  # it was recorded before
            known[node] = made = copied(node, copies)
            flush("breakpoint", made._node)
            found = range_of(array_of(made._node), node.meta)
            inputs = [copies[x]._node if x in copies else x for x in node.inputs]
            before = [range_of(array_of(x), x.meta).is_finite for x in inputs]
        return None if found.is_finite or not all(before) else found


def _nothing(event: Any) -> None:
    pass


def _hit(node: Node, frame: FrameType, values: Range | None) -> Hit:
    shapes = tuple([x.meta.shape for x in node.inputs])
    code = frame.f_code
    return Hit(
        node.op.name, node.meta.shape, shapes, code.co_filename, frame.f_lineno, frame, values
    )


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _debug(hit: Hit) -> None:
    """Opens the debugger in the user's frame, or what stands for it."""
    print(f"livegrad: {hit.op} {list(hit.shape)}", end=" ")
    print(f"of {', '.join([str(list(s)) for s in hit.input_shapes])}", end="")
    print(f"   {hit.values}" if hit.values is not None else "")
    if sys.breakpointhook is sys.__breakpointhook__ and "PYTHONBREAKPOINT" not in os.environ:
        pdb.Pdb(nosigint=True).set_trace(hit.frame)
    else:
        sys.breakpointhook()


def breakpoint_on(
    op: str | None = None,
    *,
    nan: bool = False,
    module: Any = None,
    line: int | str | None = None,
    shape: Sequence[int | None] | None = None,
    action: Callable[[Hit], Any] | None = None,
) -> Breakpoint:
    """Opens the debugger at the line that records an operation of which all that is given is true.

    Args:
        op: its name, as in `explain()`.
        nan: its result is the first that is not finite. Each operation is computed at once then.
        module: recorded within a call of this module, of this class, or of this path or name.
        line: a line number, or "file.py:12".
        shape: the shape of its result; None for dims of any size.
        action: called with a `Hit` instead of the debugger.
    """
    conditions: list[Callable[[Node, FrameType], bool]] = []
    if op is not None:
        conditions.append(lambda node, frame: node.op.name == op)
    if line is not None:
        conditions.append(lambda node, frame: _is_line(line, frame))
    if shape is not None:
        wanted = tuple(shape)
        conditions.append(lambda node, frame: _is_shape(wanted, node.meta.shape))
    if module is not None:
        conditions.append(lambda node, frame: _is_in(module, frame))
    if not conditions and not nan:
        raise TypeError("breakpoint_on(): give at least one of op, nan, module, line, shape")
    made = Breakpoint(conditions, nan)
    if action is not None:
        made.action = action
    return made


def _is_line(line: int | str, frame: FrameType) -> bool:
    if isinstance(line, int):
        return frame.f_lineno == line
    file, _, number = line.rpartition(":")
    name = frame.f_code.co_filename
    return frame.f_lineno == int(number) and (name == file or name.endswith(os.sep + file))


def _is_shape(wanted: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    if len(wanted) != len(shape):
        return False
    return all([w is None or w == size for w, size in zip(wanted, shape, strict=True)])


def _is_in(module: Any, frame: FrameType | None) -> bool:
    names: Names | None = None
    start: FrameType | None = sys._getframe(0)
    for first in (frame, start):
        at = first
        while at is not None:
            owner = at.f_locals.get("self")
            if isinstance(owner, Module):
                if owner is module or (isinstance(module, type) and isinstance(owner, module)):
                    return True
                if isinstance(module, str):
                    names = names or Names()
                    if module in (type(owner).__name__, names.paths.get(id(owner))):
                        return True
            at = at.f_back
    return False


__all__ = ["Breakpoint", "Hit", "breakpoint_on"]
