"""One step of a recurrent layer and its gradient, written once for all that computes them.

x   what the input adds to the gates, one value per gate
s   what the state adds to them, h @ weight.T + bias
h   the state before the step; c, in an LSTM, its cell
m   the state after it, before an LSTM's projection

`xp` has the functions that rules are written with: of NumPy arrays (references), of tensors (second
gradients, and single steps), of registers (compiler/lowerings/recurrent.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.bookkeeping.in_place import contiguous
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.elementwise.comparison import gt
from livegrad.ops.elementwise.pointwise_math import sigmoid, tanh
from livegrad.ops.layers.activation import relu
from livegrad.ops.layers.composite import Array, Attrs, Metas, compute_dtype, need_float, to_dtype
from livegrad.ops.making.generate import filled
from livegrad.ops.products.matmul import matmul, transposed
from livegrad.ops.shaping.joining import cat, record_slice
from livegrad.ops.support import samples as s
from livegrad.ops.support.shared import shared

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


class OfArrays:
    """The functions that steps are written with, of NumPy arrays."""

    tanh = staticmethod(np.tanh)
    matmul = staticmethod(np.matmul)
    turned = staticmethod(np.transpose)

    @staticmethod
    def sigmoid(x: Array) -> Array:
        """1 / (1 + exp(-x)), without overflow."""
        half = x.dtype.type(0.5)
        return np.asarray(np.tanh(x * half) * half + half)

    @staticmethod
    def relu(x: Array) -> Array:
        """x where it is positive, else 0."""
        return np.asarray(np.maximum(x, x.dtype.type(0)))

    @staticmethod
    def is_positive(x: Array) -> Array:
        """1 where x > 0, else 0."""
        return (x > 0).astype(x.dtype)

    @staticmethod
    def rows(x: Array, start: int, stop: int) -> Array:
        """Rows start … stop - 1."""
        return x[start:stop]

    @staticmethod
    def columns(x: Array, start: int, stop: int) -> Array:
        """Columns start … stop - 1."""
        return x[:, start:stop]

    @staticmethod
    def zeros(height: int, width: int, like: Array) -> Array:
        """Zeros in the dtype of `like`."""
        return np.zeros((height, width), like.dtype)

    @staticmethod
    def join(xs: list[Array], dim: int) -> Array:
        """Matrices one after the other."""
        return xs[0] if len(xs) == 1 else np.concatenate(xs, dim)


class OfTensors:
    """The same functions of tensors, recorded."""

    tanh = staticmethod(tanh)
    sigmoid = staticmethod(sigmoid)
    relu = staticmethod(relu)
    matmul = staticmethod(matmul)
    turned = staticmethod(transposed)

    @staticmethod
    def is_positive(x: Tensor) -> Tensor:
        """1 where x > 0, else 0."""
        return cast(gt(x, 0), node_of(x).meta.dtype)

    @staticmethod
    def rows(x: Tensor, start: int, stop: int) -> Tensor:
        """Rows start … stop - 1."""
        return record_slice(x, 0, start, stop - start)

    @staticmethod
    def columns(x: Tensor, start: int, stop: int) -> Tensor:
        """Columns start … stop - 1."""
        return record_slice(x, 1, start, stop - start)

    @staticmethod
    def zeros(height: int, width: int, like: Tensor) -> Tensor:
        """Zeros in the dtype of `like`."""
        return filled((height, width), 0, node_of(like).meta.dtype)

    @staticmethod
    def join(xs: list[Tensor], dim: int) -> Tensor:
        """Matrices one after the other."""
        return xs[0] if len(xs) == 1 else cat(xs, dim)


class Stepped(NamedTuple):
    """What a step gives: the state, an LSTM's cell, and what the gradient needs besides."""

    m: Any
    c: Any
    kept: Sequence[Any]


class Slopes(NamedTuple):
    """Gradients of a step's inputs; None where nothing flows but through `s`."""

    x: Sequence[Any]
    s: Sequence[Any]
    h: Any = None
    c: Any = None
    m: Any = None  # no gradient: the state once more, where it is projected


