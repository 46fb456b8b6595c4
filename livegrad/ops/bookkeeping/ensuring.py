"""`livegrad.ensure(condition, message)`: an assertion about values, checked when they are computed.

A condition that is read (`assert (x > 0).all()`) computes everything pending, at every step. This
one is computed with the rest, in a fused kernel, and refuses: the error comes with the flush, and
names the line.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.op import Op
from livegrad.graph.record import elementwise
from livegrad.graph.state import LOCAL, setting
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.support import samples as s


class EnsureError(AssertionError):
    """A condition that was to hold does not."""


def _ref(holds: Any, number: Any) -> Any:
    if not np.all(holds):
        raise EnsureError(_Messages.texts[int(number)])
    return holds


def _emit(e: Any, holds: Any, number: Any) -> Any:
    fails = e.lt(holds, 1)
    e.on_fault(fails, e.select(fails, number, holds))
    return holds


def _complaint(node: Any, value: int) -> tuple[type[Exception], str]:
    return EnsureError, _Messages.texts.get(value, "a condition does not hold")


ENSURE = Op(
    "ensure",
    "elementwise",
    # Inputs (1 where the condition holds,), args (the number of its message,).
    ref=_ref,
    emit=_emit,
    complaint=_complaint,
    result="integer",
    saves="",
    samples=s.calls(lambda: s.Sample((s.integers(3, low=1, high=2), 1), smooth=False)),
)


class _Messages:
    """Texts by number: what a kernel knows of them."""

    texts: dict[int, str] = {}  # noqa: RUF012
    numbers: dict[str, int] = {}  # noqa: RUF012
    lock = threading.Lock()
    most = 1 << 16

    @classmethod
    def number_of(cls, text: str) -> int:
        with cls.lock:
            if text not in cls.numbers:
                if len(cls.texts) >= cls.most:
                    cls.texts.clear()
                    cls.numbers.clear()
                number = len(cls.texts) + 2  # 0 and 1 are what conditions are
                cls.numbers[text], cls.texts[number] = number, text
            return cls.numbers[text]


class _Waiting(threading.local):
    """Conditions that are pending, so that they are computed although nobody reads them."""

    def __init__(self) -> None:
        self.conditions: list[Any] = []


_waiting = _Waiting()


def ensure(condition: Any, message: str = "ensure: the condition does not hold") -> None:
    """Raises `EnsureError` (an AssertionError) with `message` if not all of `condition` is true.

    Nothing is computed now: the condition is looked at with the next flush, whose error names this
    line, and which has updated no parameter then. A number or bool is looked at at once.
    """
    if not isinstance(condition, Handle):
        if not condition:
            raise EnsureError(message)
        return
    with setting(grad=False):
        holds: Any = condition
        if node_of(holds).meta.numel != 1:
            holds = holds.all()
        if node_of(holds).meta.dtype is not dtypes.bool_:
            holds = holds != 0
        asked = elementwise(ENSURE, (cast(holds, dtypes.int64), _Messages.number_of(message)))
    state = LOCAL.state
    first, end = state.base, state.base + len(state.nodes)
    still = [x for x in _waiting.conditions if first <= x._node.index < end]
    _waiting.conditions = [*still, asked]


__all__ = ["ENSURE", "EnsureError", "ensure"]
