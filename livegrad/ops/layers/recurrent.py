"""Recurrent layers: all steps of one layer in one direction are one node.

    gates (R, G H) ─┐   R rows: step 0 of all N sequences, step 1 of those that have one, …
    h0 (N, P), c0 ──┼─► RECURRENT ─► (R, P [+ H]): state (and cell) after every step
    weights ────────┘       │
                            └ gradient ─► SLOPES: gradients of all inputs, one after the other

Both run NumPy code that loops over the steps, so a new length is neither a new kernel nor more
nodes. Nothing but the states is kept for the gradient: the gates of all steps are computed again by
one product. A second gradient goes through the same code with tensors instead of arrays, unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.node import Node
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.layers.composite import Array, Attrs, Metas, need_float
from livegrad.ops.layers.recurrent_cells import CELLS, OfArrays, OfTensors, shared
from livegrad.ops.linalg.common import packed_meta, parts
from livegrad.ops.shaping.joining import cat, record_slice
from livegrad.ops.shaping.movement import PERMUTE, reshape_to, wholes
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


class Layout(NamedTuple):
    """attrs of both ops: the kind of layer, and which inputs there are."""

    kind: str
    reverse: bool
    biased: bool = False  # a bias of the state's gates (of a GRU; others add it to the input's)
    projected: bool = False
    packed: bool = False  # whether sequences differ in length

    @property
    def names(self) -> list[str]:
        """The inputs in order."""
        found = ["gates", "h", "weight"]
        found += ["c"] * (self.kind == "LSTM") + ["bias"] * self.biased
        return found + ["projection"] * self.projected + ["sizes"] * self.packed


class Inputs(NamedTuple):
    """The inputs by name."""

    gates: Any
    h: Any
    weight: Any
    c: Any = None
    bias: Any = None
    projection: Any = None
    sizes: Any = None


class Steps:
    """Which rows belong to which step, in the order in which steps are taken."""

    def __init__(self, sizes: list[int], reverse: bool) -> None:
        starts = np.concatenate(([0], np.cumsum(sizes))).tolist()
        self.sizes = sizes
        self.reverse = reverse
        self.spans = [(starts[t], starts[t + 1]) for t in range(len(sizes))]
        self.order = list(range(len(sizes)))[:: -1 if reverse else 1]

    def resumed(self, xp: Any, state: Any, first: Any, t: int) -> Any:
        """The states before step t: those of the step before, and of sequences that start now."""
        size = self.sizes[t]
        have = 0 if state is None else state.shape[0]
        if have > size:  # some sequences have ended
            return xp.rows(state, 0, size)
        if have == size:
            return state
        fresh = xp.rows(first, have, size)
        return fresh if state is None else xp.join([state, fresh], 0)

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


def _state_gates(xp: Any, given: Inputs, h: Any) -> Any:
    gates = xp.matmul(h, xp.turned(given.weight))
    return gates if given.bias is None else gates + given.bias


def forward(xp: Any, layout: Layout, given: Inputs, sizes: list[int]) -> Any:
    """(R, P [+ H]): states, and cells behind them."""
    steps, cell = Steps(sizes, layout.reverse), CELLS[layout.kind]
    states: list[Any] = [None] * len(sizes)
    h = c = None
    for t in steps.order:
        h = steps.resumed(xp, h, given.h, t)
        c = None if given.c is None else steps.resumed(xp, c, given.c, t)
        x = xp.rows(given.gates, *steps.spans[t])
        h, c = cell.step(xp, x, _state_gates(xp, given, h), h, c)
        if given.projection is not None:
            h = xp.matmul(h, xp.turned(given.projection))
        states[t] = h if c is None else xp.join([h, c], 1)
    if not states:
        width = given.h.shape[1] + (0 if given.c is None else given.c.shape[1])
        return xp.zeros(0, width, given.gates)
    return xp.join(states, 0)


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


def backward(xp: Any, layout: Layout, g: Any, y: Any, given: Inputs, sizes: list[int]) -> list[Any]:
    """Gradients of the inputs in the order of `layout.names`, without the sizes."""
    steps, cell = Steps(sizes, layout.reverse), CELLS[layout.kind]
    width = given.h.shape[1]
    before = steps.before(xp, xp.columns(y, 0, width), given.h)
    previous = xp.join(before, 0) if before else xp.zeros(0, width, y)
    state_gates = _state_gates(xp, given, previous)
    cells: list[Any] = [None] * len(sizes)
    if given.c is not None:
        cells = steps.before(xp, xp.columns(y, width, y.shape[1]), given.c)
    of_x: list[Any] = [None] * len(sizes)
    of_s, shown, projected = list(of_x), list(of_x), list(of_x)
    state, kept = _Carried(given.h, steps), _Carried(given.c, steps)
    for t in reversed(steps.order):
        span = steps.spans[t]
        x, s_t = xp.rows(given.gates, *span), xp.rows(state_gates, *span)
        g_t = xp.rows(g, *span)
        gm = state.arriving(xp, xp.columns(g_t, 0, width), t)
        gc = None
        if given.c is not None:
            gc = kept.arriving(xp, xp.columns(g_t, width, g.shape[1]), t)
        if given.projection is not None:
            shown[t] = cell.step(xp, x, s_t, before[t], cells[t])[0]
            projected[t] = gm
            gm = xp.matmul(gm, given.projection)
        slopes = cell.slopes(xp, x, s_t, before[t], cells[t], gm, gc)
        of_x[t], of_s[t] = slopes.x, slopes.s
        handed = xp.matmul(slopes.s, given.weight)
        state.now = handed if slopes.h is None else handed + slopes.h
        kept.now = slopes.c

    def joined(rows: list[Any], wide: int) -> Any:
        return xp.join(rows, 0) if rows else xp.zeros(0, wide, y)

    g_gates = joined(of_x, given.gates.shape[1])
    g_states = g_gates if layout.kind != "GRU" else joined(of_s, given.gates.shape[1])
    found = [g_gates, state.ended(xp), xp.matmul(xp.turned(g_states), previous)]
    if given.c is not None:
        found.append(kept.ended(xp))
    if given.bias is not None:
        found.append(xp.sum_rows(g_states))
    if given.projection is not None:
        out = joined(projected, width)
        found.append(xp.matmul(xp.turned(out), joined(shown, given.projection.shape[1])))
    return found


# --------------------------------------------------------------------------------------- records


def _check(layout: Layout, given: Inputs) -> None:
    hidden = given.weight.shape[0] // CELLS[layout.kind].gates
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


def _named(layout: Layout, values: Any) -> Inputs:
    return Inputs(**dict(zip(layout.names, values, strict=True)))


def _infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    layout = Layout(*attrs)
    given = _named(layout, metas)
    need_float("recurrent", given.gates.dtype)
    _check(layout, given)
    width = given.h.shape[1] + (0 if given.c is None else given.c.shape[1])
    return meta_of((given.gates.shape[0], width), given.gates.dtype)


def _flops(node: Node) -> int:
    """One product per row with the weight, and one with the projection if there is one."""
    given = _named(Layout(*node.attrs), [x.meta for x in node.inputs])
    weights = [given.weight, given.projection]
    multiplied: int = sum([meta.numel for meta in weights if meta is not None])
    return multiplied * int(given.gates.shape[0])


def _ref(n: Any, *arrays: Array) -> Array:
    layout = Layout(*n.attrs)
    given = _named(layout, arrays)
    return np.asarray(forward(OfArrays, layout, given, _sizes(given)))


def _slope_shapes(layout: Layout, metas: Any) -> list[Shape]:
    pairs = zip(layout.names, metas, strict=True)
    return [meta.shape for name, meta in pairs if name != "sizes"]


def _slopes_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    return packed_meta(_slope_shapes(Layout(*attrs), metas[2:]), metas[0].dtype)


def _slopes_ref(n: Any, g: Array, y: Array, *arrays: Array) -> Array:
    layout = Layout(*n.attrs)
    given = _named(layout, arrays)
    found = backward(OfArrays, layout, g, y, given, _sizes(given))
    return np.concatenate([np.asarray(x).ravel() for x in found])


def _slopes_expand(n: Any, g: Tensor, y: Tensor, *inputs: Tensor) -> Tensor:
    """Unrolled, for its gradient; the number of nodes is that of the steps."""
    layout = Layout(*n.attrs)
    wide = n.meta.dtype.compute
    given = _named(layout, [x if x.dtype is dtypes.int64 else x.to(wide) for x in inputs])
    if given.sizes is not None:
        given = given._replace(sizes=given.sizes.tolist())
    sizes = _sizes(given)
    found = backward(OfTensors, layout, g.to(wide), y.to(wide), given, sizes)
    flat = [reshape_to(x, (node_of(x).meta.numel,)) for x in found]
    return cat(flat, 0).to(n.meta.dtype)


def _rule(place: int) -> Any:
    def rule(g: Tensor, y: Tensor, *inputs: Tensor) -> Tensor:
        layout = Layout(*y._node.attrs)
        metas = [node_of(x).meta for x in inputs]
        packed = shared(y, lambda: record(SLOPES, (g, y, *inputs), tuple(layout)))
        return parts(packed, _slope_shapes(layout, metas))[place]

    return rule


def _samples(gradient: bool) -> s.SampleRule:
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
        if gradient:
            wide = width + 2 * (kind == "LSTM")
            inputs = [s.uniform(rows, wide, seed=8), s.uniform(rows, wide, seed=9), *inputs]
        if packed:
            inputs.append(np.array(sizes))
        op = SLOPES if gradient else RECURRENT
        return s.Sample(tuple(inputs), lambda *t: record(op, t, tuple(layout)), smooth=not gradient)

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
    "host",
    # inputs (g, y, …), attrs Layout; the gradients of … one after the other.
    infer=_slopes_infer,
    ref=_slopes_ref,
    expand=_slopes_expand,
    saves="x",
    complex=False,
    samples=_samples(True),
)
RECURRENT: Op = Op(
    "recurrent",
    "host",
    # inputs and attrs: Layout.
    infer=_infer,
    ref=_ref,
    grads=tuple([_rule(place) for place in range(len(Inputs._fields))]),
    saves="xy",
    complex=False,
    autocast="low",
    flops=_flops,
    batch=_batch,
    samples=_samples(False),
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
    layout = Layout(kind, reverse, bias is not None, projection is not None, sizes is not None)
    given = Inputs(gates, h, weight, c, bias, projection, sizes)
    states = record(RECURRENT, [getattr(given, name) for name in layout.names], tuple(layout))
    if c is None:
        return states, None
    width = node_of(h).meta.shape[1]
    hidden = node_of(c).meta.shape[1]
    return record_slice(states, 1, 0, width), record_slice(states, 1, width, hidden)