class Cell(NamedTuple):
    """A kind of recurrent layer."""

    gates: int
    kept: int  # values per unit that a step keeps
    step: Callable[..., Stepped]  # (xp, x, s, h, c)
    # (xp, kept, m, h, c, gradient of m, gradient of the new c)
    slopes: Callable[..., Slopes]
    has_cell: bool = False
    apart: bool = False  # whether x and s have gradients of their own


def split(xp: Any, x: Any, count: int) -> list[Any]:
    """Columns in equal parts: gate by gate."""
    size = x.shape[1] // count if count else 0
    return [xp.columns(x, i * size, (i + 1) * size) for i in range(count)]


# ------------------------------------------------------------------------------- plain, LSTM, GRU


def _tanh_step(xp: Any, x: Any, s: Any, h: Any, c: Any) -> Stepped:
    return Stepped(xp.tanh(x[0] + s[0]), None, ())


def _tanh_slopes(xp: Any, kept: Any, m: Any, h: Any, c: Any, gm: Any, gc: Any) -> Slopes:
    g = [gm * (1 - m * m)]
    return Slopes(g, g)


def _relu_step(xp: Any, x: Any, s: Any, h: Any, c: Any) -> Stepped:
    return Stepped(xp.relu(x[0] + s[0]), None, ())


def _relu_slopes(xp: Any, kept: Any, m: Any, h: Any, c: Any, gm: Any, gc: Any) -> Slopes:
    g = [gm * xp.is_positive(m)]
    return Slopes(g, g)


def _lstm_step(xp: Any, x: Any, s: Any, h: Any, c: Any) -> Stepped:
    i, f, g, o = [of_x + of_s for of_x, of_s in zip(x, s, strict=True)]
    i, f, g, o = xp.sigmoid(i), xp.sigmoid(f), xp.tanh(g), xp.sigmoid(o)
    c = f * c + i * g
    return Stepped(o * xp.tanh(c), c, (i, f, g, o))


def _lstm_slopes(xp: Any, kept: Any, m: Any, h: Any, c: Any, gm: Any, gc: Any) -> Slopes:
    i, f, g, o = kept
    shown = xp.tanh(f * c + i * g)
    gc = gc + gm * o * (1 - shown * shown)
    slopes = [
        gc * g * i * (1 - i),
        gc * c * f * (1 - f),
        gc * i * (1 - g * g),
        gm * shown * o * (1 - o),
    ]
    return Slopes(slopes, slopes, None, gc * f, o * shown)


def _gru_step(xp: Any, x: Any, s: Any, h: Any, c: Any) -> Stepped:
    r, z = xp.sigmoid(x[0] + s[0]), xp.sigmoid(x[1] + s[1])
    n = xp.tanh(x[2] + r * s[2])
    return Stepped(n + z * (h - n), None, (r, z, n, s[2]))


def _gru_slopes(xp: Any, kept: Any, m: Any, h: Any, c: Any, gm: Any, gc: Any) -> Slopes:
    r, z, n, sn = kept
    gn = gm * (1 - z) * (1 - n * n)
    gr = gn * sn * r * (1 - r)
    gz = gm * (h - n) * z * (1 - z)
    return Slopes([gr, gz, gn], [gr, gz, gn * r], gm * z)


CELLS = {
    "RNN_TANH": Cell(1, 0, _tanh_step, _tanh_slopes),
    "RNN_RELU": Cell(1, 0, _relu_step, _relu_slopes),
    "LSTM": Cell(4, 4, _lstm_step, _lstm_slopes, has_cell=True),
    "GRU": Cell(3, 4, _gru_step, _gru_slopes, apart=True),
}


# ------------------------------------------------------------------------- one step as operation

# Inputs (x, s, h or c), attrs (kind,): an LSTM has the cell, the others the state. The result is
# m, in an LSTM with the new c behind it.


