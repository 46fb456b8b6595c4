"""Recurrent layers: kernels that loop over steps; weights are brought to them in panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad import dtypes
from livegrad.compiler.binder import THREAD_WORK, patched
from livegrad.compiler.draft import Draft
from livegrad.compiler.inserted import PANELS
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Kernel, Nodes
from livegrad.compiler.panels import full
from livegrad.compiler.plan import Block, Step
from livegrad.compiler.recurrence import (
    generate_recurrent,
    generate_slopes,
    recurrent_pointers,
    slopes_pointers,
)
from livegrad.graph.node import Node
from livegrad.graph.record import record
from livegrad.graph.symbol import most
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.layers.recurrent import Layout

# Sequences of a work item: a tile of a product, so that even small batches are shared out. Twice as
# many save no more than some percent of the time, by what they leave in the nearest cache.
CHUNK = 4


class _Sequences(Kernel):
    """attrs Layout."""

    label = "recurrent"
    generate: Callable[..., None]
    # Names of the addresses in the block, the result's first.
    pointers: Callable[[Layout], list[str]]
    leading: tuple[str, ...]  # the inputs before those of the layer
    turned: bool  # whether weights are multiplied as they are transposed
    has_gates: str  # an input whose second dim is that of the gates

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """What the kernel reads, in plain order; half precisions are computed in float32."""
        dtype = node.meta.dtype
        if dtype is not dtype.compute:
            return walk.once(node, inputs, lambda: _in_wide(walk, node, inputs))
        layout = Layout(*node.attrs)
        names = [*self.leading, *layout.names]
        found = dict(zip(names, inputs, strict=True))
        for name in ("weight", "projection"):
            if name in found:
                found[name] = walk.rewrite(self._in_panels, found[name], site=node.site)
        if layout.packed:
            found["sizes"] = walk.rewrite(_as_int64, found["sizes"], site=node.site)
        read = [found[name] for name in self.pointers(layout)[1:]]
        return walk.add(node, tuple([walk.in_order(x) for x in read]))

    def _in_panels(self, weight: Any) -> Any:
        return record(PANELS, (weight,), (self.turned,))

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """A step of the template."""
        layout = Layout(*node.attrs)
        names = self.pointers(layout)[1:]
        shapes = {name: x.meta.shape for name, x in zip(names, node.inputs, strict=True)}
        count, state = shapes["h"]
        hidden = shapes["c"][1] if layout.cell.has_cell else state
        gates = shapes[self.has_gates][1]
        rows = node.inputs[0].meta.shape[0]
        steps = shapes["sizes"][0] if layout.packed else rows // most(count, 1)
        widths = (gates, state, hidden)
        pointers = [0] * (1 + len(names))
        slots = [-(-count // CHUNK), *pointers, count, steps, rows, CHUNK, *widths]
        scratch = CHUNK * scratch_columns(layout, *widths) * node.meta.dtype.itemsize
        grain = most(1, THREAD_WORK // most(1, CHUNK * steps * gates * state))
        block = Block(slots, patched(draft.where, node, *node.inputs), grain, scratch)
        signature = (self.generate, tuple(layout), node.meta.dtype)
        return [Step("recurrent", node.meta.shape, [block], signature)]


class Recurrent(_Sequences):
    """Inputs as in Layout."""

    generate = staticmethod(generate_recurrent)
    pointers = staticmethod(recurrent_pointers)
    leading = ()
    turned = True
    has_gates = "gates"


class Slopes(_Sequences):
    """Inputs (g, kept) and those of the layer, of which gates and biases are not read."""

    generate = staticmethod(generate_slopes)
    pointers = staticmethod(slopes_pointers)
    leading = ("g", "kept")
    turned = False
    has_gates = "weight"


def scratch_columns(layout: Layout, gates: int, state: int, hidden: int) -> int:
    """Columns of the thread's own memory that a sequence needs; see compiler/recurrence.py."""
    rooms = int(layout.cell.has_cell) + int(layout.projected)
    return full(state) + full(gates) + full(hidden) * rooms


def _as_int64(x: Any) -> Any:
    return x if x.dtype is dtypes.int64 else cast(x, dtypes.int64)


def _in_wide(walk: Legaliser, node: Node, inputs: Nodes) -> Node:
    op, dtype = node.op, node.meta.dtype

    def make(*given: Any) -> Any:
        wide = [cast(x, dtype.compute) if x.dtype is dtype else x for x in given]
        return cast(record(op, wide, node.attrs), dtype)

    return walk.rewrite(make, *inputs, site=node.site)
