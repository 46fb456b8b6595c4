"""Kernels of recurrent layers: values against references in twice the precision, and their bits."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.graph.record import record
from livegrad.ops.layers.recurrent import (
    RECURRENT,
    SLOPES,
    Layout,
    Widths,
    backward,
    forward,
    recurrent,
)
from livegrad.ops.layers.recurrent_cells import CELLS, OfArrays
from livegrad.runtime import sight

WIDE = {np.float32: np.float64, np.float64: np.longdouble}


class Case:
    """Random inputs of a layer in one direction."""

    def __init__(
        self, kind: str, sizes: list[int], hidden: int, state: int | None = None,
        reverse: bool = False, packed: bool | None = None, dtype: Any = np.float32, seed: int = 0,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(seed)
        projected = state is not None
        packed = len(set(sizes)) > 1 if packed is None else packed
        self.layout = Layout(kind, reverse, kind == "GRU", projected, packed)
        self.sizes = sizes
        gates, width = CELLS[kind].gates * hidden, state or hidden
        count, rows = max(sizes, default=2), sum(sizes)
        shapes = {
            "gates": (rows, gates),
            "h": (count, width),
            "weight": (gates, width),
            "c": (count, hidden),
            "bias": (gates,),
            "projection": (width, hidden),
        }
        scales = {"weight": width**-0.5, "projection": hidden**-0.5}
        self.inputs = [
            np.asarray(sizes, np.int64)
            if name == "sizes"
            else (rng.standard_normal(shapes[name]) * scales.get(name, 1)).astype(dtype)
            for name in self.layout.names
        ]
        self.widths = Widths(gates, width, hidden)
        g_width = sum(self.widths.kept(self.layout)[:2])
        self.g = rng.standard_normal((rows, g_width)).astype(dtype)
        self.dtype = dtype

    def wide(self, x: np.ndarray) -> np.ndarray:
        return x.astype(WIDE[self.dtype]) if x.dtype == self.dtype else x

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """What the two kernels give."""
        tensors = [lg.tensor(x) for x in self.inputs]
        kept = record(RECURRENT, tensors, tuple(self.layout))
        slopes = record(SLOPES, (lg.tensor(self.g), kept, *tensors), tuple(self.layout))
        return kept.numpy(), slopes.numpy()

    def reference(self) -> tuple[np.ndarray, np.ndarray]:
        given = self.layout.named([self.wide(x) for x in self.inputs])
        kept = forward(OfArrays, self.layout, given, self.sizes)
        return kept, backward(OfArrays, self.layout, self.wide(self.g), kept, given, self.sizes)


def check(case: Case) -> None:
    for got, wanted in zip(case.run(), case.reference(), strict=True):
        assert got.shape == wanted.shape
        # Roundings grow with the length of sums and, a little, from step to step.
        bound = 32 * np.finfo(case.dtype).eps * max(1.0, np.abs(wanted).max(initial=0))
        assert np.abs(got - wanted).max(initial=0) <= bound


SIZES = [
    [3, 3, 3, 3],
    [1, 1, 1],
    [8] * 5,
    [17, 17],
    [5, 4, 4, 2, 1],
    [9, 9, 8, 1],
    [20, 3, 3],
    [2],
]


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("hidden", [1, 3, 16, 20, 33, 64])
def test_values(kind: str, reverse: bool, hidden: int) -> None:
    for seed, sizes in enumerate(SIZES):
        check(Case(kind, sizes, hidden, reverse=reverse, seed=seed))


@pytest.mark.parametrize("kind", CELLS)
def test_values_in_float64(kind: str) -> None:
    for seed, sizes in enumerate(SIZES):
        check(Case(kind, sizes, 5 + 7 * seed, reverse=bool(seed % 2), dtype=np.float64, seed=seed))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("hidden", "state"), [(2, 1), (16, 8), (33, 17), (40, 16)])
def test_projections(hidden: int, state: int, reverse: bool) -> None:
    for seed, sizes in enumerate(SIZES):
        check(Case("LSTM", sizes, hidden, state, reverse, seed=seed))


@pytest.mark.parametrize("kind", CELLS)
def test_no_steps_and_no_sequences(kind: str) -> None:
    check(Case(kind, [], 4))  # first states only
    check(Case(kind, [], 4, packed=True))
    check(Case(kind, [0, 0, 0], 4))


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precisions_are_rounded_once_per_result(kind: str, dtype: str) -> None:
    """What is carried from step to step is not rounded."""
    narrow = getattr(lg, dtype)
    case = Case(kind, [3, 3, 2, 1], 5)
    tensors = [lg.tensor(x).to(narrow) if x.dtype == np.float32 else lg.tensor(x)
               for x in case.inputs]  # fmt: skip
    wide = [x.float() if x.dtype is narrow else x for x in tensors]
    got = record(RECURRENT, tensors, tuple(case.layout))
    wanted = record(RECURRENT, wide, tuple(case.layout)).to(narrow)
    assert got.dtype is narrow
    assert got.tolist() == wanted.tolist()


# ------------------------------------------------------------------------------------------ bits


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("sizes", [[37] * 3, [37, 30, 29, 8, 7, 1]])
def test_bits_do_not_depend_on_threads(kind: str, sizes: list[int]) -> None:
    case = Case(kind, sizes, 20)
    before = lg.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            lg.set_num_threads(threads)
            found.append([x.tobytes() for x in case.run()])
    finally:
        lg.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_sequence_has_the_same_bits_alone_and_among_others(kind: str, reverse: bool) -> None:
    lengths = [9, 7, 7, 6, 5, 5, 4, 2, 2, 1, 1]
    sizes = [sum(length > t for length in lengths) for t in range(lengths[0])]
    case = Case(kind, sizes, 19, 5 if kind == "LSTM" else None, reverse)
    kept, slopes = case.run()
    starts = np.concatenate(([0], np.cumsum(sizes)))
    for number, length in enumerate(lengths):
        rows = starts[:length] + number
        alone = Case(kind, [1] * length, 19, 5 if kind == "LSTM" else None, reverse)
        own = {"gates": rows, "h": [number], "c": [number]}
        given = case.layout.named(case.inputs)
        alone.inputs = [
            getattr(given, name)[own[name]] if name in own else getattr(given, name)
            for name in alone.layout.names
        ]
        alone.g = case.g[rows]
        a, b = alone.run()
        assert a.tobytes() == kept[rows].tobytes()
        assert b.tobytes() == slopes[[*rows, len(kept) + number]].tobytes()


def test_bits_do_not_depend_on_the_length_that_follows() -> None:
    long, short = Case("GRU", [4] * 9, 21), Case("GRU", [4] * 5, 21)
    short.inputs = [x[:20] if name == "gates" else x
                    for name, x in zip(long.layout.names, long.inputs, strict=True)]  # fmt: skip
    assert short.run()[0].tobytes() == long.run()[0][:20].tobytes()


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_bits_are_the_same_piece_by_piece(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = getattr(nn, kind)(5, 12, num_layers=2, bidirectional=True)
    x = np.random.default_rng(0).standard_normal((7, 3, 5)).astype(np.float32)

    def trained() -> list[bytes]:
        layer.zero_grad()
        y, _ = layer(lg.tensor(x))
        (y * y).sum().backward()
        return [
            y.detach().numpy().tobytes(),
            *[p.grad.numpy().tobytes() for p in layer.parameters()],
        ]

    monkeypatch.setattr(sight.Policy, "pieces", True)
    pieces = trained()
    monkeypatch.setattr(sight.Policy, "pieces", False)
    monkeypatch.setattr(sight.Policy, "whole", True)
    monkeypatch.setattr(sight.Runtime, "by_pieces", False)
    assert trained() == pieces


# ------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("sizes", [[9, 9, 9], [1, 3, 2], [-4, 3], [2, 2, 2, 2, 2]])
@pytest.mark.parametrize("reverse", [False, True])
def test_sizes_that_do_not_fit_lead_nowhere(sizes: list[int], reverse: bool) -> None:
    """Nothing outside of the rows is read or written, whatever the sizes say."""
    case = Case("LSTM", [3, 2, 1], 4, reverse=reverse)
    case.inputs[-1] = np.asarray(sizes, np.int64)
    kept, slopes = case.run()
    assert kept.shape == (6, 24)
    assert slopes.shape == (9, 20)


def test_not_a_number_stays_with_its_sequence() -> None:
    case = Case("LSTM", [9] * 4, 6)
    case.inputs[0][9 + 2] = np.nan  # the second step of sequence 2
    kept, _ = case.run()
    bad = np.isnan(kept).any(1).reshape(4, 9)
    assert bad.any(0).tolist() == [i == 2 for i in range(9)]
    assert bad[:, 2].tolist() == [False, True, True, True]


def test_relu_of_infinities() -> None:
    case = Case("RNN_RELU", [1], 2)
    case.inputs[0][:] = [[-np.inf, np.inf]]
    assert case.run()[0].tolist() == [[0.0, np.inf]]


def test_wrong_shapes_and_dtypes_are_refused() -> None:
    gates, h, weight = lg.ones(6, 8), lg.ones(3, 2), lg.ones(8, 2)
    with pytest.raises(RuntimeError, match=r"c has shape \[3, 3\]; expected \[3, 2\]"):
        recurrent("LSTM", gates, h, weight, c=lg.ones(3, 3))
    with pytest.raises(RuntimeError, match="weight has dtype float64"):
        recurrent("LSTM", gates, h, weight.double(), c=h)


@pytest.mark.skipif(sys.platform != "linux", reason="maps pages by Linux's numbers")
def test_nothing_is_touched_out_of_bounds(python: Any) -> None:
    done = python("from tests.compiler.recurrence_bounds import main; main()", check=False)
    assert done.stdout == "within bounds\n", (done.returncode, done.stderr)