def _step_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, gates, state = metas
    need_float(attrs[0].lower() + "_cell", x.dtype)
    for meta in (gates, state):
        if meta.dtype is not x.dtype:
            raise RuntimeError(
                f"{attrs[0].lower()}_cell: expected one dtype; got {x.dtype.name} and "
                f"{meta.dtype.name}"
            )
    return meta_of((state.shape[0], state.shape[1] * (1 + CELLS[attrs[0]].has_cell)), x.dtype)


def _in(dtype: Any, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    return [to_dtype(t, dtype) for t in tensors]


def _step_expand(n: Any, *inputs: Tensor) -> Tensor:
    x, gates, state = _in(compute_dtype(n), inputs)
    stepped = _stepped(CELLS[n.attrs[0]], x, gates, state)
    found = stepped.m if stepped.c is None else cat([stepped.m, stepped.c], 1)
    return to_dtype(found, n.meta.dtype)


def _stepped(cell: Cell, x: Tensor, gates: Tensor, state: Tensor) -> Stepped:
    halves = [split(OfTensors, each, cell.gates) for each in (x, gates)]
    return cell.step(OfTensors, *halves, state, state)


def _step_slopes_expand(n: Any, g: Tensor, *inputs: Tensor) -> Tensor:
    g, x, gates, state = _in(compute_dtype(n), (g, *inputs))
    cell = CELLS[n.attrs[0]]
    gm, gc = split(OfTensors, g, 2) if cell.has_cell else (g, None)
    stepped = _stepped(cell, x, gates, state)
    found = cell.slopes(OfTensors, stepped.kept, stepped.m, state, state, gm, gc)
    last = found.c if cell.has_cell else found.h
    if last is None:
        height, width = node_of(state).meta.shape
        last = OfTensors.zeros(height, width, state)
    return to_dtype(cat([*found.x, *found.s, last], 1), n.meta.dtype)


def _step_samples(call: Any, gradient: bool) -> s.SampleRule:
    def sample(kind: str) -> s.Sample:
        width = 2 * CELLS[kind].gates
        inputs = [s.uniform(1, width), s.uniform(1, width, seed=1), s.uniform(1, 2, seed=2)]
        if gradient:  # whose gradients are those of the step's, tested there
            inputs.insert(0, s.uniform(1, 4 if kind == "LSTM" else 2, seed=3))
        return s.Sample(tuple(inputs), lambda *t: call(kind, *t), smooth=not gradient)

    return s.calls(*[lambda kind=kind: sample(kind) for kind in CELLS])


STEP_SLOPES: Op = Op(
    "recurrent_step_slopes",
    "composite",
    # inputs (g, x, s, state); the gradients of x, s and the state side by side; differentiated
    # through the expansion.
    infer=lambda metas, attrs, shape: meta_of(
        (metas[1].shape[0], sum([m.shape[1] for m in metas[1:]])), metas[1].dtype
    ),
    expand=_step_slopes_expand,
    saves="x",
    samples=_step_samples(lambda kind, *t: record(STEP_SLOPES, t, (kind,)), True),
)


def _step_rule(place: int) -> Any:
    def rule(g: Tensor, y: Tensor, *inputs: Tensor) -> Tensor:
        slopes = shared(y, lambda: record(STEP_SLOPES, (g, *inputs), y._node.attrs))
        widths = [node_of(x).meta.shape[1] for x in inputs]
        return record_slice(slopes, 1, sum(widths[:place]), widths[place])

    return rule


STEP: Op = Op(
    "recurrent_step",
    "composite",
    infer=_step_infer,
    expand=_step_expand,
    grads=(_step_rule(0), _step_rule(1), _step_rule(2)),
    saves="x",
    samples=_step_samples(lambda kind, *t: record(STEP, t, (kind,)), False),
)


def step(kind: str, x: Tensor, gates: Tensor, state: Tensor) -> list[Tensor]:
    """The state after a step (and the cell, of an LSTM) as one node."""
    y = record(STEP, (x, gates, state), (kind,))
    if not CELLS[kind].has_cell:
        return [y]
    return [contiguous(part) for part in split(OfTensors, y, 2)]  # each a value of its own
