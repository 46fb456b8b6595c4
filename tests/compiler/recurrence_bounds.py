"""Runs the kernels of recurrent layers on buffers between pages that nobody may touch.

A process of its own, since a read or write out of bounds ends it: tests/compiler/test_recurrence.py
"""

from __future__ import annotations

import random

import numpy as np

from livegrad import dtypes
from livegrad.compiler import recurrence
from livegrad.compiler.lowerings.panels import generate_panels
from livegrad.compiler.lowerings.recurrent import CHUNK, scratch_columns
from livegrad.compiler.panels import PANEL, full
from livegrad.ops.layers.recurrent import Layout, Widths
from tests.compiler.guarded import Pages, kernel, run


def run_layer(chance: random.Random, pages: Pages) -> None:
    """A random layer, forward and backward; packed ones with sizes that are nonsense, too."""
    kind = chance.choice(["LSTM", "GRU", "RNN_TANH"])
    dtype = chance.choice([dtypes.float32, dtypes.float64])
    projected, packed = kind == "LSTM" and chance.random() < 0.4, chance.random() < 0.6
    layout = Layout(kind, chance.random() < 0.5, kind == "GRU", projected, packed)
    hidden = chance.choice([1, 3, 16, 17, 32, 40])
    state = chance.choice([1, 5, 16, 17]) if projected else hidden
    widths = Widths(layout.cell.gates * hidden, state, hidden)
    count, steps = chance.choice([1, 2, 3, 4, 5, 8, 9]), chance.choice([1, 2, 4])
    sizes = [count] * steps
    if packed:
        sizes = sorted([chance.randint(0, count) for _ in sizes], reverse=True)
    rows = sum(sizes)
    if packed and chance.random() < 0.4:
        sizes = [chance.randint(-2, count + 3) for _ in sizes]
    rng = np.random.default_rng(chance.randrange(1 << 30))
    kept, slopes = widths.kept(layout), widths.slopes(layout)

    def drawn(*shape: int) -> int:
        return pages.address((rng.standard_normal(shape) / 3).astype(dtype.storage))

    def in_panels(depth: int, width: int) -> int:
        return drawn(full(width) // PANEL, depth, PANEL)

    at = {
        "kept": drawn(rows, sum(kept)), "gates": drawn(rows, widths.gates),
        "h": drawn(count, state), "c": drawn(count, hidden), "bias": drawn(widths.gates),
        "sizes": pages.address(np.array(sizes, np.int64)),
        "weight": in_panels(state, widths.gates), "projection": in_panels(hidden, state),
    }  # fmt: skip
    numbers = [count, steps, rows, CHUNK, *widths]
    scratch = drawn(CHUNK, scratch_columns(layout, *widths))
    items = -(-count // CHUNK)
    forward = kernel(recurrence.generate_recurrent, tuple(layout), dtype)
    places = [at[name] for name in recurrence.recurrent_pointers(layout)]
    run(forward, [items, *places, *numbers], scratch)
    at |= {
        "g": drawn(rows, sum(kept[:2])), "slopes": drawn(rows + count, sum(slopes)),
        "weight": in_panels(widths.gates, state), "projection": in_panels(state, hidden),
    }  # fmt: skip
    backward = kernel(recurrence.generate_slopes, tuple(layout), dtype)
    places = [at[name] for name in recurrence.slopes_pointers(layout)]
    run(backward, [items, *places, *numbers], scratch)


def run_panels(chance: random.Random, pages: Pages) -> None:
    turned, dtype = chance.random() < 0.5, chance.choice([dtypes.float32, dtypes.float64])
    depth, width = chance.choice([1, 5, 16, 33]), chance.choice([1, 15, 16, 40])
    panels = full(width) // PANEL
    matrix = pages.address(np.ones((depth, width), dtype.storage))
    out = pages.address(np.zeros((panels, depth, PANEL), dtype.storage))
    run(kernel(generate_panels, turned, dtype), [panels, out, matrix, depth, width])


def main() -> None:
    chance = random.Random(0)
    pages = Pages(chance)
    for _ in range(200):
        run_layer(chance, pages)
        run_panels(chance, pages)
        pages.free()
    print("within bounds")


if __name__ == "__main__":
    main()
