"""A second device, to show that there can be one: values are NumPy's, each node runs at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad.device import register
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.runtime.reference import reference_value
from livegrad.runtime.values import from_compute


class Reference:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.copies_in = self.copies_out = self.runs = 0

    def copy_in(self, values: np.ndarray[Any, Any], meta: Meta) -> Held:
        self.copies_in += 1
        return Held(np.array(values))

    def copy_out(self, buffer: Held, meta: Meta) -> np.ndarray[Any, Any]:
        self.copies_out += 1
        return buffer.values

    def run_node(self, node: Node) -> Held:
        self.runs += 1
        assert all(type(x.buffer) is Held for x in node.inputs), "a value of another device"
        return Held(from_compute(reference_value(node), node.meta.dtype).reshape(node.meta.shape))


class Held:
    """A buffer that nothing of the CPU's can read."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values
        values.flags.writeable = False


BACKEND = Reference()
DEVICE = register("reference", BACKEND)
