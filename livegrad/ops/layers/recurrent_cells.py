"""One step of a recurrent layer and its gradient, written once for NumPy arrays and for tensors.

x   what the input adds to the gates, (N, gates * H)
s   what the state adds to them, h @ weight.T + bias
h   the state before the step; c, in an LSTM, its cell
m   the state after it, before an LSTM's projection
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.elementwise.comparison import gt
from livegrad.ops.elementwise.pointwise_math import sigmoid, tanh
from livegrad.ops.layers.composite import Array, Attrs, Metas, compute_dtype, need_float, to_dtype
from livegrad.ops.making.generate import filled
from livegrad.ops.products.matmul import matmul, transposed
from livegrad.ops.reductions.reduce import sum as total
from livegrad.ops.shaping.joining import cat, record_slice
from livegrad.ops.support import samples as s
from livegrad.ops.support.folds import sum_rows

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


class OfArrays:
    """The functions that steps are written with, of NumPy arrays."""

    tanh = staticmethod(np.tanh)
    matmul = staticmethod(np.matmul)
    turned = staticmethod(np.transpose)
    sum_rows = staticmethod(sum_rows)

    @staticmethod
    def sigmoid(x: Array) -> Array:
        """1 / (1 + exp(-x)), without overflow."""
        half = x.dtype.type(0.5)
        return np.asarray(np.tanh(x * half) * half + half)

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

    @staticmethod
    def sum_rows(x: Tensor) -> Tensor:
        """The sum of all rows."""
        return total(x, 0)


class Slopes(NamedTuple):
    """Gradients of a step's inputs; None where nothing flows but through `s`."""

    x: Any
    s: Any
    h: Any = None
    c: Any = None


class Cell(NamedTuple):
    """A kind of recurrent layer."""

    gates: int
    # step(xp, x, s, h, c) -> (m, new c)
    step: Callable[..., tuple[Any, Any]]
    # slopes(xp, x, s, h, c, gradient of m, gradient of new c) -> Slopes
    slopes: Callable[..., Slopes]


def _split(xp: Any, x: Any, count: int) -> list[Any]:
    size = x.shape[1] // count
    return [xp.columns(x, i * size, (i + 1) * size) for i in range(count)]


# ------------------------------------------------------------------------------- plain, LSTM, GRU


def _tanh_step(xp: Any, x: Any, s: Any, h: Any, c: Any) -> tuple[Any, Any]:
    return xp.tanh(x + s), None


def _tanh_slopes(xp: Any, x: Any, s: Any, h: Any, c: Any, gm: Any, gc: Any) -> Slopes:
    m = xp.tanh(x + s)
    g = gm * (1 - m * m)
    return Slopes(g, g)


def _relu_step(xp: Any, x: Any, s: Any, h: Any, c: Any) -> tuple[Any, Any]:
    before = x + s
    return before * xp.is_positive(before), None


def _relu_slopes(xp: Any, x: Any, s: Any, h: Any, c: Any, gm: Any, gc: Any) -> Slopes:
    g = gm * xp.is_positive(x + s)
    return Slopes(g, g)


def _lstm_gates(xp: Any, x: Any, s: Any) -> tuple[Any, Any, Any, Any]:
    i, f, g, o = _split(xp, x + s, 4)
    return xp.sigmoid(i), xp.sigmoid(f), xp.tanh(g), xp.sigmoid(o)


def _lstm_step(xp: Any, x: Any, s: Any, h: Any, c: Any) -> tuple[Any, Any]:
    i, f, g, o = _lstm_gates(xp, x, s)
    c = f * c + i * g
    return o * xp.tanh(c), c


def _lstm_slopes(xp: Any, x: Any, s: Any, h: Any, c: Any, gm: Any, gc: Any) -> Slopes:
    i, f, g, o = _lstm_gates(xp, x, s)
    shown = xp.tanh(f * c + i * g)
    through = gm * o * (1 - shown * shown)
    gc = through if gc is None else gc + through
    slopes = [
        gc * g * i * (1 - i),
        gc * c * f * (1 - f),
        gc * i * (1 - g * g),
        gm * shown * o * (1 - o),
    ]
    g_all = xp.join(slopes, 1)
    return Slopes(g_all, g_all, None, gc * f)


def _gru_gates(xp: Any, x: Any, s: Any) -> tuple[Any, Any, Any, Any]:
    xr, xz, xn = _split(xp, x, 3)
    sr, sz, sn = _split(xp, s, 3)
    r = xp.sigmoid(xr + sr)
    return r, xp.sigmoid(xz + sz), xp.tanh(xn + r * sn), sn


def _gru_step(xp: Any, x: Any, s: Any, h: Any, c: Any) -> tuple[Any, Any]:
    _, z, n, _ = _gru_gates(xp, x, s)
    return n + z * (h - n), None


def _gru_slopes(xp: Any, x: Any, s: Any, h: Any, c: Any, gm: Any, gc: Any) -> Slopes:
    r, z, n, sn = _gru_gates(xp, x, s)
    gn = gm * (1 - z) * (1 - n * n)
    gr = gn * sn * r * (1 - r)
    gz = gm * (h - n) * z * (1 - z)
    return Slopes(xp.join([gr, gz, gn], 1), xp.join([gr, gz, gn * r], 1), gm * z)


CELLS = {
    "RNN_TANH": Cell(1, _tanh_step, _tanh_slopes),
    "RNN_RELU": Cell(1, _relu_step, _relu_slopes),
    "LSTM": Cell(4, _lstm_step, _lstm_slopes),
    "GRU": Cell(3, _gru_step, _gru_slopes),
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
    return meta_of((state.shape[0], state.shape[1] * (1 + (attrs[0] == "LSTM"))), x.dtype)


def _in(dtype: Any, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    return [to_dtype(t, dtype) for t in tensors]


def _step_expand(n: Any, *inputs: Tensor) -> Tensor:
    x, gates, state = _in(compute_dtype(n), inputs)
    m, c = CELLS[n.attrs[0]].step(OfTensors, x, gates, state, state)
    return to_dtype(m if c is None else cat([m, c], 1), n.meta.dtype)


def _step_slopes_expand(n: Any, g: Tensor, *inputs: Tensor) -> Tensor:
    g, x, gates, state = _in(compute_dtype(n), (g, *inputs))
    gm, gc = _split(OfTensors, g, 2) if n.attrs[0] == "LSTM" else (g, None)
    found = CELLS[n.attrs[0]].slopes(OfTensors, x, gates, state, state, gm, gc)
    last = found.c if n.attrs[0] == "LSTM" else found.h
    if last is None:
        height, width = node_of(state).meta.shape
        last = OfTensors.zeros(height, width, state)
    return to_dtype(cat([found.x, found.s, last], 1), n.meta.dtype)


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


def shared(y: Tensor, make: Callable[[], Tensor]) -> Tensor:
    """What `make` records, once for all the rules of one node: `y` is made anew for each node."""
    found = y.__dict__.get("_shared")
    if found is None:
        found = y.__dict__["_shared"] = make()
    return found


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
    return _split(OfTensors, y, 2) if kind == "LSTM" else [y]
