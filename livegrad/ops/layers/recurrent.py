"""Recurrent layers: all steps of one layer in one direction are one node.

    gates (R, G H) ─┐   R rows: step 0 of all N sequences, step 1 of those that have one, …
    h0 (N, P), c0 ──┼─► RECURRENT ─► (R, P [+ H] + kept): after every step the state (and cell), and
    weights ────────┘       │                             what the gradient needs besides
                            ▼
                         STATES ─► (R, P [+ H]): its first columns
                            │
                            └ gradient ─► SLOPES (R + N, …): gradients of the gates, row by row, and
                                          of h0 and c0; the weights' are products of its columns

RECURRENT and SLOPES have native kernels that loop over the steps (compiler/lowerings/recurrent.py),
so a new length is neither a new kernel nor more nodes. A second gradient goes through the rules
below with tensors instead of arrays, unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.node import Node
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.bookkeeping.in_place import contiguous
from livegrad.ops.layers.composite import Array, Attrs, Metas, need_float
from livegrad.ops.layers.recurrent_cells import CELLS, Cell, OfArrays, OfTensors, split
from livegrad.ops.products.matmul import matmul, transposed
from livegrad.ops.reductions.reduce import sum as total
from livegrad.ops.shaping.joining import record_slice
from livegrad.ops.shaping.movement import PERMUTE, reshape_to, wholes
from livegrad.ops.support import samples as s
from livegrad.ops.support.shared import shared

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


class Layout(NamedTuple):
    """attrs of the ops: the kind of layer, and which inputs there are."""

    kind: str
    reverse: bool
    biased: bool = False  # a bias of the state's gates (of a GRU; others add it to the input's)
    projected: bool = False
    packed: bool = False  # whether sequences differ in length

    @property
    def cell(self) -> Cell:
        """The rules of one step."""
        return CELLS[self.kind]

    @property
    def names(self) -> list[str]:
        """The inputs in order."""
        found = ["gates", "h", "weight"]
        found += ["c"] * self.cell.has_cell + ["bias"] * self.biased
        return found + ["projection"] * self.projected + ["sizes"] * self.packed

    def named(self, values: Any) -> Inputs:
        """The inputs by name."""
        return Inputs(**dict(zip(self.names, values, strict=True)))


class Inputs(NamedTuple):
    """The inputs by name: values, or what is known of them."""

    gates: Any
    h: Any
    weight: Any
    c: Any = None
    bias: Any = None
    projection: Any = None
    sizes: Any = None


class Widths(NamedTuple):
    """How many columns rows have: of gates, of the state and of what is before its projection."""

    gates: int
    state: int
    hidden: int

    def kept(self, layout: Layout) -> list[int]:
        """Parts of a row of RECURRENT: state, cell, what is kept besides."""
        cell = layout.cell
        return [self.state, self.hidden if cell.has_cell else 0, self.hidden * cell.kept]

    def slopes(self, layout: Layout) -> list[int]:
        """Parts of a row of SLOPES: gradients of x, of s if it has its own, the state before, and
        of a projection its gradient and its operand."""
        projected = [self.state, self.hidden] if layout.projected else [0, 0]
        return [self.gates, self.gates if layout.cell.apart else 0, self.state, *projected]


def widths_of(layout: Layout, given: Inputs) -> Widths:
    """The widths, by the shapes of inputs."""
    gates, state = given.weight.shape
    return Widths(gates, state, given.projection.shape[1] if layout.projected else state)


class Steps:
    """Which rows belong to which step, in the order in which steps are taken."""

    def __init__(self, sizes: list[int], reverse: bool) -> None:
        starts = np.concatenate(([0], np.cumsum(sizes))).tolist()
        self.sizes = sizes
        self.spans = [(starts[t], starts[t + 1]) for t in range(len(sizes))]
        self.order = list(range(len(sizes)))[:: -1 if reverse else 1]

    def resumed(self, xp: Any, state: Any, first: Any, t: int) -> Any:
        """The states before step t: those of the step before, and of sequences that start now."""
        if first is None:
            return None
        size = self.sizes[t]
        if state is None:
            return xp.rows(first, 0, size)
        have = state.shape[0]
        if have > size:  # some sequences have ended
            return xp.rows(state, 0, size)
        return state if have == size else xp.join([state, xp.rows(first, have, size)], 0)

    def before(self, xp: Any, states: Any, first: Any) -> list[Any]:
        """For each step t the states before it, from those after all steps."""
        found: list[Any] = [None] * len(self.sizes)
        state = None
        for t in self.order:
            found[t] = self.resumed(xp, state, first, t)
            state = xp.rows(states, *self.spans[t])
        return found


def _sizes(given: Inputs) -> list[int]:
    """How many sequences take part in each step."""
    if given.sizes is not None:
        return [int(size) for size in given.sizes]
    count = given.h.shape[0]
    return [count] * (given.gates.shape[0] // count if count else 0)


def forward(xp: Any, layout: Layout, given: Inputs, sizes: list[int]) -> Any:
    """(R, P [+ H] + kept): states, cells behind them, and what is kept besides."""
    steps, cell = Steps(sizes, layout.reverse), layout.cell
    rows: list[Any] = [None] * len(sizes)
    h = c = None
    for t in steps.order:
        h = steps.resumed(xp, h, given.h, t)
        c = steps.resumed(xp, c, given.c, t)
        s_t = xp.matmul(h, xp.turned(given.weight))
        s_t = s_t if given.bias is None else s_t + given.bias
        x_t = xp.rows(given.gates, *steps.spans[t])
        both = [split(xp, each, cell.gates) for each in (x_t, s_t)]
        h, c, kept = cell.step(xp, *both, h, c)
        if given.projection is not None:
            h = xp.matmul(h, xp.turned(given.projection))
        rows[t] = xp.join([h, *([] if c is None else [c]), *kept], 1)
    if not rows:
        return xp.zeros(0, sum(widths_of(layout, given).kept(layout)), given.gates)
    return xp.join(rows, 0)


class _Carried:
    """The gradient of a state that is handed back from step to step."""

    def __init__(self, first: Any, steps: Steps) -> None:
        self.steps = steps
        self.first = first  # the state before all steps
        self.now: Any = None
        self.pieces: list[Any] = []  # gradients of `first`, of its last rows first

    def arriving(self, xp: Any, g: Any, t: int) -> Any:
        """`g`, the gradient of the states after step t, and what later steps handed back."""
        if self.now is None:
            return g
        size, have = self.steps.sizes[t], self.now.shape[0]
        if have > size:  # sequences whose first step this was not: they began later
            self.pieces.append(xp.rows(self.now, size, have))
            self.now = xp.rows(self.now, 0, size)
        elif have < size:
            missing = xp.zeros(size - have, self.now.shape[1], self.now)
            self.now = xp.join([self.now, missing], 0)
        return g + self.now

    def ended(self, xp: Any) -> Any:
        """The gradient of the state before all steps."""
        found = [] if self.now is None else [self.now]
        found += reversed(self.pieces)
        have = sum([x.shape[0] for x in found])
        height, width = self.first.shape
        if have < height or not found:
            found.append(xp.zeros(height - have, width, self.first))
        return xp.join(found, 0)


def backward(xp: Any, layout: Layout, g: Any, kept: Any, given: Inputs, sizes: list[int]) -> Any:
    """(R + N, …): the rows of SLOPES; those of h0 and c0 side by side come last."""
    steps, cell = Steps(sizes, layout.reverse), layout.cell
    widths = widths_of(layout, given)
    ends = list(accumulate(widths.kept(layout)))
    states, cells = xp.columns(kept, 0, ends[0]), xp.columns(kept, ends[0], ends[1])
    before = steps.before(xp, states, given.h)
    cells_before = steps.before(xp, cells, given.c)
    rows: list[Any] = [None] * len(sizes)
    state, memory = _Carried(given.h, steps), _Carried(given.c, steps)
    for t in reversed(steps.order):
        span = steps.spans[t]
        g_t = xp.rows(g, *span)
        gh = gm = state.arriving(xp, xp.columns(g_t, 0, ends[0]), t)
        gc = memory.arriving(xp, xp.columns(g_t, ends[0], ends[1]), t) if cell.has_cell else None
        if given.projection is not None:
            gm = xp.matmul(gh, given.projection)
        own = split(xp, xp.columns(xp.rows(kept, *span), ends[1], ends[2]), cell.kept)
        shown = xp.rows(states, *span)
        slopes = cell.slopes(xp, own, shown, before[t], cells_before[t], gm, gc)
        handed = xp.matmul(xp.join(slopes.s, 1), given.weight)
        state.now = handed if slopes.h is None else handed + slopes.h
        memory.now = slopes.c
        found = [*slopes.x, *(slopes.s if cell.apart else ()), before[t]]
        rows[t] = xp.join(found + ([gh, slopes.m] if layout.projected else []), 1)
    last = [state.ended(xp), *([memory.ended(xp)] if cell.has_cell else [])]
    rest = sum(widths.slopes(layout)) - sum(widths.kept(layout)[:2])
    last.append(xp.zeros(given.h.shape[0], rest, given.h))
    return xp.join([*rows, xp.join(last, 1)], 0)


# --------------------------------------------------------------------------------------- records


def _check(layout: Layout, given: Inputs) -> None:
    hidden = given.weight.shape[0] // layout.cell.gates
    rows, width = given.gates.shape
    wanted: dict[str, Shape] = {
        "gates": (rows, width),
        "h": given.h.shape,
        "weight": (width, given.h.shape[1]),
        "c": (given.h.shape[0], hidden),
        "bias": (width,),
        "projection": (given.h.shape[1], hidden),
    }
    for name, shape in wanted.items():
        meta = getattr(given, name)
        if meta is None:
            continue
        if meta.shape != shape:
            raise RuntimeError(
                f"recurrent: {name} has shape {list(meta.shape)}; expected {list(shape)}"
            )
        if meta.dtype is not given.gates.dtype:
            raise RuntimeError(
                f"recurrent: {name} has dtype {meta.dtype.name}; expected that of the input, "
                f"{given.gates.dtype.name}"
            )


def _infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    layout = Layout(*attrs)
    given = layout.named(metas)
    need_float("recurrent", given.gates.dtype)
    _check(layout, given)
    width = sum(widths_of(layout, given).kept(layout))
    return meta_of((given.gates.shape[0], width), given.gates.dtype)


def _flops(node: Node) -> int:
    """One product per row with the weight, and one with the projection if there is one."""
    given = Layout(*node.attrs).named([x.meta for x in node.inputs])
    weights = [given.weight, given.projection]
    multiplied: int = sum([meta.numel for meta in weights if meta is not None])
    return multiplied * int(given.gates.shape[0])


def _ref(n: Any, *arrays: Array) -> Array:
    layout = Layout(*n.attrs)
    given = layout.named(arrays)
    return np.asarray(forward(OfArrays, layout, given, _sizes(given)))


def _slopes_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    layout = Layout(*attrs)
    given = layout.named(metas[2:])
    width = sum(widths_of(layout, given).slopes(layout))
    return meta_of((given.gates.shape[0] + given.h.shape[0], width), metas[0].dtype)


def _slopes_ref(n: Any, g: Array, kept: Array, *arrays: Array) -> Array:
    layout = Layout(*n.attrs)
    given = layout.named(arrays)
    return np.asarray(backward(OfArrays, layout, g, kept, given, _sizes(given)))


def _slopes_expand(n: Any, g: Tensor, kept: Tensor, *inputs: Tensor) -> Tensor:
    """Unrolled, for its gradient; the number of nodes is that of the steps.

    What was kept is computed anew, because no gradient flows through it.
    """
    layout = Layout(*n.attrs)
    wide = n.meta.dtype.compute
    given = layout.named([x if x.dtype is dtypes.int64 else x.to(wide) for x in inputs])
    if given.sizes is not None:
        given = given._replace(sizes=given.sizes.tolist())
    sizes = _sizes(given)
    again = forward(OfTensors, layout, given, sizes)
    found: Tensor = backward(OfTensors, layout, g.to(wide), again, given, sizes)
    return found.to(n.meta.dtype)


def _states_width(layout: Layout, given: Inputs) -> int:
    return sum(widths_of(layout, given).kept(layout)[:2])


def _states_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    layout = Layout(*attrs)
    given = layout.named(metas[1:])
    return meta_of((given.gates.shape[0], _states_width(layout, given)), given.gates.dtype)


def _slope_of(name: str, slopes: Tensor, layout: Layout, metas: Inputs) -> Tensor:
    """The gradient of an input, from what SLOPES gives."""
    rows, count = metas.gates.shape[0], metas.h.shape[0]
    widths = widths_of(layout, metas)
    ends = list(accumulate(widths.slopes(layout), initial=0))

    def part(number: int) -> Tensor:
        columns = record_slice(slopes, 1, ends[number], ends[number + 1] - ends[number])
        return record_slice(columns, 0, 0, rows)

    if name in ("h", "c"):
        first, width = (0, widths.state) if name == "h" else (widths.state, widths.hidden)
        return record_slice(record_slice(slopes, 0, rows, count), 1, first, width)
    if name == "gates":
        return part(0)
    if name == "projection":
        return matmul(transposed(part(3)), part(4))
    of_s = part(1 if layout.cell.apart else 0)
    return total(of_s, 0) if name == "bias" else matmul(transposed(of_s), part(2))


def _rule(place: int) -> Any:
    def rule(g: Tensor, y: Tensor, kept: Tensor, *inputs: Tensor) -> Tensor:
        layout = Layout(*y._node.attrs)
        metas = layout.named([node_of(x).meta for x in inputs])
        slopes = shared(y, lambda: record(SLOPES, (g, kept, *inputs), tuple(layout)))
        return _slope_of(layout.names[place], slopes, layout, metas)

    return rule


def _samples(what: str) -> s.SampleRule:
    """Samples of RECURRENT, STATES or SLOPES."""

    def call(layout: Layout, *t: Any) -> Any:
        if what == "states":
            return record(STATES, (record(RECURRENT, t, tuple(layout)), *t), tuple(layout))
        return record(SLOPES if what == "slopes" else RECURRENT, t, tuple(layout))

    def sample(kind: str, sizes: list[int], reverse: bool, width: int = 2) -> s.Sample:
        packed = len(set(sizes)) > 1
        layout = Layout(kind, reverse, kind == "GRU", width != 2, packed)
        rows, gates = sum(sizes), CELLS[kind].gates * 2
        shapes: dict[str, Shape] = {
            "gates": (rows, gates),
            "h": (sizes[0], width),
            "weight": (gates, width),
            "c": (sizes[0], 2),
            "bias": (gates,),
            "projection": (width, 2),
        }
        names = [name for name in layout.names if name != "sizes"]
        inputs = [s.uniform(*shapes[name], seed=i) for i, name in enumerate(names)]
        if what == "slopes":
            kept = Widths(gates, width, 2).kept(layout)
            g = s.uniform(rows, sum(kept[:2]), seed=8)
            inputs = [g, s.uniform(rows, sum(kept), seed=9), *inputs]
        if packed:
            inputs.append(np.array(sizes))
        return s.Sample(tuple(inputs), lambda *t: call(layout, *t), smooth=what == "states")

    def rule() -> Iterator[s.Sample]:
        for i, kind in enumerate(CELLS):
            yield replace(sample(kind, [1, 1], bool(i % 2)), smooth=False)
            yield sample(kind, [2, 1], not i % 2)
        yield sample("LSTM", [2, 1], True, 1)

    return rule


def _batch(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Any:
    """Sequences of all examples are run side by side, if one weight serves all of them."""
    layout = Layout(*n.attrs)
    of_sequences = [name in ("gates", "h", "c") for name in layout.names]
    one_weight = not any(b for b, own in zip(batched, of_sequences, strict=True) if not own)
    count = n.inputs[1].meta.shape[0]
    if layout.packed or not one_weight or not count:
        return NotImplemented
    steps = n.meta.shape[0] // count

    def side_by_side(x: Tensor, b: bool) -> Tensor:
        """(size, steps * count, width) as rows: step by step, example by example."""
        (x,) = wholes([x], (b,), size)
        _, rows, width = node_of(x).meta.shape
        split = reshape_to(x, (size, rows // count, count, width))
        return reshape_to(record(PERMUTE, (split,), ((1, 0, 2, 3),)), (rows * size, width))

    operands = [
        side_by_side(x, b) if own else x
        for x, b, own in zip(xs, batched, of_sequences, strict=True)
    ]
    y = reshape_to(record(n.op, operands, n.attrs), (steps, size, count, n.meta.shape[1]))
    return reshape_to(record(PERMUTE, (y,), ((1, 0, 2, 3),)), (size, *n.meta.shape))


SLOPES: Op = Op(
    "recurrent_slopes",
    "kernel",
    # inputs (g, kept, …), attrs Layout.
    infer=_slopes_infer,
    ref=_slopes_ref,
    expand=_slopes_expand,
    lower=lowered_by("recurrent.Slopes"),
    saves="x",
    complex=False,
    samples=_samples("slopes"),
)
RECURRENT: Op = Op(
    "recurrent",
    "kernel",
    # inputs and attrs: Layout. Without a gradient: that of STATES goes past it.
    infer=_infer,
    ref=_ref,
    lower=lowered_by("recurrent.Recurrent"),
    complex=False,
    autocast="low",
    flops=_flops,
    batch=_batch,
    samples=_samples("recurrent"),
)
STATES: Op = Op(
    "recurrent_states",
    "composite",
    # inputs (what RECURRENT gives, its inputs …), attrs Layout.
    infer=_states_infer,
    expand=lambda n, kept, *inputs: record_slice(kept, 1, 0, n.meta.shape[1]),
    grads=(None, *[_rule(place) for place in range(len(Inputs._fields))]),
    saves="x",
    complex=False,
    autocast="low",
    samples=_samples("states"),
)


def recurrent(
    kind: str,
    gates: Tensor,
    h: Tensor,
    weight: Tensor,
    *,
    c: Tensor | None = None,
    bias: Tensor | None = None,
    projection: Tensor | None = None,
    sizes: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The states (and cells) after every step of a recurrent layer, as rows.

    Args:
        kind: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        gates: (R, G * H), what the inputs add to the gates: step by step, sequence by sequence.
        h: (N, P), the first states; `c` (N, H) the first cells of an LSTM.
        weight: (G * H, P), from the state to the gates.
        bias: (G * H,), of the state's gates.
        projection: (P, H), from an LSTM's output to its state.
        sizes: (T,), how many sequences take part in each step, never more than before; all if None.
        reverse: steps are taken from the last to the first.
    """
    attrs = (kind, reverse, bias is not None, projection is not None, sizes is not None)
    given = (gates, h, weight, c, bias, projection, sizes)  # as in Inputs
    inputs = [x for x in given if x is not None]
    kept = record(RECURRENT, inputs, attrs)
    states = record(STATES, (kept, *inputs), attrs)
    if c is None:
        return states, None
    width = node_of(h).meta.shape[1]
    hidden = node_of(c).meta.shape[1]
    parts = record_slice(states, 1, 0, width), record_slice(states, 1, width, hidden)
    return contiguous(parts[0]), contiguous(parts[1])  # each a value of its own
