"""What stands for a recorded update among the handles of pending nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad.native.hot import hot_slots

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


@hot_slots
class Pending:
    """The handle of a recorded update: the tensors it reads, some of which it will write."""

    __slots__ = ("_node", "tensors")

    def __init__(self, node: Any, tensors: list[Tensor]) -> None:
        self._node = node
        self.tensors = tensors
